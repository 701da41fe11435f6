"""Making running peers from settings: one peer, a process for each peer, or all peers in one process."""
