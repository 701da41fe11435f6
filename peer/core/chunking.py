"""Bodies as chunks: cut for a link, and put together again at its other end; the format is `wire`'s; no I/O.

Between two chunks other messages have their turn, and a neighbor whose chunk is on its way cannot be heard. So the line
decides how long a chunk may be. A sender begins with the shortest ones. The receiver measures how fast they come, and
answers in its heartbeats with a length that takes a small part of the time after which silence is death. Even a line
that becomes a hundred times slower lets its neighbor be heard.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, chain

from dpeer.exceptions import ProtocolError
from dpeer.peer.core import wire
from dpeer.peer.core.bodies import PayloadFingerprint
from dpeer.peer.core.limits import LEAST_CHUNK
from dpeer.peer.core.wire import Body, Chunk, Frames
from dpeer.peer.learner import Buffer, Payload
from dpeer.peer.transport import Link

_PARTS = 200
"""In how many parts the time after which silence is death is divided."""


def chunk_length(nbytes: int, seconds: float, dead_after: float, most: int) -> int:
    """Bytes of a chunk on a line on which `nbytes` came in `seconds`: a multiple of 64 KiB.

    Args:
        nbytes: Bytes of a body.
        seconds: Between its header and its last chunk.
        dead_after: Seconds after which silence is death.
        most: The most bytes that any chunk has.
    """
    fit = most if seconds <= 0 else min(most, int(nbytes / seconds * dead_after / _PARTS))
    return max(fit - fit % LEAST_CHUNK, min(LEAST_CHUNK, most))


class ChunkedBody:
    """A body on its way on one link: gives one message after the other.

    Args:
        frames: The encoded body.
        whole: Whether it travels in one message, however long it is.
        skip: How many bytes of its buffers are there already, and are left out of chunks.

    Attributes:
        begun: Whether its first message has been taken.
        over: Whether its last one has.
        offset: How many bytes of its buffers have been taken.
        total: How many bytes they have.
    """

    def __init__(self, frames: Frames, *, whole: bool = False, skip: int = 0) -> None:
        self.begun = self.over = False
        self.offset = 0
        self._skip = skip
        self._frames = frames
        self._whole = whole
        self._tag = b""
        self._rest = [view for frame in frames[1:] if (view := memoryview(frame).cast("B")).nbytes][::-1]
        self.total = sum(view.nbytes for view in self._rest)

    def next(self, chunk_bytes: int) -> Frames:
        """The next message, with at most `chunk_bytes` bytes of the body's buffers."""
        if not self.begun:
            self.begun = True
            if self._whole or (self.total <= chunk_bytes and not self._skip):
                self.over = True
                return self._frames
            self._tag = wire.tag(self._frames[0])
            self._take(self._skip)
            return [self._frames[0]]
        offset = self.offset
        data = self._take(chunk_bytes)
        self.over = not self._rest
        return wire.chunk(self._tag, offset, data)

    def goes_on(self, frames: Frames, held: int) -> bool:
        """Whether it is this body, on a link on which no byte between those that the other end holds is lost."""
        return frames is self._frames and self.begun and self.offset >= held

    def _take(self, nbytes: int) -> list[memoryview]:
        """The next bytes of the buffers, at most `nbytes`."""
        left, data = nbytes, []
        while left and self._rest:
            buffer = self._rest.pop()
            data.append(buffer[:left])
            if buffer.nbytes > left:
                self._rest.append(buffer[left:])
            left -= data[-1].nbytes
        self.offset += nbytes - left
        return data


def chunked(frames: Frames, chunk_bytes: int | None) -> Iterator[Frames]:
    """All messages of a body: one, or a header and chunks if its buffers have more than `chunk_bytes` bytes."""
    body = ChunkedBody(frames, whole=chunk_bytes is None)
    while not body.over:
        yield body.next(chunk_bytes or 0)


