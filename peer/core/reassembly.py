"""Putting together bodies that come in pieces. Bookkeeping; no I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate

from dpeer.exceptions import ProtocolError
from dpeer.peer.core.payload_fingerprint import Imprint
from dpeer.peer.core.wire import Body, Piece
from dpeer.peer.learner import Buffer, Payload
from dpeer.peer.transports import Link


@dataclass
class Arriving:
    """A body of which not all pieces have come, or whose last one just has.

    Attributes:
        body: The body as it was announced.
        wire_bytes: The bytes of its header and all of its buffers.
        imprint: Takes in the bytes of a body that is not kept; None for one that is.
        room: Memory that the bytes are copied to; None to keep the pieces as they came.
        pieces: The pieces that came, where there is no room.
        got: How many bytes have come.
        since: Clock time at which the body was announced.
        last: Clock time of its last piece.
    """

    body: Body
    wire_bytes: int
    imprint: Imprint | None
    room: memoryview | None
    pieces: list[Buffer] = field(default_factory=list)
    got: int = 0
    since: float = 0.0
    last: float = 0.0

    def put(self, piece: Piece) -> None:
        """Take in the next piece."""
        for data in piece.data:
            end = self.got + len(data)
            if self.imprint is not None:
                self.imprint.add(data)
            elif self.room is not None:
                self.room[self.got : end] = data
            else:
                self.pieces.append(data)
            self.got = end

    @property
    def wanted(self) -> bool:
        """Whether the body is kept."""
        return self.imprint is None

    def buffers_that_end_within(self, start: int, end: int) -> int:
        """How many of the body's buffers end after `start` and before `end`."""
        return sum(start < ends < end for ends in accumulate(self.body.sizes))

    @property
    def complete(self) -> bool:
        """Whether all bytes have come."""
        return self.got == self.body.payload_bytes

    @property
    def payload(self) -> Payload:
        """The body's buffers; their pieces where there is no room."""
        if self.room is None:
            return self.pieces
        buffers, start = [], 0
        for nbytes in self.body.sizes:
            buffers.append(self.room[start : start + nbytes].toreadonly())
            start += nbytes
        return buffers


class Assembly:
    """The one body that may be under way on each link.

    Pieces come in order, so there is nothing to sort. Nobody sees the bytes of a body before its last piece has come.

    Args:
        room: Gives memory for a body, which may be used again once nothing refers to it; None to keep the pieces.
        least: How many bytes a piece has at least, unless it is the last one of its body: very short ones would cost
            many times their bytes.
    """

    def __init__(self, room: Callable[[], memoryview | None], least: int = 1) -> None:
        self._room = room
        self._least = least
        self._arriving: dict[Link, Arriving] = {}

    def begin(self, link: Link, body: Body, wire_bytes: int, *, wanted: bool, now: float = 0.0) -> None:
        """Expect the pieces of a body that was announced on this link.

        Raises:
            ProtocolError: "incomplete": pieces of the link's earlier body have not come. The new body is begun.
        """
        earlier = self._arriving.get(link)
        if wanted:
            self._arriving[link] = Arriving(body, wire_bytes, None, self._room(), since=now, last=now)
        else:
            self._arriving[link] = Arriving(body, wire_bytes, Imprint(body.payload_bytes), None, since=now, last=now)
        if earlier is not None:
            raise ProtocolError("incomplete", f"{earlier.got} of {earlier.body.payload_bytes} bytes of a body came")

    def get(self, link: Link) -> Arriving | None:
        """The body that is under way on this link; None if there is none."""
        return self._arriving.get(link)

    def add(self, link: Link, piece: Piece, now: float = 0.0) -> Arriving:
        """Take in a piece; return the body that it belongs to.

        Raises:
            ProtocolError: "stray": the piece is of no body that was announced, or is not the next one. "short-piece":
                it has too few bytes.
        """
        arriving = self._arriving.get(link)
        if arriving is None or piece.tag != arriving.body.tag:
            raise ProtocolError("stray", "a piece of a body that was not announced")
        end = piece.offset + piece.nbytes
        if piece.offset != arriving.got or end > arriving.body.payload_bytes:
            # A piece that a broken connection had still under way may come late: that is no damage to this body.
            raise ProtocolError("stray", f"a piece at byte {piece.offset}, expected at {arriving.got}")
        if piece.nbytes < self._least and end < arriving.body.payload_bytes:
            raise ProtocolError("short-piece", f"{piece.nbytes} bytes in the middle of a body, expected {self._least}")
        if len(piece.data) > 1 + arriving.buffers_that_end_within(piece.offset, end):
            raise ProtocolError("short-piece", f"{len(piece.data)} frames, more than there are buffers in them")
        arriving.put(piece)
        arriving.last = now
        if arriving.complete:
            del self._arriving[link]
        return arriving

    def __len__(self) -> int:
        """How many bodies are under way."""
        return len(self._arriving)

    def forget(self, link: Link) -> None:
        """Drop the body that is under way on this link, because the link is broken or its peer has gone."""
        self._arriving.pop(link, None)
