"""Chunking: cuts bodies, reassembles them per link, and finds a chunk's length from the line's speed; no I/O.

Between two chunks other messages have their turn, and a neighbor whose chunk is on its way cannot be heard. So the line
decides how long a chunk may be. A sender begins with the shortest ones. The receiver measures how fast they come, and
answers in its heartbeats with a length that takes a small part of the time after which silence is death. Even a line
that becomes a hundred times slower lets its neighbor be heard.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

from dpeer.exceptions import ProtocolError
from dpeer.peer.core import wire
from dpeer.peer.core.limits import LEAST_CHUNK
from dpeer.peer.core.wire import Body, Chunk, Frames
from dpeer.peer.learner import Payload
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

    Attributes:
        frames: The encoded body.
        over: Whether its last message has been taken.
        total: How many bytes its buffers have.
    """

    def __init__(self, frames: Frames, *, whole: bool = False) -> None:
        self.frames = frames
        self.over = self._begun = False
        self._offset = 0
        self._whole = whole
        self._tag = b""
        self._rest = [view for frame in frames[1:] if (view := memoryview(frame).cast("B")).nbytes][::-1]
        self.total = sum(view.nbytes for view in self._rest)

    def next(self, chunk_bytes: int) -> Frames:
        """The next message, with at most `chunk_bytes` bytes of one of the body's buffers."""
        if not self._begun:
            self._begun = True
            if self._whole or self.total <= chunk_bytes:
                self.over = True
                return self.frames
            self._tag = wire.tag(self.frames[0])
            return [self.frames[0]]
        buffer, offset = self._rest.pop(), self._offset
        data = buffer[:chunk_bytes]
        if buffer.nbytes > chunk_bytes:
            self._rest.append(buffer[chunk_bytes:])
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

    @property
    def pace(self) -> tuple[int, float]:
        """Bytes, and the seconds in which they came."""
        return self.got, self.last - self.since

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