@dataclass
class PartialBody:
    """A body of which not all chunks have come, or whose last one just has.

    Attributes:
        body: The body as it was announced.
        wire_bytes: The bytes of its header and all of its buffers.
        fingerprint: Takes in the bytes of a body that is not kept; None for one that is.
        buffer: Memory that the bytes are copied to; None to keep the chunks as they came.
        chunks: The frames of each chunk that came, without such memory.
        got: How many bytes have come.
        since: Clock time at which the body was announced, for the last time.
        last: Clock time of its last chunk.
        name: `wire.body_name`; empty if the body is not to be recognised when it is announced again.
        before: How many bytes had come when it was announced for the last time.
        opening: Whether no chunk has come since then: the next one may go on anywhere in what is there.
        skipped: Whether the fingerprint of a body that is not kept lacks its first bytes.
    """

    body: Body
    wire_bytes: int
    fingerprint: PayloadFingerprint | None
    buffer: memoryview | None
    chunks: list[tuple[Buffer, ...]] = field(default_factory=list)
    got: int = 0
    since: float = 0.0
    last: float = 0.0
    name: bytes = b""
    before: int = 0
    opening: bool = True
    skipped: bool = False

    def announced_again(self, body: Body, now: float) -> None:
        """Wait for the rest of the body, or for all of it."""
        self.body, self.since, self.last, self.before, self.opening = body, now, now, self.got, True

    def go_on(self, offset: int) -> None:
        """Take the next chunk at this byte, where its sender goes on after it has announced the body again.

        Chunks that were kept go as a whole: a part of one keeps all of its memory, and many parts are many frames.
        """
        if self.wanted and offset < self.got:
            while self.chunks and self.got > offset:
                self.got -= sum(map(len, self.chunks.pop()))
            if self.buffer is not None:
                self.got = offset
            self.before = min(self.before, self.got)
        elif not self.wanted and not self.got and offset:
            self.got, self.skipped = min(offset, self.body.payload_bytes), True

    def give_up(self) -> None:
        """Keep nothing of the body, whose round is over; the rest of it may come."""
        if self.wanted:
            self.fingerprint, self.skipped = PayloadFingerprint(self.body.payload_bytes), True
            self.buffer, self.chunks = None, []

    @property
    def pace(self) -> tuple[int, float]:
        """Bytes, and the seconds in which they came since the body's last header."""
        return self.got - self.before, self.last - self.since

    def put(self, chunk: Chunk) -> None:
        """Take in the next chunk."""
        if self.fingerprint is None and self.buffer is None:
            self.chunks.append(chunk.data)
        for data in chunk.data:
            end = self.got + len(data)
            if self.fingerprint is not None:
                self.fingerprint.add(data)
            elif self.buffer is not None:
                self.buffer[self.got : end] = data
            self.got = end

    @property
    def wanted(self) -> bool:
        """Whether the body is kept."""
        return self.fingerprint is None

    @property
    def may_go_on(self) -> bool:
        """Whether what has come may be completed on another link."""
        return self.wanted and bool(self.name)

    def buffers_that_end_within(self, start: int, end: int) -> int:
        """The number of the body's buffers that end after `start` and before `end`."""
        return sum(start < ends < end for ends in accumulate(self.body.sizes))

    @property
    def complete(self) -> bool:
        """Whether all bytes have come."""
        return self.got == self.body.payload_bytes

    @property
    def payload(self) -> Payload:
        """The body's buffers; their chunks where no memory was given for them."""
        if self.buffer is None:
            return [*chain.from_iterable(self.chunks)]
        ends = list(accumulate(self.body.sizes))
        return [self.buffer[end - size : end].toreadonly() for size, end in zip(self.body.sizes, ends, strict=True)]


