"""Bodies: inbox, outbox with the receivers that still lack them, and the chunks in which long ones travel; no I/O.

Two rounds are enough in each. A peer completes a round only once every receiver of the body of the round before has
used it. So after a stop only the last completed round's body can still be needed; the checkpoint keeps it.

Between two chunks other messages have their turn, and a neighbor whose chunk is on its way cannot be heard: a chunk
takes less than the time after which silence is death on any line of 140 kbit/s or more (`limits.CHUNK`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import accumulate

from dpeer.exceptions import ProtocolError
from dpeer.peer.core import wire
from dpeer.peer.core.limits import DIGESTS
from dpeer.peer.core.wire import Body, Chunk, Frames
from dpeer.peer.learner import Payload
from dpeer.peer.transport import Link


@dataclass(frozen=True)
class Released:
    """This peer's body of one round; its digest is made once, for all neighbors."""

    payload: Payload
    digest: bytes

    @classmethod
    def of(cls, payload: Payload) -> Released:
        """The body with this payload, whose bytes are looked at."""
        return cls(payload, wire.digest_of(payload))


@dataclass(frozen=True)
class Received:
    """A neighbor's body of one round, its bytes with its header, and what names the list of its round."""

    payload: Payload
    wire_bytes: int
    uses: bytes = b""


class Inbox:
    """Holds the neighbors' bodies until the round loop asks for them.

    A neighbor sends a round's body only once it knows that this peer has reached the round before. Memory is bounded
    by two bodies a neighbor, and the digests of a few more. The same digest again is the same body; another one of a
    round is refused, for its sender has released that round twice. A body of a round that its sender has begun with
    another member list is as if it were not here.

    Args:
        log: Logs an event; arguments as those of `LogEvent`, fields as keywords.
        uses: What names the list with which this peer has begun a round; empty before that.

    Attributes:
        earliest: The earliest round whose bodies are still of use.
        dropped: Bodies that came too late, too early, twice, or ("different") after another one of their round,
            counted by these words.
    """

    def __init__(
        self,
        log: Callable[..., None] = lambda *event, **fields: None,
        uses: Callable[[int], bytes] = lambda number: b"",
    ) -> None:
        self.earliest = 0
        self._uses = uses
        self.dropped: Counter[str] = Counter()
        self._log = log
        self._rounds: dict[int, dict[int, Received]] = {}
        self._digests: dict[int, dict[int, list[bytes]]] = {}  # of the body that is kept, and one that was refused

    def wants(self, body: wire.Body) -> bool:
        """Whether a body is of use; one that is not is counted."""
        known = self._digests.get(body.rank, {}).get(body.round)
        if known is None:
            if self.earliest <= body.round <= self.earliest + 1:
                return True
            self.dropped["late" if body.round < self.earliest else "early"] += 1
        elif body.digest == known[0]:
            self.dropped["duplicate"] += 1
        else:
            self.dropped["different"] += 1
            if len(known) == 1:
                known.append(body.digest)
                self._log_second(body.rank, body.round)
        return False

    def _log_second(self, rank: int, number: int) -> None:
        self._log(
            "warning", "second-body",
            f"rank {rank} sent a second, different body for round {number} (the first is used): its folder was copied "
            "or rolled back to a backup, or two processes use it; with --privacy it has released that round twice, and "
            "its epsilon is higher than it says: let one process go on, with the folder as it was last (without "
            "--privacy, a round that was trained again after a crash can look like this, and does no harm)",
            neighbor=rank, round=number,
        )  # fmt: skip

    def put(self, body: wire.Body, received: Received) -> bool:
        """Keep a body that has come whole, unless it is of no use by now; returns whether it is kept."""
        if not self.wants(body):
            return False
        self._rounds.setdefault(body.round, {})[body.rank] = received
        self._digests.setdefault(body.rank, {})[body.round] = [body.digest]
        return True

    def open(self, number: int) -> None:
        """Begin a round: bodies of earlier rounds are late from now on."""
        self.earliest = number
        for old in [kept for kept in self._rounds if kept < number]:
            self.dropped["late"] += len(self._rounds.pop(old))
        for digests in self._digests.values():
            for old in sorted(digests)[:-DIGESTS]:
                del digests[old]

    def knows(self, rank: int, number: int) -> bool:
        """Whether a body of this rank for round `number` has come, as far as is remembered."""
        return number in self._digests.get(rank, {})

    def has(self, rank: int, number: int) -> bool:
        """Whether round `number`'s body of this rank is here."""
        return rank in self._fitting(number)

    def take(self, number: int, ranks: Iterable[int]) -> dict[int, Received]:
        """Round `number`'s bodies of the ranks, as far as they are here, in rank order; from then on others are late.

        Bodies of the next round stay.
        """
        here = self._fitting(number)
        self._rounds.pop(number, None)
        self.earliest = number + 1
        return {rank: here[rank] for rank in sorted(ranks) if rank in here}

    def _fitting(self, number: int) -> dict[int, Received]:
        """The bodies of a round that this peer could mix."""
        here, uses = self._rounds.get(number, {}), self._uses(number)
        return {rank: body for rank, body in here.items() if body.uses in (b"", uses)} if uses else here

    def __len__(self) -> int:
        """The number of bodies here."""
        return sum(len(bodies) for bodies in self._rounds.values())


