"""From settings to running peers: one peer, a process for each peer, or all peers in one process."""
