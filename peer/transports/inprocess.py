"""Peers of one process: messages pass from queue to queue, through the same codec as on a socket."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field

from dpeer.exceptions import AddressError
from dpeer.peer.transports.base import Arrival, Link
from dpeer.peer.wire import Frames


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

    piece_bytes = None

    def __init__(self, network: Network) -> None:
        self._network = network
        self._arrivals: asyncio.Queue[Arrival] = asyncio.Queue()
        self._far: dict[Link, tuple[InProcessTransport, Link]] = {}
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

    def dial(self, address: str) -> Link:
        """Connect now, or as soon as somebody listens there."""
        link: Link = next(self._network.links)
        listener = self._network.listeners.get(address)
        if listener is None:
            self._network.waiting.setdefault(address, []).append((self, link))
        else:
            listener._establish(self, link)
        return link

    def _establish(self, dialler: InProcessTransport, link: Link) -> None:
        near: Link = next(self._network.links)
        self._far[near] = (dialler, link)
        dialler._far[link] = (self, near)
        dialler._arrivals.put_nowait(Arrival(link, None))

    def send(self, link: Link, frames: Frames) -> bool:
        """Hand the frames over; the receiver sees the very same buffers."""
        if link not in self._far:
            return False
        transport, far = self._far[link]
        transport._arrivals.put_nowait(Arrival(far, frames))
        return True

    async def receive(self) -> Arrival:
        """The next arrival of any link."""
        return await self._arrivals.get()

    async def close(self, linger: float) -> None:
        """Leave the network. Messages that were sent are already in the receivers' queues."""
        for transport, far in self._far.values():
            transport._far.pop(far, None)
        self._far.clear()
        if self._address is not None:
            self._network.listeners.pop(self._address, None)