@dataclass
class Outgoing:
    """An encoded body; its receivers, those of them that it is still to be sent to, and those that it was sent to."""

    frames: Frames
    receivers: tuple[int, ...]
    unsent: set[int] = field(default_factory=set)
    sent: set[int] = field(default_factory=set)


class Outbox(dict[int, Outgoing]):
    """This peer's bodies, by round."""

    def add(self, number: int, frames: Frames, receivers: tuple[int, ...]) -> None:
        """Keep round `number`'s body, for these ranks; forget bodies that are needed no more."""
        self[number] = Outgoing(frames, receivers)
        self.reach(number)

    def reach(self, number: int) -> None:
        """Forget the bodies that are of no use once this peer's current round is `number`: all but the last one.

        That is what `cut_off` of the schedule relies on. A body of a large model is a large part of a peer's memory.
        """
        for old in [kept for kept in self if kept < number - 1]:
            del self[old]

    def ask(self, rank: int, current_round: int) -> None:
        """Plan to send (again) the bodies of use to a rank that has shaken hands and works on `current_round`."""
        for number, one in self.items():
            if number >= current_round and rank in one.receivers:
                one.unsent.add(rank)

    def pending(self) -> list[tuple[int, int]]:
        """Round and receiver of every body that is still to be sent, oldest first."""
        return [(number, rank) for number in sorted(self) for rank in sorted(self[number].unsent)]

    def bytes_sent(self, number: int) -> int:
        """The bytes of all copies of round `number`'s body: header and buffers, as they would travel in one message.

        A copy that was sent again counts once.
        """
        return len(self[number].sent) * wire.size(self[number].frames) if number in self else 0


class ChunkedBody:
    """A body on its way on one link: gives one message after the other.

    Attributes:
        frames: The encoded body.
        over: Whether its last message has been taken.
        total: How many bytes its buffers have.
    """

    def __init__(self, frames: Frames) -> None:
        self.frames = frames
        self.over = self._begun = False
        self._offset = 0
        self._tag = b""
        self._rest = [view for frame in frames[1:] if (view := memoryview(frame).cast("B")).nbytes][::-1]
        self.total = sum(view.nbytes for view in self._rest)

    def next(self, chunk_bytes: int | None) -> Frames:
        """The next message, with at most `chunk_bytes` bytes of one of the body's buffers; the whole body if None."""
        if not self._begun:
            self._begun = True
            if chunk_bytes is None or self.total <= chunk_bytes:
                self.over = True
                return self.frames
            self._tag = wire.tag(self.frames[0])
            return [self.frames[0]]
        buffer, offset = self._rest.pop(), self._offset
        data = buffer[:chunk_bytes]
        if data.nbytes < buffer.nbytes:
            self._rest.append(buffer[data.nbytes :])
        self._offset += data.nbytes
        self.over = not self._rest
        return wire.chunk(self._tag, offset, data)


