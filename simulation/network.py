"""A simulated network in one process: delays, losses, cuts and holds, and the transports at its ends.

All random numbers come from one seed, so on a virtual clock (`dpeer.simulation.virtual_time`) the same faults happen
each time. As on a real network, an end of a connection learns of a break some time after it, or not at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import math
import random
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dpeer.exceptions import AddressError
from dpeer.peer.core.wire import Frames, size
from dpeer.peer.transport import Arrival, Broken, Event, Identity, Link, Opened, Sent, Writable
from dpeer.simulation.virtual_time import Process

_CLOCK = 1e-9
"""Seconds by which a timer may go off early: virtual times are sums of floating-point numbers."""

_OUTSIDE = contextvars.Context()
"""The context of the network, which goes on while a process is frozen, also with what that one has begun."""


@dataclass(frozen=True)
class Conditions:
    """The conditions of a network without faults. Pairs are the least and the most seconds of something.

    Attributes:
        latency: How long a message is under way, beside the time of its bytes. A direction keeps its messages' order.
        bytes_per_second: The bandwidth of each direction of each connection.
        capacity: The number of messages under way from which on a sender has to wait.
        keys: Whether every process proves its rank, as by keys.
        redial: How long a dialler waits before it tries again; doubled from the least to the most while it is in vain.
        notice: How long after a break an end of the connection learns of it; what it sends until then is lost.
        listener_told: The probability that the end that accepted a connection learns of its break; else only its next
            message finds it gone.
        flushed: The probability that messages under way when a connection breaks still arrive; else they are lost.
    """

    latency: tuple[float, float] = (0.001, 0.02)
    bytes_per_second: float = math.inf
    capacity: int = 32
    chunk_bytes: int | None = None
    keys: bool = False
    redial: tuple[float, float] = (0.1, 2.0)
    notice: tuple[float, float] = (0.0, 0.5)
    listener_told: float = 0.5
    flushed: float = 0.5


AT_ONCE = Conditions(latency=(0.0, 0.0), notice=(0.0, 0.0), listener_told=1.0)
"""Of peers in one process in real time: a message is there as soon as it is sent."""


def later(seconds: float, call: Callable[[], object]) -> asyncio.TimerHandle:
    """Call a function after some seconds, whether the present process is frozen then or not."""
    loop = asyncio.get_running_loop()
    return loop.call_at(loop.time() + seconds, call, context=_OUTSIDE)


class FaultyNetwork:
    """The transports that can reach each other, and the faults between them.

    Args:
        on_sent: Called with sender, receiver and frames of every message that a sender has been rid of.
    """

    def __init__(
        self,
        rng: random.Random,
        conditions: Conditions | None = None,
        on_sent: Callable[[int, int, Frames], None] = lambda source, target, frames: None,
    ) -> None:
        self.rng = rng
        self.conditions = conditions or Conditions()
        self.on_sent = on_sent
        self.listeners: dict[str, FaultyTransport] = {}
        self.numbers = itertools.count(1)
        self._connections: list[_Connection] = []
        self._holds: Counter[tuple[int, int]] = Counter()

    def transport(self, rank: int, process: Process) -> FaultyTransport:
        """An endpoint for a rank's process."""
        return FaultyTransport(self, rank, process)

    # -- faults ------------------------------------------------------------------------------------------------

    def cut(self, one: int, other: int) -> None:
        """Break the connections between two ranks. Their ends learn of it."""
        for connection in self._between(one, other):
            connection.cut()

    def vanish(self, source: int, target: int) -> None:
        """Lose all messages from one rank to another on the present connections. No end learns of it."""
        for connection in self._between(source, target):
            connection.way(source).end(flush=False)

    def hold(self, source: int, target: int) -> None:
        """Let nothing pass from one rank to another until `release`, and no new connection come about between them.

        Nothing is lost. Holds add up.
        """
        self._holds[source, target] += 1

    def release(self, source: int, target: int) -> None:
        """End one `hold`."""
        self._holds[source, target] -= 1
        for connection in self._between(source, target):
            for direction in connection.directions:
                direction.deliver()

    def joined(self, one: Link, other: Link) -> bool | None:
        """Whether two links are the ends of one connection; None if that of one of them is broken."""
        found = [connection.links for connection in self._connections if connection.open]
        if not all(any(link in links for links in found) for link in (one, other)):
            return None
        return {one, other} in found

    def connections(self, one: int, other: int) -> int:
        """The number of connections between the present processes of two ranks."""
        return sum(
            not (found.dialler.process.dead or found.listener.process.dead) for found in self._between(one, other)
        )

    # -- for transports ----------------------------------------------------------------------------------------

    def held(self, source: int, target: int) -> bool:
        """Whether nothing passes from one rank to another at present."""
        return self._holds[source, target] > 0

    def reachable(self, dialler: FaultyTransport, address: str) -> FaultyTransport | None:
        """The transport that would accept a connection at an address now."""
        listener = self.listeners.get(address)
        if listener is None or listener.process.frozen or dialler.process.frozen:
            return None
        one, other = dialler.rank, listener.rank
        return None if self.held(one, other) or self.held(other, one) else listener

    def listen(self, address: str, listener: FaultyTransport) -> str:
        """Give a transport an address. Connections to its earlier owner break.

        Raises:
            AddressError: Another transport has the address.
        """
        if address.endswith(":0"):
            address = f"{address[:-1]}{next(self.numbers)}"
        if address in self.listeners:
            raise AddressError(f"address {address!r} is in use: give each peer its own")
        self.listeners[address] = listener
        for connection in self._connections:
            if connection.dialled.address == address and connection.listener is not listener:
                connection.cut(flush=False)
        return address

    def connect(self, dialler: FaultyTransport, dialled: _Dialled, listener: FaultyTransport) -> None:
        """Join two transports."""
        connection = _Connection(self, dialler, dialled, listener)
        self._connections = [one for one in self._connections if one.open]
        self._connections.append(connection)
        dialled.connection = connection
        dialler.links[dialled.link] = listener.links[connection.accepted] = connection
        dialler.push(Opened(dialled.link))

    def _between(self, one: int, other: int) -> list[_Connection]:
        ranks = _pair(one, other)
        return [found for found in self._connections if found.open and found.ranks == ranks]


