"""Daemon of a peer: wire format, transports, round loop, liveness, checkpoints and metrics; imports no torch."""
