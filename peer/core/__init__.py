"""Sans-IO core of a peer: `protocol.Core` and its parts; no sockets, clock or tasks; callers pass in the time."""
