"""Limits: bounds on messages, rates, connections and kept state, transports included; the token bucket; no I/O.

A bound is beyond an honest peer's needs. Anything beyond it is dropped and counted, or not kept.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

# -- one message -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Limits:
    """The limits of one message."""

    header_bytes: int = 2**20 + 2**10
    """A hello carries the manifest: about 60 bytes a parameter tensor. Two member lists together fit, too."""
    small_header_bytes: int = 2**16
    """Every other header."""
    payload_bytes: int = 0
    """All buffers of a body together; known from the own model, since every peer has the same body."""
    buffers: int = 4096
    """Of a body. One of dpeer's own has a few; each costs calls, however short it is."""


HEADER_CONTAINERS = 2**16
"""Lists and tables in a header. A hello's manifest has two a parameter tensor, and a header of 1 MiB at most 23
thousand of these. One byte can stand for an empty list: without a bound, 1 MiB takes a second, and 80 MB."""

HEADER_DEPTH = 16
"""Nesting of lists and tables, at most: the manifest has five levels."""

HEADER_FIELDS = 32
"""Of a header: a hello has about twenty, and later versions may add some."""

CHUNK = 2**18
"""Bytes of the longest chunk, over ZeroMQ. With 8 MiB 45 MB cost a tenth less processor time (some 8 ms a body); longer
ones show less often that a neighbor is alive, and one may have to come within `dead_after`: 140 kbit/s by default."""

LEAST_CHUNK = 2**16
"""Bytes that a chunk of others must have, but for the last one of a buffer: very short ones would cost many times their
bytes."""

MOST_AWAY = 600
"""Seconds: the longest absence that a neighbor may announce, for rounds to wait for its return."""

# -- messages and bytes a second -------------------------------------------------------------------------------------

EACH_SECOND = 100.0
"""Tokens a second of a neighbor, or of a stranger's link: each has one bucket, from which all that it costs is paid.
A message costs one token, and more if it is large (below). A heartbeat a second is usual; a body that is used pays for
eight messages, so that rounds may be as quick as they like."""

AT_ONCE = 1000.0
"""Tokens to spend at once: on all that has waited while this peer stood still, or a large hello from every peer."""

FOR_A_BODY = 8.0
"""Tokens that a body in use pays back: for its header, and heartbeats on account of it."""

HEADER_UNIT = 2**12
"""For each so many bytes of a header one more is spent: they take about as long as another message."""

FRAMES_UNIT = 16
"""For each so many frames of a message one more is spent."""

HELLO_AGAIN = 100.0
"""Cost of a second hello on a neighbor's link. It is answered, and has bodies sent again; an honest neighbor repeats
its hello after a silence of `dead_after`."""

USELESS_BODY = 250.0
"""Cost of the chunks of a body of no use: four at once, since after a broken link one or two come again. One that
begins before the link's earlier one was whole costs as much; if that cannot be paid it is of no use."""

LINE = 100.0
"""Cost of a line of the log that a neighbor's message causes: ten at once, and one a second if nothing else is paid.
One that cannot be paid is left out. Lines about dropped messages are free: each reason has one."""

REST = 0.001
REST_AFTER = 2
"""After so many messages for which nothing was left, nothing is read for so many seconds: small ones are late then, and
only costly ones are lost. A flood has at most 2000 messages a second read, which take a fifth of a core. Others have
their turns meanwhile: beside a flood 2000 chunks a second, 130 MB of the shortest."""

# -- a message whose end has not come ------------------------------------------------------------------------------

AROUND = 2**18
"""Bytes of a message on the wire beside its header and its buffers, at most: the lengths of 4096 buffers, their
seals, the handshake, and the bytes that libzmq reads at once."""

LOOK = 0.05
"""Seconds between two looks at the bytes that libzmq holds of a message whose end has not come. A connection is ended
whose bytes are more than all whole messages that may wait (`UNREAD`) and two more. Beside these its sender can fill the
bytes of its line in this time: 60 MB at 10 Gbit/s. A look takes some microseconds."""

# -- connections, where keys are used ----------------------------------------------------------------------------------

MOST_UNPROVED = 32
"""Connections that may be under way to a proof of a key at once. More neighbors than these that start in the same
moment only have to try again. Times the longest frame this is the memory that strangers can fill (32 MiB)."""

HANDSHAKE = 5.0
"""Seconds that a handshake may take; a slow line needs three times its round trip. (libzmq's own value is 30.)"""

PROVE_WITHIN = 10.0
"""Seconds in which a connection has to prove a key and to send a message."""

KEEPALIVE_IDLE = 30
"""Seconds without a word on a connection after which the operating system asks whether the other end is there."""

UNREPORTED = 8
"""How many events of refused connections may wait to be read; further ones are added to the next one."""

# -- kept state ------------------------------------------------------------------------------------------------------

DIGESTS = 4
"""Rounds of which the digest of each neighbor's body is kept when a round begins."""

SEND_QUEUES = 1024
"""Links that may have a send queue. A neighbor has one; the others are strangers that do not read."""

STRANGERS = 4096
"""Links of strangers that are remembered: anybody can open any number of links."""

LINES_OF_STRANGERS = 256
"""Lines of the log about them."""

ASKED = 1024
"""Strangers that are remembered because they were asked for a hello; one is asked once in `ASK_AGAIN` seconds."""

ASK_AGAIN = 5.0
"""Seconds after which a sender without a hello is asked for it again."""

UNREAD = 4
"""Messages that may wait to be decoded, in each socket's queue here and in each connection's queues in libzmq,
before their sender has to wait: of chunks 1 MiB each. (libzmq counts whole messages; for what is not
whole, see `LOOK`.)"""

# -- the token bucket ------------------------------------------------------------------------------------------------


@dataclass
class _Bucket:
    left: float
    since: float


def sender_of(rank: int) -> Hashable:
    """The name of a neighbor as a sender: it has its tokens on whatever link it speaks."""
    return "rank", rank


class RateLimiter:
    """Token bucket for each sender: its tokens grow with time, up to a bound.

    An honest neighbor's messages are few, or bodies that are used; endless useless ones would keep the event loop busy.

    Args:
        a_second: Tokens that each sender gets a second.
        at_most: Tokens at the start, and the most.
        senders: How many are remembered; those silent for longest are forgotten.
    """

    def __init__(self, a_second: float, at_most: float, senders: int) -> None:
        self._a_second, self._at_most, self._senders = a_second, at_most, senders
        self._buckets: dict[Hashable, _Bucket] = {}

    def spend(self, who: Hashable, cost: float, now: float) -> bool:
        """Take this from a sender's tokens, if it has as many; return whether it had."""
        bucket = self._buckets.pop(who, None) or _Bucket(self._at_most, now)
        self._buckets[who] = bucket  # the last one of all
        if len(self._buckets) > self._senders:
            del self._buckets[next(iter(self._buckets))]
        bucket.left = min(self._at_most, bucket.left + max(now - bucket.since, 0.0) * self._a_second)
        bucket.since = max(bucket.since, now)
        if bucket.left < cost:
            return False
        bucket.left -= cost
        return True

    def earn(self, who: Hashable, gain: float) -> None:
        """Give a sender tokens back."""
        if who in self._buckets:
            self._buckets[who].left = min(self._at_most, self._buckets[who].left + gain)
