"""Relay: joins two connections that peers have dialled, for peers that no other host can dial."""
