"""A simulated network in one process, with delays, losses, cuts and crashes.

All is drawn from one seed, so on a virtual clock (`dpeer.simulation.virtual_time`) the same accidents happen each time.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from dpeer.exceptions import AddressError
from dpeer.peer.core.wire import Frames
from dpeer.peer.transport import Broken, Event, Identity, Link, Opened, Sent
from dpeer.simulation.links import Conditions, Connection, Way, later
from dpeer.simulation.virtual_time import Process


class FaultyNetwork:
    """The transports that can reach each other, and what keeps them from it.

    Args:
        rng: What delays are drawn from.
        conditions: What the network is like where no fault is at work.
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
        self.listeners: dict[str, FaultyTransport] = {}
        self.numbers = itertools.count(1)
        self._on_sent = on_sent
        self._connections: list[Connection] = []
        self._holds: Counter[tuple[int, int]] = Counter()
        self._shut: Counter[tuple[int, int]] = Counter()

    def transport(self, rank: int, process: Process) -> FaultyTransport:
        """An endpoint for a rank's process."""
        return FaultyTransport(self, rank, process)

    # -- faults ------------------------------------------------------------------------------------------------

    def cut(self, one: int, other: int) -> None:
        """Break the connections between two ranks. Their ends learn of it."""
        for connection in self._between(one, other):
            connection.cut()

    def shut(self, one: int, other: int) -> None:
        """Let no new connection come about between two ranks until `unshut`; this adds up."""
        self._shut[_pair(one, other)] += 1

    def unshut(self, one: int, other: int) -> None:
        """End one `shut`."""
        self._shut[_pair(one, other)] -= 1

    def vanish(self, source: int, target: int) -> None:
        """Lose whatever is sent from one rank to another on the present connections. Nobody is told."""
        for connection in self._between(source, target):
            way = connection.there if connection.ends[0].rank == source else connection.back
            way.end(flush=False)

    def hold(self, source: int, target: int) -> None:
        """Let nothing pass from one rank to another until `release`; nothing is lost. This adds up."""
        self._holds[source, target] += 1

    def release(self, source: int, target: int) -> None:
        """End one `hold`."""
        self._holds[source, target] -= 1
        for connection in self._between(source, target):
            for way in connection.ways:
                way.look()

    # -- what transports ask -----------------------------------------------------------------------------------

    def held(self, source: int, target: int) -> bool:
        """Whether nothing passes from one rank to another at present."""
        return self._holds[source, target] > 0

    def on_sent(self, source: int, target: int, frames: Frames) -> None:
        """Called with every message that a sender has been rid of."""
        self._on_sent(source, target, frames)

    def reachable(self, dialler: FaultyTransport, address: str) -> FaultyTransport | None:
        """Who would accept a connection at an address now."""
        listener = self.listeners.get(address)
        if listener is None or listener.process.frozen or dialler.process.frozen:
            return None
        one, other = dialler.rank, listener.rank
        held = self.held(one, other) or self.held(other, one) or self._shut[_pair(one, other)] > 0
        return None if held else listener

    def listen(self, address: str, listener: FaultyTransport) -> str:
        """Give a transport an address. Who still has a connection to its earlier owner learns that it is broken."""
        if address.endswith(":0"):
            address = f"{address[:-1]}{next(self.numbers)}"
        if address in self.listeners:
            raise AddressError(f"address {address!r} is in use: give each peer its own")
        self.listeners[address] = listener
        for connection in self._connections:
            if connection.address == address and connection.ends[1] is not listener:
                connection.cut(flush=False)
        return address

    def connect(self, address: str, dialler: FaultyTransport, dialled: _Dialled, listener: FaultyTransport) -> None:
        """Join two transports."""
        accepted: Link = next(self.numbers)
        connection = Connection(
            self, address, (dialler, dialled.link), (listener, accepted), lambda: dialler.broken(dialled)
        )
        self._connections = [one for one in self._connections if one.open]
        self._connections.append(connection)
        dialled.connection = connection
        dialler.gain(dialled.link, connection.there, connection.back, connection)
        listener.gain(accepted, connection.back, connection.there, connection)
        dialler.push(Opened(dialled.link))

    def _between(self, one: int, other: int) -> list[Connection]:
        ranks = sorted((one, other))
        return [found for found in self._connections if found.open and sorted(e.rank for e in found.ends) == ranks]