@dataclass
class PartialBody:
    """A body of which not all chunks have come, or whose last one just has.

    Attributes:
        body: The body as it was announced.
        wire_bytes: The bytes of its header and all of its buffers.
        buffer: Memory that the bytes are copied to; None where the body is not kept.
        since: Clock time at which the body was announced.
        last: Clock time of its last chunk.
        got: How many bytes have come.
    """

    body: Body
    wire_bytes: int
    buffer: memoryview | None
    since: float
    last: float
    got: int = 0

    def give_up(self) -> None:
        """Keep nothing of the body; the rest of it may come."""
        self.buffer = None

    def put(self, chunk: Chunk, now: float) -> None:
        """Take in the next chunk."""
        end = self.got + chunk.nbytes
        if self.buffer is not None:
            self.buffer[self.got : end] = chunk.data
        self.got, self.last = end, now

    @property
    def wanted(self) -> bool:
        """Whether it is kept."""
        return self.buffer is not None

    @property
    def complete(self) -> bool:
        """Whether all bytes have come."""
        return self.got == self.body.payload_bytes

    @property
    def payload(self) -> Payload:
        """The buffers of a body that is kept."""
        assert self.buffer is not None, "it is kept"
        ends = list(accumulate(self.body.sizes))
        return [self.buffer[end - size : end].toreadonly() for size, end in zip(self.body.sizes, ends, strict=True)]


class Reassembly:
    """The body on its way on each link. One whose link breaks is lost, and comes again as a whole.

    Chunks come in order, so nothing is sorted. The bytes of a body are out of sight before its last chunk has come.

    Args:
        buffer: Gives memory for a body, which may be used again once nothing refers to it; None for memory of its own.
        least: The fewest bytes of a chunk, except the last one of a buffer: very short ones would cost many times their
            bytes.
    """

    def __init__(self, buffer: Callable[[], memoryview | None], least: int = 1) -> None:
        self._buffer = buffer
        self._least = least
        self._partial: dict[Link, PartialBody] = {}

    def begin(self, link: Link, body: Body, wire_bytes: int, *, wanted: bool, now: float = 0.0) -> None:
        """Expect the chunks of a body that was announced on this link.

        Raises:
            ProtocolError: "incomplete": chunks of another body on the link have not come. The new body is begun.
        """
        earlier = self._partial.pop(link, None)
        if earlier is not None:
            earlier.give_up()  # its memory may be taken again
        buffer = (self._buffer() or memoryview(bytearray(body.payload_bytes))) if wanted else None
        self._partial[link] = PartialBody(body, wire_bytes, buffer, now, now)
        if earlier is not None and earlier.body.digest != body.digest:
            raise ProtocolError("incomplete", f"{earlier.got} of {earlier.body.payload_bytes} bytes of a body came")

    def get(self, link: Link) -> PartialBody | None:
        """The body on its way on this link; None without one."""
        return self._partial.get(link)

    def add(self, link: Link, chunk: Chunk, now: float = 0.0) -> PartialBody:
        """Take in a chunk; return the body that it belongs to.

        Raises:
            ProtocolError: "stray": the chunk is of no body that was announced, or is not the next one. "short-piece":
                it has too few bytes.
        """
        partial = self._partial.get(link)
        if partial is None or chunk.tag != partial.body.tag:
            raise ProtocolError("stray", "a chunk of a body that was not announced")
        end = chunk.offset + chunk.nbytes
        if chunk.offset != partial.got or end > partial.body.payload_bytes:
            raise ProtocolError("stray", f"a chunk at byte {chunk.offset}, expected at {partial.got}")
        if chunk.nbytes < self._least and end not in accumulate(partial.body.sizes):
            raise ProtocolError("short-piece", f"{chunk.nbytes} bytes inside a buffer, expected {self._least}")
        partial.put(chunk, now)
        if partial.complete:
            del self._partial[link]
        return partial

    def __len__(self) -> int:
        """The number of bodies on their way."""
        return len(self._partial)

    def forget(self, link: Link) -> None:
        """Drop the body on its way on this link, which is broken, or whose peer has gone."""
        self._partial.pop(link, None)

    def give_up_before(self, number: int) -> int:
        """Keep nothing of bodies of rounds before `number`; returns how many were wanted."""
        late = [one for one in self._partial.values() if one.wanted and one.body.round < number]
        for one in late:
            one.give_up()
        return len(late)
