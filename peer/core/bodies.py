"""Inbox and outbox: the bodies that were received and released, by round; no I/O.

Two rounds are enough in each. A peer completes a round only once every receiver of the body of the round before has
used it. So after a stop only the last completed round's body can still be needed; the checkpoint keeps it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from dpeer.peer.core import wire
from dpeer.peer.core.limits import PAYLOAD_FINGERPRINTS
from dpeer.peer.core.wire import Frames
from dpeer.peer.learner import Buffer, Payload

WINDOWS = 64
WIDTH = 32
WHOLE = WINDOWS * WIDTH
"""A payload of at most so many bytes is looked at whole."""


class PayloadFingerprint:
    """A hash of a payload's size and of some of its bytes, made while they come.

    A large payload is looked at through 64 evenly spread windows of 32 bytes, so that a body of a hundred megabytes
    costs the event loop no more than a small one. It does not matter how the bytes are cut into buffers.

    This finds accidents: a body that was trained or noised anew differs practically everywhere. It is no defence
    against a change of a few bytes where no window is.

    Args:
        nbytes: How many bytes the payload has.
    """

    def __init__(self, nbytes: int) -> None:
        self._hash = hashlib.blake2b(nbytes.to_bytes(8, "little"), digest_size=16)
        self._step = None if nbytes <= WHOLE else (nbytes - WIDTH) // (WINDOWS - 1)
        self._at = 0

    def add(self, data: Buffer) -> None:
        """Take in the bytes that come next."""
        view = memoryview(data)
        if not view.nbytes:
            return
        view = view.cast("B")
        begin, self._at = self._at, self._at + view.nbytes
        if self._step is None:
            self._hash.update(view)
            return
        step, end = self._step, self._at
        first, over = (begin - WIDTH) // step + 1, min(-(-end // step), WINDOWS)  # the windows that have bytes here
        low = min(-(-begin // step), over)
        high = max(low, min((end - WIDTH) // step + 1, over))  # those from `low` on and before `high` are here whole
        parts = [view[max(one * step - begin, 0) : one * step - begin + WIDTH] for one in range(first, low)]
        if high > low:  # all at once, at a tenth of the time
            windows = np.ndarray((high - low, WIDTH), np.uint8, view, low * step - begin, (step, 1))
            parts.append(memoryview(windows.tobytes()))
        parts += [view[one * step - begin : one * step - begin + WIDTH] for one in range(high, over)]
        self._hash.update(b"".join(parts))

    def digest(self) -> bytes:
        """The fingerprint of the bytes so far."""
        return self._hash.digest()


def fingerprint_of(payload: Payload) -> bytes:
    """The fingerprint of a whole payload."""
    found = PayloadFingerprint(sum(memoryview(buffer).nbytes for buffer in payload))
    for buffer in payload:
        found.add(buffer)
    return found.digest()


@dataclass(frozen=True)
class Received:
    """A neighbor's body of one round."""

    payload: Payload
    wire_bytes: int
    name: bytes = b""
    """`wire.body_name`; empty if it is not to be recognised."""


@dataclass
class _First:
    """The first body of a rank for a round, in short."""

    fingerprint: bytes
    name: bytes
    nbytes: int
    contradicted: bool = False
    """Whether a second body came with other bytes."""


