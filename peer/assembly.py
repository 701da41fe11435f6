"""Bodies that come in pieces: where each piece goes, and what is whole. Bookkeeping; no I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dpeer.exceptions import ProtocolError
from dpeer.peer.imprint import Imprint
from dpeer.peer.learner import Buffer, Payload
from dpeer.peer.transports import Link
from dpeer.peer.wire import Body, Piece


@dataclass
class Arriving:
    """A body under way, or just complete.

    Attributes:
        body: As it was announced.
        wire_bytes: Of its header and all of its buffers.
        imprint: Of a body that is not kept, all that stays of its bytes; None of one that is.
        room: Where its bytes go; None to keep the pieces as they came.
        pieces: Those.
        got: How many bytes have come.
    """

    body: Body
    wire_bytes: int
    imprint: Imprint | None
    room: memoryview | None
    pieces: list[Buffer] = field(default_factory=list)
    got: int = 0

    def put(self, data: Buffer) -> None:
        """Take in the next piece."""
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
        """Whether it is kept."""
        return self.imprint is None

    @property
    def complete(self) -> bool:
        """Whether all has come."""
        return self.got == self.body.payload_bytes

    @property
    def payload(self) -> Payload:
        """Its buffers, or their pieces."""
        if self.room is None:
            return self.pieces
        buffers, start = [], 0
        for nbytes in self.body.sizes:
            buffers.append(self.room[start : start + nbytes].toreadonly())
            start += nbytes
        return buffers


class Assembly:
    """The one body that may be under way on each link.

    Pieces come in order, so there is nothing to sort, and what lacks a piece never looks whole. Nobody sees the bytes
    of a body that is not.

    Args:
        room: Gives memory for a body, which may be used again once nobody refers to it; None to do without.
    """

    def __init__(self, room: Callable[[], memoryview | None]) -> None:
        self._room = room
        self._arriving: dict[Link, Arriving] = {}

    def begin(self, link: Link, body: Body, wire_bytes: int, *, wanted: bool) -> None:
        """A body was announced, whose pieces follow on this link.

        Raises:
            ProtocolError: "incomplete": the one before was never finished. The new one is begun.
        """
        earlier = self._arriving.get(link)
        if wanted:
            self._arriving[link] = Arriving(body, wire_bytes, None, self._room())
        else:
            self._arriving[link] = Arriving(body, wire_bytes, Imprint(body.payload_bytes), None)
        if earlier is not None:
            raise ProtocolError("incomplete", f"{earlier.got} of {earlier.body.payload_bytes} bytes of a body came")

    def add(self, link: Link, piece: Piece) -> Arriving:
        """A piece came; returns what it belongs to.

        Raises:
            ProtocolError: "stray": it belongs to nothing that was announced, or is not the next piece.
        """
        arriving = self._arriving.get(link)
        if arriving is None or piece.tag != arriving.body.tag:
            raise ProtocolError("stray", "a piece of a body that was not announced")
        if piece.offset != arriving.got or piece.offset + len(piece.data) > arriving.body.payload_bytes:
            # What a broken connection had still under way may come late; the body is not given up for it.
            raise ProtocolError("stray", f"a piece at byte {piece.offset}, expected at {arriving.got}")
        arriving.put(piece.data)
        if arriving.complete:
            del self._arriving[link]
        return arriving

    def forget(self, link: Link) -> None:
        """The link is broken, or who spoke on it is gone: what was under way will not be finished."""
        self._arriving.pop(link, None)
