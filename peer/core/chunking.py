"""Cutting bodies into pieces. The format is that of `dpeer.peer.core.wire`; no I/O.

How long a piece may be is for the line to say: between two pieces other messages have their turn, and a neighbor whose
piece is on its way cannot be heard. So a peer that sends begins with the shortest ones. The receiver measures how fast
they come, and says in its heartbeats how long they may be: as what comes in a small part of the time after which
silence is death. So a line may become a hundred times slower, and its neighbor is still heard.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpeer.peer.core import wire
from dpeer.peer.core.limits import LEAST_PIECE
from dpeer.peer.core.wire import Frames

_PARTS = 200
"""In how many parts the time after which silence is death is divided."""


def pace(nbytes: int, seconds: float, dead_after: float, most: int) -> int:
    """How many bytes a piece should have at most on a line on which `nbytes` came in `seconds`: a multiple of 64 KiB.

    Args:
        nbytes: Bytes of a body.
        seconds: Between its header and its last piece.
        dead_after: Seconds after which silence is death.
        most: The most bytes that any piece has.
    """
    fit = most if seconds <= 0 else min(most, int(nbytes / seconds * dead_after / _PARTS))
    return max(fit - fit % LEAST_PIECE, min(LEAST_PIECE, most))


class Cut:
    """A body on its way on one link: gives one message after the other.

    Args:
        frames: The encoded body.
        whole: Whether it travels in one message, however long it is.

    Attributes:
        begun: Whether its first message has been taken.
        over: Whether its last one has.
        offset: How many bytes of its buffers have been taken.
        total: How many bytes they have.
    """

    def __init__(self, frames: Frames, *, whole: bool = False) -> None:
        self.begun = self.over = False
        self._frames = frames
        self._whole = whole
        self._tag = b""
        self.offset = 0
        self._rest = [view for frame in frames[1:] if (view := memoryview(frame).cast("B")).nbytes][::-1]
        self.total = sum(view.nbytes for view in self._rest)

    def next(self, piece_bytes: int) -> Frames:
        """The message that comes next, with at most `piece_bytes` bytes of the body's."""
        if not self.begun:
            self.begun = True
            if self._whole or self.total <= piece_bytes:
                self.over = True
                return self._frames
            self._tag = wire.tag(self._frames[0])
            return [self._frames[0]]
        offset, room, data = self.offset, piece_bytes, []
        while room and self._rest:
            buffer = self._rest.pop()
            data.append(buffer[:room])
            if buffer.nbytes > room:
                self._rest.append(buffer[room:])
            room -= data[-1].nbytes
        self.offset += piece_bytes - room
        self.over = not self._rest
        return wire.piece(self._tag, offset, data)


def cut(frames: Frames, piece_bytes: int | None) -> Iterator[Frames]:
    """All messages that a body travels as: one, or if its buffers have more than `piece_bytes`, a header and pieces."""
    body = Cut(frames, whole=piece_bytes is None)
    while not body.over:
        yield body.next(piece_bytes or 0)