class Inbox:
    """Holds the neighbors' bodies until the round loop asks for them.

    A neighbor sends a round's body only once it knows that this peer has reached the round before. Memory is bounded
    by two bodies a neighbor, and the fingerprints of a few more: a second body for a round is never used, but one with
    other bytes shows that the neighbor has released that round twice.

    Args:
        different: Called with rank and round when a second body differs from the first; once for that rank and round.

    Attributes:
        earliest: The earliest round whose bodies are still of use.
        dropped: Bodies that came too late, too early, twice, or ("different") a second time and not with the same
            bytes, counted by these words.
    """

    def __init__(self, different: Callable[[int, int], None] = lambda rank, number: None) -> None:
        self.earliest = 0
        self.dropped: Counter[str] = Counter()
        self._different = different
        self._rounds: dict[int, dict[int, Received]] = {}
        self._firsts: dict[int, dict[int, _First]] = {}

    def wants(self, rank: int, number: int) -> bool:
        """Whether round `number`'s body of this rank is of use.

        A body that is of no use is counted: here, or if it is a second one by `compare`, once its bytes have come.
        """
        if self._first(rank, number):
            return False
        if self.earliest <= number <= self.earliest + 1:
            return True
        self.dropped["late" if number < self.earliest else "early"] += 1
        return False

    def put(self, rank: int, number: int, received: Received) -> bool:
        """Keep a body, or drop and count it when it is of no use; return whether it is kept."""
        if self._first(rank, number):
            self.compare(rank, number, fingerprint_of(received.payload))
        elif self.wants(rank, number):
            self._rounds.setdefault(number, {})[rank] = received
            nbytes = wire.size(received.payload)
            self._firsts.setdefault(rank, {})[number] = _First(fingerprint_of(received.payload), received.name, nbytes)
            return True
        return False

    def compare(self, rank: int, number: int, found: bytes) -> None:
        """Count a body that `wants` had no use for, if it is a second one; `found` is its fingerprint."""
        first = self._first(rank, number)
        if first is None:
            return
        if found == first.fingerprint:
            self.dropped["duplicate"] += 1
            return
        self.dropped["different"] += 1
        if not first.contradicted:
            first.contradicted = True
            self._different(rank, number)

    def open(self, number: int) -> None:
        """Begin a round: bodies of earlier rounds are late from now on."""
        self.earliest = number
        for old in [kept for kept in self._rounds if kept < number]:
            self.dropped["late"] += len(self._rounds.pop(old))
        for firsts in self._firsts.values():
            for old in sorted(firsts)[:-PAYLOAD_FINGERPRINTS]:
                del firsts[old]

    def forget(self, rank: int) -> None:
        """Forget a rank's bodies, and that they came: it has come back, and releases others."""
        self._firsts.pop(rank, None)
        for bodies in self._rounds.values():
            bodies.pop(rank, None)

    def knows(self, rank: int, number: int) -> bool:
        """Whether a body of this rank for round `number` has come, as far as is remembered."""
        return self._first(rank, number) is not None

    def holds(self, rank: int) -> dict[bytes, int]:
        """The bodies of this rank that came and are remembered: bytes by name."""
        return {one.name: one.nbytes for one in self._firsts.get(rank, {}).values() if one.name}

    def has(self, rank: int, number: int) -> bool:
        """Whether round `number`'s body of this rank is here."""
        return rank in self._rounds.get(number, {})

    def take(self, number: int, ranks: Iterable[int]) -> dict[int, Received]:
        """Round `number`'s bodies of the ranks, as far as they are here, in rank order; from then on others are late.

        Bodies of the next round stay.
        """
        here = self._rounds.pop(number, {})
        self.earliest = number + 1
        return {rank: here[rank] for rank in sorted(ranks) if rank in here}

    def __len__(self) -> int:
        """The number of bodies here."""
        return sum(len(bodies) for bodies in self._rounds.values())

    def _first(self, rank: int, number: int) -> _First | None:
        return self._firsts.get(rank, {}).get(number)


@dataclass
class Outbox:
    """Encoded bodies and their receivers, by round.

    Attributes:
        frames: The encoded body.
        receivers: The ranks that the body is for.
        unsent: Those of them that it is still to be sent to.
        sent: Those that it was sent to.
        again: Rounds that were released twice: what receivers hold may be of either body.
        held: By rank, what its last hello named as held of the bodies: bytes by name.
    """

    frames: dict[int, Frames] = field(default_factory=dict)
    receivers: dict[int, tuple[int, ...]] = field(default_factory=dict)
    unsent: dict[int, set[int]] = field(default_factory=dict)
    sent: dict[int, set[int]] = field(default_factory=dict)
    again: set[int] = field(default_factory=set)
    held: dict[int, Mapping[bytes, int]] = field(default_factory=dict)

    def add(self, number: int, frames: Frames, receivers: tuple[int, ...]) -> None:
        """Keep round `number`'s body, for these ranks; forget bodies that are needed no more."""
        if number in self.frames:
            self.again.add(number)
        self.frames[number] = frames
        self.receivers[number] = receivers
        self.unsent[number], self.sent[number] = set(), set()
        self.reach(number)

    def reach(self, number: int) -> None:
        """Forget the bodies that are of no use once this peer's current round is `number`: all but the last one.

        That is what `cut_off` of the schedule relies on. A body of a large model is a large part of a peer's memory.
        """
        for old in [kept for kept in self.frames if kept < number - 1]:
            for table in (self.frames, self.receivers, self.unsent, self.sent):
                del table[old]
            self.again.discard(old)

    def ask(self, rank: int, current_round: int) -> None:
        """Plan to send (again) the bodies of use to a rank that has shaken hands and works on `current_round`."""
        for number, receivers in self.receivers.items():
            if number >= current_round and rank in receivers:
                self.unsent[number].add(rank)

    def pending(self) -> list[tuple[int, int]]:
        """Round and receiver of every body that is still to be sent, oldest first."""
        if not any(self.unsent.values()):  # as after most messages
            return []
        return [(number, rank) for number in sorted(self.unsent) for rank in sorted(self.unsent[number])]

    def bytes_sent(self, number: int) -> int:
        """The bytes of all copies of round `number`'s body: header and buffers, as they would travel in one message.

        A copy that was sent again counts once.
        """
        return len(self.sent[number]) * wire.size(self.frames[number]) if number in self.frames else 0