def _pair(one: int, other: int) -> tuple[int, int]:
    return min(one, other), max(one, other)


@dataclass
class _Dialled:
    """An address that a transport has dialled, and keeps dialling."""

    link: Link
    address: str
    connection: Connection | None = None
    delay: float = 0.0
    dropped: bool = False


@dataclass(frozen=True)
class _Joined:
    """A link that messages can be sent on."""

    out: Way
    into: Way
    connection: Connection = field(repr=False)


class FaultyTransport:
    """A `Transport` of a process in a `FaultyNetwork`. Addresses are any text; port 0 picks one.

    Args:
        network: Where it is.
        rank: Whose it is; faults name ranks.
        process: The process that it ends with.
    """

    def __init__(self, network: FaultyNetwork, rank: int, process: Process) -> None:
        self.rank = rank
        self.process = process
        self._network = network
        self._links: dict[Link, _Joined] = {}
        self._dialled: dict[Link, _Dialled] = {}
        self._events: deque[Event] = deque()
        self._something = asyncio.Event()
        self._emptied = asyncio.Event()
        self._address: str | None = None
        self._closed = False
        process.on_thaw.append(self._look)

    @property
    def chunk_bytes(self) -> int | None:
        """The most bytes of buffers that a message should have."""
        return self._network.conditions.chunk_bytes

    async def listen(self, address: str) -> str:
        """Take the address."""
        self._address = self._network.listen(address, self)
        return self._address

    def dial(self, address: str, identity: Identity | None = None) -> Link:
        """Connect, again and again until somebody listens there, and whenever the connection breaks."""
        dialled = _Dialled(next(self._network.numbers), address)
        self._dialled[dialled.link] = dialled
        self._try(dialled, 0.0)
        return dialled.link

    def drop(self, link: Link) -> None:
        """Give a dialled link up."""
        dialled = self._dialled.pop(link, None)
        if dialled is not None:
            dialled.dropped = True
            if dialled.connection is not None:
                dialled.connection.cut(flush=False)
        self.lose(link)

    def send(self, link: Link, frames: Frames) -> Sent:
        """Put a message under way; the receiver sees the very same buffers."""
        joined = self._links.get(link)
        return Sent.GONE if joined is None or self.process.dead else joined.out.send(frames)

    async def receive(self) -> Event:
        """What happens next on any link."""
        while not self._events:
            self._something.clear()
            await self._something.wait()
        return self._events.popleft()

    async def close(self, linger: float) -> None:
        """Have what is under way arrive, for at most `linger` virtual seconds, and leave the network."""
        if self._closed:
            return
        self._stop_listening()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(linger):
                while not self.process.dead and not all(joined.out.empty for joined in self._links.values()):
                    self._emptied.clear()
                    await self._emptied.wait()
        self.end(notice=True)

    # -- what the network does ---------------------------------------------------------------------------------

    def end(self, *, notice: bool) -> None:
        """Be gone, as when a process is killed; without notice, as when its host loses power."""
        self._closed = True
        self._stop_listening()
        for dialled in self._dialled.values():
            dialled.dropped = True
        for joined in list(self._links.values()):
            if notice:
                joined.connection.cut()
            else:
                joined.connection.vanish()
        self._links.clear()
        self._events.clear()
        self._emptied.set()

    def push(self, event: Event) -> None:
        """Note an event for `receive`."""
        if not self._closed:
            self._events.append(event)
            self._something.set()

    def emptied(self) -> None:
        """Note that nothing is under way any more on one of the links."""
        self._emptied.set()

    def gain(self, link: Link, out: Way, into: Way, connection: Connection) -> None:
        """Be joined to another transport by a link."""
        self._links[link] = _Joined(out, into, connection)

    def lose(self, link: Link) -> None:
        """Take no more messages for a link."""
        self._links.pop(link, None)

    def broken(self, dialled: _Dialled) -> None:
        """Learn that a dialled connection is broken, and try again."""
        if dialled.dropped:
            return
        self.lose(dialled.link)
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
            self._network.connect(dialled.address, self, dialled, listener)
            return
        least, most = self._network.conditions.redial
        dialled.delay = min(max(2 * dialled.delay, least), most)
        self._try(dialled, dialled.delay)

    def _stop_listening(self) -> None:
        if self._address is not None and self._network.listeners.get(self._address) is self:
            del self._network.listeners[self._address]

    def _look(self) -> None:
        for joined in list(self._links.values()):
            joined.into.look()
