"""What waits to be written on each link. Bookkeeping; no I/O.

A link takes messages only as fast as the other side reads. What it does not take waits here, and this is bounded: one
message of each small kind, where a new one takes the place of the old one, and the bodies that are still of use.
"""

from __future__ import annotations

from collections.abc import Callable

from dpeer.peer.core.chunking import Cut
from dpeer.peer.core.limits import LANES, LEAST_PIECE
from dpeer.peer.core.wire import Frames
from dpeer.peer.transports import Link


class Lane:
    """What waits to be written on one link.

    Small messages go first, then the bodies, the oldest first, then a heartbeat: it would tell the neighbor that
    no body of an earlier round comes any more. A goodbye is the last word.

    Attributes:
        piece_bytes: How many bytes a piece may have on this link.
        bodies: The bodies that are not written whole yet, by round.
        known: Whether the link is a neighbor's.
        measured: How long a piece from the other side may be, as fast as they came; 0 if none has come.
        got: How many bytes have come of the other side's body that is on its way; 0 if none is.
        total: How many bytes the body has whose writing has begun last.
    """

    def __init__(self, piece_bytes: int) -> None:
        self.piece_bytes = piece_bytes
        self.bodies: dict[int, Cut] = {}
        self.known = False
        self.measured = self.got = self.total = 0
        self._words: dict[str, Frames] = {}
        self._beat: Callable[[], Frames] | None = None
        self._goodbye: Frames | None = None
        self._current: Frames | None = None
        self._writing: tuple[int, Cut] | None = None

    def say(self, kind: str, frames: Frames) -> None:
        """Add a small message; an earlier one of the same kind is forgotten."""
        self._words[kind] = frames

    def beat(self, heartbeat: Callable[[], Frames]) -> None:
        """Add a heartbeat, which is made when it is written."""
        self._beat = heartbeat

    def leave(self, goodbye: Frames) -> None:
        """Add a goodbye."""
        self._goodbye = goodbye

    def next(self) -> Frames | None:
        """The message that is to be written; None if there is none. It stays the next one until `taken` is called."""
        if self._current is None:
            self._current = self._choose()
        return self._current

    def taken(self) -> None:
        """Note that the next message has been written."""
        self._current = None
        if self._writing is not None:
            number, body = self._writing
            self._writing = None
            if body.over and self.bodies.get(number) is body:
                del self.bodies[number]

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return not (self._current or self._words or self.bodies or self._beat or self._goodbye)

    def _choose(self) -> Frames | None:
        if self._words:
            return self._words.pop(next(iter(self._words)))
        if self.bodies:
            number = min(self.bodies)
            self._writing = number, self.bodies[number]
            self.total = self.bodies[number].total
            return self.bodies[number].next(self.piece_bytes)
        if self._beat is not None:
            heartbeat, self._beat = self._beat, None
            return heartbeat()
        goodbye, self._goodbye = self._goodbye, None
        return goodbye


class Lanes:
    """The lanes of all links.

    Args:
        piece_bytes: The most bytes of a piece; None where bodies are not cut.

    Attributes:
        fresh: Links that something has been added for since this was last emptied.
    """

    def __init__(self, piece_bytes: int | None) -> None:
        self.fresh: dict[Link, None] = {}
        self._most = piece_bytes
        self._lanes: dict[Link, Lane] = {}

    def get(self, link: Link) -> Lane | None:
        """The link's lane; None if nothing has been added since it was forgotten."""
        return self._lanes.get(link)

    def __getitem__(self, link: Link) -> Lane:
        """The link's lane, to add something."""
        self.fresh[link] = None
        if link not in self._lanes:
            if len(self._lanes) >= LANES:
                self._forget_a_stranger()
            self._lanes[link] = Lane(min(LEAST_PIECE, self._most or LEAST_PIECE))
        return self._lanes[link]

    def add_body(self, link: Link, number: int, frames: Frames) -> None:
        """Add round `number`'s body, or begin it again if it is on its way."""
        self[link].bodies[number] = Cut(frames, whole=self._most is None)

    def pace(self, link: Link, piece_bytes: int) -> None:
        """Note how long a piece may be on this link, as its reader says."""
        if link in self._lanes and self._most is not None and piece_bytes > 0:
            self._lanes[link].piece_bytes = max(min(piece_bytes, self._most), min(LEAST_PIECE, self._most))

    def begin_anew(self, link: Link) -> list[int]:
        """Cut short pieces again, and forget the bodies, because nothing came for long; returns their rounds."""
        if link not in self._lanes:
            return []
        lane = self._lanes[link]
        lane.piece_bytes = lane.measured = min(LEAST_PIECE, self._most or LEAST_PIECE)
        rounds = sorted(lane.bodies)
        lane.bodies.clear()
        return rounds

    def forget(self, link: Link) -> list[int]:
        """Forget what waits on a link that is broken; returns the rounds whose bodies were not written whole."""
        self.fresh.pop(link, None)
        lane = self._lanes.pop(link, None)
        return [] if lane is None else sorted(lane.bodies)

    def __len__(self) -> int:
        """How many bodies wait."""
        return sum(len(lane.bodies) for lane in self._lanes.values())

    def _forget_a_stranger(self) -> None:
        """Forget the oldest lane that is not a neighbor's."""
        for link, lane in self._lanes.items():
            if not lane.known:
                self.forget(link)
                return