class Reassembly:
    """On each link the one body on its way; and what has come on links that are broken.

    Chunks come in order, so nothing is sorted. The bytes of a body are out of sight before its last chunk has come. A
    body that is announced again goes on where its sender says: at the first byte, or where the one before has ended.

    Args:
        buffer: Gives memory for a body, which may be used again once nothing refers to it; None to keep the chunks.
        least: The fewest bytes of a chunk, except the last one of a body: very short ones would cost many times their
            bytes.
    """

    def __init__(self, buffer: Callable[[], memoryview | None], least: int = 1) -> None:
        self._buffer = buffer
        self._least = least
        self._partial: dict[Link, PartialBody] = {}
        self._kept: dict[tuple[int, int], PartialBody] = {}

    def begin(
        self, link: Link, body: Body, wire_bytes: int, *, wanted: bool, name: bytes = b"", now: float = 0.0
    ) -> None:
        """Expect the chunks of a body that was announced on this link; `name` is its `wire.body_name`.

        Raises:
            ProtocolError: "incomplete": chunks of the link's earlier body have not come. The new body is begun.
        """
        earlier = self._partial.get(link)
        found = self._begun(earlier, body, name) if wanted and name else None
        self._kept.pop((body.rank, body.round), None)
        if found is not None:
            found.announced_again(body, now)
        else:
            fingerprint, buffer = (None, self._buffer()) if wanted else (PayloadFingerprint(body.payload_bytes), None)
            found = PartialBody(body, wire_bytes, fingerprint, buffer, since=now, last=now, name=name)
        self._partial[link] = found
        if earlier is not None and earlier is not found:
            raise ProtocolError("incomplete", f"{earlier.got} of {earlier.body.payload_bytes} bytes of a body came")

    def _begun(self, earlier: PartialBody | None, body: Body, name: bytes) -> PartialBody | None:
        """What has come of a body on its link, or on one that is broken; None without it.

        A body on another link that lasts goes on there: this header may be late.
        """
        found = (earlier, self._kept.get((body.rank, body.round)))
        return next((one for one in found if one is not None and one.wanted and one.name == name), None)

    def holds(self, rank: int, links: Collection[Link]) -> dict[bytes, int]:
        """What has come of this rank's bodies on these links, and on those that are broken: bytes by name."""
        found = [*self._kept.values(), *(one for link, one in self._partial.items() if link in links)]
        return {one.name: one.got for one in found if one.body.rank == rank and one.may_go_on}

    def lacks(self, link: Link, chunk: Chunk) -> bool:
        """Whether a chunk goes on where the bytes before it are not here, although its body has been announced.

        Nor are they where it goes on within a chunk that was kept.
        """
        one = self._partial.get(link)
        if one is None or not one.opening or not one.wanted or chunk.tag != one.body.tag:
            return False
        one.go_on(chunk.offset)
        return chunk.offset > one.got

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
        if partial.opening:
            partial.go_on(chunk.offset)
        if chunk.offset != partial.got or end > partial.body.payload_bytes:
            # A chunk that a broken connection had still under way may come late: that is no damage to this body.
            raise ProtocolError("stray", f"a chunk at byte {chunk.offset}, expected at {partial.got}")
        partial.opening = False
        self._check_frames(partial, chunk)
        partial.put(chunk)
        partial.last = now
        if partial.complete:
            del self._partial[link]
        return partial

    def _check_frames(self, partial: PartialBody, chunk: Chunk) -> None:
        end = chunk.offset + chunk.nbytes
        if chunk.nbytes < self._least and end < partial.body.payload_bytes:
            raise ProtocolError("short-piece", f"{chunk.nbytes} bytes in the middle of a body, expected {self._least}")
        if len(chunk.data) > 1 + partial.buffers_that_end_within(chunk.offset, end):
            raise ProtocolError("short-piece", f"{len(chunk.data)} frames, more than the buffers in them")

    def __len__(self) -> int:
        """The number of bodies on their way."""
        return len(self._partial)

    def keep(self, link: Link) -> None:
        """Keep what has come of the body on its way on this link, which is broken: the rest may come on another one."""
        partial = self._partial.pop(link, None)
        if partial is not None and partial.may_go_on and partial.got:
            self._kept[partial.body.rank, partial.body.round] = partial

    def forget(self, link: Link) -> None:
        """Drop the body on its way on this link, because it is given up or its peer has gone."""
        self._partial.pop(link, None)

    def forget_rank(self, rank: int) -> None:
        """Drop what has come of this rank's bodies on links that are broken: the rest does not come."""
        for key in [key for key in self._kept if key[0] == rank]:
            del self._kept[key]

    def forget_before(self, number: int) -> None:
        """Drop what has come of bodies of rounds before `number` on links that are broken."""
        for key in [key for key in self._kept if key[1] < number]:
            del self._kept[key]
