"""Send queues: the messages that wait to be written on each link; no I/O.

A link takes messages only as fast as the other side reads. The others wait here, within bounds: one message of each
small kind, where a new one takes the place of the old one, and the bodies that are still of use.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dpeer.peer.core import wire
from dpeer.peer.core.bodies import ChunkedBody
from dpeer.peer.core.limits import SEND_QUEUES
from dpeer.peer.core.wire import Frames
from dpeer.peer.transport import Link


@dataclass
class Acknowledged:
    """Bytes of a body that the other side has, at first and by now, and the times of its first and last word.

    Written bytes may wait in buffers of the operating system for as long as a slow line takes. So neighbors say in
    their heartbeats how much has come.
    """

    first: int = 0
    done: int = 0
    since: float = -math.inf
    moved: float = -math.inf


class SendQueue:
    """The messages that wait to be written on one link.

    Small messages go first, then the bodies, the oldest first, then a heartbeat: after it the neighbor expects
    no body of an earlier round any more. A goodbye is the last word.

    Attributes:
        bodies: The bodies that are not written whole yet, by round.
        known: Whether the link is a neighbor's.
        got: How many bytes have come of the other side's body that is on its way; 0 if none is.
        total: How many bytes the body has whose writing has begun last.
        acknowledged: How many of these have come.
        goodbye: The last message, if the peer leaves.
    """

    def __init__(self, chunk_bytes: int | None) -> None:
        self._chunk_bytes = chunk_bytes
        self.bodies: dict[int, ChunkedBody] = {}
        self.known = False
        self.got = self.total = 0
        self.acknowledged = Acknowledged()
        self._small: dict[str, Frames] = {}
        self._beat: Callable[[], Frames] | None = None
        self.goodbye: Frames | None = None
        self._current: Frames | None = None
        self._writing: tuple[int, ChunkedBody] | None = None

    def add(self, kind: str, frames: Frames) -> None:
        """Add a small message; an earlier one of the same kind is forgotten."""
        self._small[kind] = frames

    def add_first(self, kind: str, frames: Frames) -> None:
        """Add a small message before all others."""
        self._small.pop(kind, None)
        self._small = {kind: frames, **self._small}

    def add_heartbeat(self, heartbeat: Callable[[], Frames]) -> None:
        """Add a heartbeat, which is made when it is written."""
        self._beat = heartbeat

    def acknowledge(self, got: int, now: float) -> None:
        """Note how many bytes of a body have come; 0 if none is on its way."""
        got, known = got if got <= self.total else 0, self.acknowledged
        if got > known.done > 0:
            known.done, known.moved = got, now
        elif got != known.done:
            self.acknowledged = Acknowledged(got, got, now, now)

    def next(self) -> Frames | None:
        """The message that is to be written; None without one. It stays the next one until `taken` is called."""
        if self._current is None:
            self._current = self._choose()
        return self._current

    def taken(self) -> int:
        """Note that the next message has been written; returns its bytes."""
        written = 0 if self._current is None else wire.size(self._current)
        self._current = None
        if self._writing is not None:
            number, body = self._writing
            self._writing = None
            if body.over and self.bodies.get(number) is body:
                del self.bodies[number]
        return written

    def silence(self) -> list[int]:
        """Forget the bodies and the heartbeat, which go elsewhere; returns the bodies' rounds."""
        rounds = sorted(self.bodies)
        self.bodies.clear()
        self._beat = None
        return rounds

    def forget_before(self, number: int) -> None:
        """Forget the bodies of rounds before `number`."""
        for old in [one for one in self.bodies if one < number]:
            del self.bodies[old]

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return not (self._current or self._small or self.bodies or self._beat or self.goodbye)

    def _choose(self) -> Frames | None:
        """The next message: a small one, a chunk of the oldest body, the heartbeat, the goodbye."""
        if self._small:
            return self._small.pop(next(iter(self._small)))
        if self.bodies:
            self._writing = _, body = min(self.bodies.items())
            self.total = body.total
            return body.next(self._chunk_bytes)
        if self._beat is not None:
            heartbeat, self._beat = self._beat, None
            return heartbeat()
        goodbye, self.goodbye = self.goodbye, None
        return goodbye


class SendQueues:
    """The send queues of all links.

    Args:
        chunk_bytes: The most bytes of a chunk; None where bodies are not cut.

    Attributes:
        fresh: Links that something has been added for since this was last emptied.
    """

    def __init__(self, chunk_bytes: int | None) -> None:
        self.fresh: dict[Link, None] = {}
        self._chunk_bytes = chunk_bytes
        self._send_queues: dict[Link, SendQueue] = {}

    def get(self, link: Link) -> SendQueue | None:
        """The link's queue; None if nothing has been added since it was forgotten."""
        return self._send_queues.get(link)

    def __getitem__(self, link: Link) -> SendQueue:
        """The link's queue, to add something."""
        self.fresh[link] = None
        if link not in self._send_queues:
            if len(self._send_queues) >= SEND_QUEUES:
                self._forget_a_stranger()
            self._send_queues[link] = SendQueue(self._chunk_bytes)
        return self._send_queues[link]

    def add_body(self, link: Link, number: int, frames: Frames) -> None:
        """Add round `number`'s body. If it is on its way, it goes on: a link that lasts loses nothing."""
        queue = self[link]
        begun = queue.bodies.get(number)
        if begun is None or begun.frames is not frames:
            queue.bodies[number] = ChunkedBody(frames)

    def forget(self, link: Link) -> list[int]:
        """Forget the messages for a link that is broken; returns the rounds whose bodies were not written whole."""
        self.fresh.pop(link, None)
        queue = self._send_queues.pop(link, None)
        return [] if queue is None else sorted(queue.bodies)

    def __len__(self) -> int:
        """The number of bodies that wait."""
        return sum(len(queue.bodies) for queue in self._send_queues.values())

    def _forget_a_stranger(self) -> None:
        """Forget the oldest queue that is not a neighbor's."""
        for link, queue in self._send_queues.items():
            if not queue.known:
                self.forget(link)
                return
