"""The decisions of a peer, sans-IO: no sockets, no clock, no tasks; time and messages are passed in."""
