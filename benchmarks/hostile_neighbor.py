"""A listed neighbor that takes part rightly, and sends one of its neighbors much of no use beside: for `flooded.py`."""

from __future__ import annotations

import random
import time
from collections import deque

import zmq
from strangers import sink

from dpeer.exceptions import ProtocolError
from dpeer.peer import Limits, ZeroMQTransport
from dpeer.peer.core import wire
from dpeer.peer.core.limits import LEAST_CHUNK
from dpeer.peer.core.wire import Frames
from dpeer.peer.transport import Arrival, Event, Identity, Link, Sent
from dpeer.peer.transports import Keyring
from dpeer.peer.transports.curve import new_secret, public_of

USELESS = 10
"""Messages of no use before each message that the neighbor has to send. With bodies in 11 pieces this is more than what
a peer lets its neighbors say for nothing."""


class HostileTransport(ZeroMQTransport):
    """Sends one neighbor damaged and replayed messages before each message.

    Of what it has sent on that link are replayed: heartbeats; beginnings of pieces of earlier bodies; and, when a body
    is due, the announcement of an earlier one. Damaged are such messages and the hello. A damaged message cannot be
    decoded, since one that can be may say that this neighbor has gone on to another round, or leaves.

    Args:
        limits: As of any transport.
        keyring: As of any transport.
        bulk: As of any transport.
        victim: The rank that gets it.
        aside: Whether it gets as much into a socket of this process instead.

    Attributes:
        attempts: How many messages of no use it has sent.
        began: When it has sent the first one; None before.
    """

    def __init__(
        self, limits: Limits, keyring: Keyring, bulk: int | None, *, local: bool, victim: int, aside: bool
    ) -> None:
        super().__init__(limits, keyring=keyring, bulk=bulk, local=local)
        self.attempts = 0
        self.began: float | None = None
        self._most = limits
        self._victim = victim
        self._links: set[Link] = set()
        self._due: dict[Link, deque[Frames]] = {}
        self._random = random.Random(7)
        self._small: deque[bytes] = deque(maxlen=64)
        self._beats: deque[Frames] = deque(maxlen=16)
        self._pieces: deque[Frames] = deque(maxlen=16)
        self._bodies: deque[Frames] = deque(maxlen=2)
        self._aside = _to_a_sink() if aside else None

    def dial(self, address: str, identity: Identity | None = None) -> Link:
        """Connect, and note if it is the victim."""
        link = super().dial(address, identity)
        if identity == self._victim:
            self._links.add(link)
        return link

    async def receive(self) -> Event:
        """What happens next; notes on which link the victim speaks."""
        event = await super().receive()
        if isinstance(event, Arrival) and event.identity == self._victim:
            self._links.add(event.link)
        return event

    def send(self, link: Link, frames: Frames) -> Sent:
        """Send a message, after those of no use."""
        if link not in self._links:
            return super().send(link, frames)
        message = wire.decode(frames, self._most)
        if link not in self._due:
            self._due[link] = deque(self._useless(message))
        due = self._due[link]
        while due:
            sent = self._put(link, due[0])
            if sent is not Sent.TAKEN:
                return sent
            due.popleft()
            self.attempts += 1
        sent = super().send(link, frames)
        if sent is Sent.TAKEN:
            del self._due[link]
            self._keep(message, frames)
        return sent

    def _put(self, link: Link, frames: Frames) -> Sent:
        self.began = self.began or time.perf_counter()
        if self._aside is None:
            return super().send(link, frames)
        self._aside.send_multipart(frames, copy=False)
        return Sent.TAKEN

    def _keep(self, message: wire.Message | wire.Chunk, frames: Frames) -> None:
        """Keep what may be replayed: copies, since a body's memory is used again."""
        match message:
            case wire.Chunk():
                self._pieces.append([bytes(frames[0]), bytes(memoryview(frames[1])[:LEAST_CHUNK])])
                return
            case wire.Heartbeat():
                self._beats.append([bytes(frames[0])])
            case wire.Body() if wire.size(frames) <= LEAST_CHUNK:
                self._bodies.append([bytes(frame) for frame in frames])
        self._small.append(bytes(frames[0]))

    def _useless(self, message: wire.Message | wire.Chunk) -> list[Frames]:
        """What is sent before this message; nothing before the hello, of which it would be no part."""
        found: list[Frames] = []
        if isinstance(message, wire.Hello) or not self._small:
            return found
        if isinstance(message, wire.Body):
            found += [self._bodies[0]] if self._bodies else []
        while len(found) < USELESS:
            replayed = self._random.choice([self._beats, self._pieces, None])
            found.append(self._random.choice(replayed) if replayed else self._damaged())
        return found

    def _damaged(self) -> Frames:
        while True:
            frame = bytearray(self._random.choice(self._small))
            for _ in range(self._random.randint(1, 4)):
                frame[self._random.randrange(len(frame))] = self._random.getrandbits(8)
            try:
                wire.decode([bytes(frame)], self._most)
            except ProtocolError:
                return [bytes(frame)]


def _to_a_sink() -> zmq.Socket[bytes]:
    """A connection with keys to a socket that takes everything."""
    context = zmq.Context()
    here, there = new_secret(), new_secret()
    dealer: zmq.Socket[bytes] = context.socket(zmq.DEALER)
    dealer.curve_secretkey, dealer.curve_publickey, dealer.curve_serverkey = here, public_of(here), public_of(there)
    dealer.setsockopt(zmq.SNDHWM, 0)
    dealer.linger = 0
    dealer.connect(sink(context, there))
    return dealer