def _pair(one: int, other: int) -> tuple[int, int]:
    return min(one, other), max(one, other)


class _Direction:
    """One direction of a connection: the messages that are under way, in order.

    Args:
        source: The sending transport, and its link.
        target: The receiving transport, and its link.

    Attributes:
        lost: Whether all messages are lost from now on.
        under_way: When each message is due, and its frames.
    """

    def __init__(
        self, network: FaultyNetwork, source: tuple[FaultyTransport, Link], target: tuple[FaultyTransport, Link]
    ) -> None:
        self.lost = False
        self._network = network
        self._source, self._source_link = source
        self._target, self._target_link = target
        self.under_way: deque[tuple[float, Frames]] = deque()
        self._line_free = self._last_due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._sender_waits = False

    def send(self, frames: Frames) -> Sent:
        """Send a message, if not too many are under way."""
        conditions = self._network.conditions
        if len(self.under_way) >= conditions.capacity:
            self._sender_waits = True
            return Sent.FULL
        self._network.on_sent(self._source.rank, self._target.rank, frames)
        if self.lost:
            return Sent.TAKEN
        now = asyncio.get_running_loop().time()
        self._line_free = max(now, self._line_free)
        if conditions.bytes_per_second < math.inf:
            self._line_free += size(frames) / conditions.bytes_per_second
        self._last_due = max(self._last_due, self._line_free + self._network.rng.uniform(*conditions.latency))
        self.under_way.append((self._last_due, frames))
        if len(self.under_way) == 1:
            self.deliver()
        return Sent.TAKEN

    def deliver(self) -> None:
        """Deliver the messages that are due, unless nothing passes; to be called when that may have changed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._network.held(self._source.rank, self._target.rank) or self._target.process.frozen:
            return
        now = asyncio.get_running_loop().time() + _CLOCK
        while self.under_way and self.under_way[0][0] <= now:
            identity = self._source.rank if self._network.conditions.keys else None
            self._target.push(Arrival(self._target_link, self.under_way.popleft()[1], identity))
        if len(self.under_way) <= self._network.conditions.capacity // 2:
            self._wake_sender()
        if self.under_way:
            self._timer = later(max(self.under_way[0][0] - asyncio.get_running_loop().time(), 0.0), self.deliver)
        else:
            self._source.emptied.set()

    def end(self, *, flush: bool) -> None:
        """Lose the messages under way, or deliver them at once if that is possible; all later ones are lost."""
        if flush:
            self.under_way = deque((0.0, frames) for _, frames in self.under_way)
            self.deliver()
        self.under_way.clear()
        self.lost = True
        self._source.emptied.set()
        self._wake_sender()

    def _wake_sender(self) -> None:
        if self._sender_waits:
            self._sender_waits = False
            self._source.push(Writable(self._source_link))


class _Connection:
    """The two directions between a dialler and a listener.

    Attributes:
        open: Whether it has not been broken yet; messages may still be under way.
    """

    def __init__(
        self, network: FaultyNetwork, dialler: FaultyTransport, dialled: _Dialled, listener: FaultyTransport
    ) -> None:
        self.dialler, self.dialled, self.listener = dialler, dialled, listener
        self.ranks = _pair(dialler.rank, listener.rank)
        self.accepted: Link = next(network.numbers)
        here, there = (dialler, dialled.link), (listener, self.accepted)
        self.there, self.back = _Direction(network, here, there), _Direction(network, there, here)
        self.directions = self.there, self.back
        self.links = {dialled.link, self.accepted}
        self.open = True
        self._network = network

    def way(self, source: int) -> _Direction:
        """The direction from one of both ranks."""
        return self.there if source == self.dialler.rank else self.back

    def cut(self, *, flush: bool | None = None) -> None:
        """Break it. Both ends learn of it in a while, the listener perhaps only by its next message.

        Args:
            flush: Whether messages under way still arrive; drawn if None.
        """
        if not self.open:
            return
        self.open = False
        network, conditions = self._network, self._network.conditions
        for direction in self.directions:
            direction.end(flush=network.rng.random() < conditions.flushed if flush is None else flush)
        notify = network.rng.random() < conditions.listener_told
        later(network.rng.uniform(*conditions.notice), lambda: self.dialler.broken(self.dialled))
        later(network.rng.uniform(*conditions.notice), lambda: self._listener_broken(notify))

    def _listener_broken(self, notify: bool) -> None:
        self.listener.links.pop(self.accepted, None)
        if notify:
            self.listener.push(Broken(self.accepted))


@dataclass
class _Dialled:
    """An address that a transport has dialled, and keeps dialling."""

    link: Link
    address: str
    connection: _Connection | None = None
    delay: float = 0.0
    dropped: bool = False


class FaultyTransport:
    """A `Transport` of a process in a `FaultyNetwork`. Addresses are any text; port 0 picks one.

    Args:
        rank: The process's rank; faults name ranks.

    Attributes:
        links: The connection of each link that has one.
        emptied: Set when no message is under way any more in one of the directions from here.
    """

    def __init__(self, network: FaultyNetwork, rank: int, process: Process) -> None:
        self.rank = rank
        self.process = process
        self._network = network
        self.links: dict[Link, _Connection] = {}
        self._dialled: dict[Link, _Dialled] = {}
        self._events: deque[Event] = deque()
        self._breaking: set[Link] = set()  # links whose end waits in `_events`
        self._something = asyncio.Event()
        self.emptied = asyncio.Event()
        self._address: str | None = None
        self._closed = False
        process.on_thaw.append(self._thawed)

    @property
    def chunk_bytes(self) -> int | None:
        """The most bytes of buffers that a message should have."""
        return self._network.conditions.chunk_bytes

    async def listen(self, address: str) -> str:
        """Take the address."""
        self._address = self._network.listen(address, self)
        return self._address

    def dial(self, address: str, identity: Identity | None = None) -> Link:
        """Connect, again and again until another transport listens there, and whenever the connection breaks."""
        dialled = _Dialled(next(self._network.numbers), address)
        self._dialled[dialled.link] = dialled
        self._try(dialled, 0.0)
        return dialled.link

    def admit(self, keys: Mapping[Identity, tuple[str, ...]]) -> None:
        """Simulated peers have no keys."""

    def drop(self, link: Link) -> None:
        """Give a dialled link up."""
        dialled = self._dialled.pop(link, None)
        if dialled is not None:
            dialled.dropped = True
            if dialled.connection is not None:
                dialled.connection.cut(flush=False)
        self.links.pop(link, None)

    def send(self, link: Link, frames: Frames) -> Sent:
        """Put a message under way; the receiver sees the very same buffers."""
        if link in self._breaking:
            return Sent.FULL  # messages that have arrived are read first, then the end of the link
        joined = self.links.get(link)
        return Sent.GONE if joined is None or self.process.dead else joined.way(self.rank).send(frames)

    async def receive(self) -> Event:
        """The next event on any link."""
        while not self._events:
            self._something.clear()
            await self._something.wait()
        event = self._events.popleft()
        if isinstance(event, Broken):
            self._breaking.discard(event.link)
        return event

    async def close(self, linger: float) -> None:
        """Have messages under way arrive, for at most `linger` virtual seconds, and leave the network."""
        if self._closed:
            return
        self._stop_listening()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(linger):
                while not self.process.dead and any(joined.way(self.rank).under_way for joined in self.links.values()):
                    self.emptied.clear()
                    await self.emptied.wait()
        self.end(notice=True)

    # -- for the network ---------------------------------------------------------------------------------------

    def end(self, *, notice: bool) -> None:
        """Be gone, as when a process is killed; without notice, as when its host loses power."""
        self._closed = True
        self._stop_listening()
        for dialled in self._dialled.values():
            dialled.dropped = True
        for connection in list(self.links.values()):
            if notice:
                connection.cut()
            else:
                for direction in connection.directions:
                    direction.end(flush=False)
        self.links.clear()
        self._events.clear()
        self.emptied.set()

    def push(self, event: Event) -> None:
        """Note an event for `receive`."""
        if not self._closed:
            if isinstance(event, Broken):
                self._breaking.add(event.link)
            self._events.append(event)
            self._something.set()

    def broken(self, dialled: _Dialled) -> None:
        """Learn that a dialled connection is broken, and try again."""
        if dialled.dropped:
            return
        self.links.pop(dialled.link, None)
        self.push(Broken(dialled.link))
        dialled.connection = None
        dialled.delay = 0.0
        self._try(dialled, self._network.rng.uniform(*self._network.conditions.redial))

    def _try(self, dialled: _Dialled, seconds: float) -> None:
        latency = sum(self._network.rng.uniform(*self._network.conditions.latency) for _ in range(2))
        later(seconds + latency, lambda: self._connect(dialled))

    def _connect(self, dialled: _Dialled) -> None:
        if dialled.dropped or self._closed:
            return
        listener = self._network.reachable(self, dialled.address)
        if listener is not None:
            self._network.connect(self, dialled, listener)
            return
        least, most = self._network.conditions.redial
        dialled.delay = min(max(2 * dialled.delay, least), most)
        self._try(dialled, dialled.delay)

    def _stop_listening(self) -> None:
        if self._address is not None and self._network.listeners.get(self._address) is self:
            del self._network.listeners[self._address]

    def _thawed(self) -> None:
        for connection in list(self.links.values()):
            for direction in connection.directions:
                direction.deliver()
