"""A federation run from its configuration: one peer, or all peers of a machine in a process each."""
