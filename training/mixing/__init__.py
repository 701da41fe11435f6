"""Mixing: what a peer releases in a round, and how it averages its body with what its neighbors released."""
