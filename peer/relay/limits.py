"""Limits of a relay: every bound on what a stranger or a listed key may cost it."""

from __future__ import annotations

MOST_UNPROVED = 128
"""Connections that have not proved a key, at most. Of more, the oldest of the host with the most is ended."""

PROVE_WITHIN = 10.0
"""Seconds in which a connection has to prove a key."""

QUIET = 120.0
"""Seconds without a byte, or in which one end takes no byte, after which a joint is ended: peers send a heartbeat each
second."""

LOOK = 5.0
"""Seconds between two looks for joints that are quiet, and at the files of keys."""

REPORT = 30.0
"""Seconds for which refused connections are counted before a line of the log tells them."""

CALLS_A_SECOND = 4.0
CALLS_AT_ONCE = 32.0
"""Claims of one key that make another peer dial or lines of the log: in the long run, with half as many for each listed
key, and at once."""

LINES_A_SECOND = 0.1
LINES_AT_ONCE = 300.0
"""Lines of the log that one key may cause, in the long run and at once; further ones are counted."""

RATE = 125_000_000.0
"""Bytes a second that one key may send, by default: a line of 1 Gbit/s. As many may come at once after a silence."""

CONNECTIONS = 256
"""Connections of one key, by default: one to be called, and one for each peer that it is joined to."""
