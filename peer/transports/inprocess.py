"""In-process transport: messages pass from queue to queue, through the same codec as on a socket."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from dpeer.exceptions import AddressError
from dpeer.peer.core.limits import UNREAD_IN_PROCESS
from dpeer.peer.core.wire import Frames
from dpeer.peer.transport import Arrival, Broken, Event, Identity, Link, Opened, Sent, Writable


@dataclass
class Network:
    """The in-process transports that can reach each other: one network for each simulation or test."""

    listeners: dict[str, InProcessTransport] = field(default_factory=dict)
    waiting: dict[str, list[tuple[InProcessTransport, Link]]] = field(default_factory=dict)
    ports: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    links: itertools.count[int] = field(default_factory=itertools.count)

    def transport(self) -> InProcessTransport:
        """A new endpoint in this network."""
        return InProcessTransport(self)


class InProcessTransport:
    """A `Transport` between event-loop tasks of one process. Addresses are `inproc://NAME`; port 0 picks a name."""

    chunk_bytes = None

    def __init__(self, network: Network) -> None:
        self._network = network
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._far: dict[Link, tuple[InProcessTransport, Link]] = {}
        self._unread: Counter[Link] = Counter()
        self._full: set[Link] = set()
        self._breaking: set[Link] = set()
        self._address: str | None = None

    async def listen(self, address: str) -> str:
        """Take the address; dialled links that wait for it are established."""
        if address.endswith(":0"):
            address = f"{address[:-1]}{next(self._network.ports)}"
        if address in self._network.listeners:
            raise AddressError(f"address {address!r} is in use: give each peer its own")
        self._network.listeners[address] = self
        self._address = address
        for dialler, link in self._network.waiting.pop(address, []):
            self._establish(dialler, link)
        return address

    def dial(self, address: str, identity: Identity | None = None) -> Link:
        """Connect now, or as soon as a peer listens there."""
        link: Link = next(self._network.links)
        listener = self._network.listeners.get(address)
        if listener is None:
            self._network.waiting.setdefault(address, []).append((self, link))
        else:
            listener._establish(self, link)
        return link

    def admit(self, keys: Mapping[Identity, tuple[str, ...]]) -> None:
        """Peers of one process have no keys."""

    def drop(self, link: Link) -> None:
        """Take the link away from both ends, or from those that wait for a listener."""
        for waiting in self._network.waiting.values():
            if (self, link) in waiting:
                waiting.remove((self, link))
        if link in self._far:
            transport, far = self._far.pop(link)
            transport._part(far)

    def _establish(self, dialler: InProcessTransport, link: Link) -> None:
        near: Link = next(self._network.links)
        self._far[near] = (dialler, link)
        dialler._far[link] = (self, near)
        dialler._events.put_nowait(Opened(link))

    def _part(self, link: Link) -> None:
        self._far.pop(link, None)
        self._breaking.add(link)
        self._events.put_nowait(Broken(link))

    def send(self, link: Link, frames: Frames) -> Sent:
        """Hand the frames over; the receiver sees the very same buffers."""
        if link in self._breaking:
            return Sent.FULL  # messages that have arrived are read first, then the end of the link
        if link not in self._far:
            return Sent.GONE
        transport, far = self._far[link]
        if transport._unread[far] >= UNREAD_IN_PROCESS:
            transport._full.add(far)
            return Sent.FULL
        transport._unread[far] += 1
        transport._events.put_nowait(Arrival(far, frames))
        return Sent.TAKEN

    async def receive(self) -> Event:
        """The next event, in the order in which they happened."""
        event = await self._events.get()
        if isinstance(event, Broken):
            self._breaking.discard(event.link)
        if isinstance(event, Arrival):
            self._unread[event.link] -= 1
            if event.link in self._full and event.link in self._far:
                self._full.discard(event.link)
                transport, far = self._far[event.link]
                transport._events.put_nowait(Writable(far))
        return event

    async def close(self, linger: float) -> None:
        """Leave the network. Messages that were sent are already in the receivers' queues."""
        for transport, far in self._far.values():
            transport._part(far)
        self._far.clear()
        if self._address is not None:
            self._network.listeners.pop(self._address, None)
