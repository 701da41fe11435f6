"""Simulated links: two directions each, in which messages keep their order, are delayed or are lost.

Nobody is told more than on a real network: an end of a connection learns of a break some time after it, or not at all.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from dpeer.peer.core.wire import Frames, size
from dpeer.peer.transport import Arrival, Broken, Event, Link, Sent, Writable
from dpeer.simulation.virtual_time import Process

_CLOCK = 1e-9
"""By how much a timer may go off early: virtual times are sums of floating-point numbers."""


@dataclass(frozen=True)
class Conditions:
    """What a network is like where no fault is at work. Pairs are the least and the most seconds of something."""

    latency: tuple[float, float] = (0.001, 0.02)
    """How long a message is under way, beside the time that its bytes take. Ways keep the order of their messages."""

    bytes_per_second: float = math.inf
    """Of each way of each connection."""

    capacity: int = 32
    """How many messages may be under way before the sender is told to wait."""

    chunk_bytes: int | None = None
    """As `Transport.chunk_bytes`."""

    keys: bool = False
    """Whether every process proves which rank it is, as by keys."""

    redial: tuple[float, float] = (0.1, 2.0)
    """How long a dialler waits before it tries again; doubled from the least to the most while it is in vain."""

    notice: tuple[float, float] = (0.0, 0.5)
    """How long after a break an end of the connection learns of it; what it sends until then is lost."""

    listener_told: float = 0.5
    """How likely the end that accepted a connection is told of its break; else only its next message finds it gone."""

    flushed: float = 0.5
    """How likely what is under way when a connection breaks still arrives; else it is lost."""


class Endpoint(Protocol):
    """What a connection ends at: a transport of a process."""

    rank: int
    process: Process

    def push(self, event: Event) -> None:
        """Have the transport's owner learn of an event."""

    def lose(self, link: Link) -> None:
        """Take no more messages for a link."""

    def emptied(self) -> None:
        """Note that nothing is under way any more on one of the ways from here."""


class Surroundings(Protocol):
    """What a connection knows of the network that it is in."""

    conditions: Conditions
    rng: random.Random

    def held(self, source: int, target: int) -> bool:
        """Whether nothing passes from one rank to another at present."""

    def on_sent(self, source: int, target: int, frames: Frames) -> None:
        """Called with every message that a sender has been rid of."""


_OUTSIDE = contextvars.Context()
"""The network goes on while a process is frozen, also with what that one has begun."""


def later(seconds: float, call: Callable[[], object]) -> asyncio.TimerHandle:
    """Do something after some seconds, whether the present process is frozen then or not."""
    loop = asyncio.get_running_loop()
    return loop.call_at(loop.time() + seconds, call, context=_OUTSIDE)


class Way:
    """One direction of a connection: the messages that are under way, in order.

    Args:
        network: Where it is.
        source: Who sends, and the sender's link.
        target: Who receives, and the receiver's link.

    Attributes:
        lost: Whether everything vanishes that is sent from now on.
    """

    def __init__(self, network: Surroundings, source: tuple[Endpoint, Link], target: tuple[Endpoint, Link]) -> None:
        self.lost = False
        self._network = network
        self._source, self._source_link = source
        self._target, self._target_link = target
        self._under_way: deque[tuple[float, Frames]] = deque()
        self._line_free = self._last_due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._sender_waits = False

    @property
    def empty(self) -> bool:
        """Whether nothing is under way."""
        return not self._under_way

    def send(self, frames: Frames) -> Sent:
        """Send a message, if not too many are under way."""
        conditions = self._network.conditions
        if len(self._under_way) >= conditions.capacity:
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
        self._under_way.append((self._last_due, frames))
        if len(self._under_way) == 1:
            self._arm()
        return Sent.TAKEN

    def look(self) -> None:
        """Deliver what is due, unless nothing passes; to be called when that may have changed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._network.held(self._source.rank, self._target.rank) or self._target.process.frozen:
            return
        now = asyncio.get_running_loop().time() + _CLOCK
        while self._under_way and self._under_way[0][0] <= now:
            identity = self._source.rank if self._network.conditions.keys else None
            self._target.push(Arrival(self._target_link, self._under_way.popleft()[1], identity))
        if len(self._under_way) <= self._network.conditions.capacity // 2:
            self._tell_sender()
        if self._under_way:
            self._arm()
        else:
            self._source.emptied()

    def end(self, *, flush: bool) -> None:
        """Lose what is under way, or deliver it at once if that is possible; everything later is lost."""
        if flush:
            self._under_way = deque((0.0, frames) for _, frames in self._under_way)
            self.look()
        self._under_way.clear()
        self.lost = True
        self._source.emptied()
        self._tell_sender()

    def _arm(self) -> None:
        seconds = self._under_way[0][0] - asyncio.get_running_loop().time()
        self._timer = later(max(seconds, 0.0), self.look)

    def _tell_sender(self) -> None:
        if self._sender_waits:
            self._sender_waits = False
            self._source.push(Writable(self._source_link))


class Connection:
    """Two ways between a dialler and a listener.

    Args:
        network: Where it is.
        dialler: Who dialled, and its link.
        listener: Who accepted, and its link.
        broken: Called when the dialler learns that the connection is broken.

    Attributes:
        address: Where the listener listened.
        ends: The two ends: the dialler, the listener.
        there: From the dialler to the listener.
        back: From the listener to the dialler.
        open: Whether it has not been broken yet, whatever still passes on it.
    """

    def __init__(
        self,
        network: Surroundings,
        address: str,
        dialler: tuple[Endpoint, Link],
        listener: tuple[Endpoint, Link],
        broken: Callable[[], None],
    ) -> None:
        self.address = address
        self.ends = dialler[0], listener[0]
        self.there, self.back = Way(network, dialler, listener), Way(network, listener, dialler)
        self.open = True
        self._network = network
        self._links = dialler[1], listener[1]
        self._broken = broken

    @property
    def ways(self) -> tuple[Way, Way]:
        """Both of them."""
        return self.there, self.back

    def vanish(self) -> None:
        """Lose everything from now on. Nobody is told."""
        for way in self.ways:
            way.end(flush=False)

    def cut(self, *, flush: bool | None = None) -> None:
        """Break it. Both ends learn of it in a while, the listener perhaps only by its next message.

        Args:
            flush: Whether what is under way still arrives; drawn if None.
        """
        if not self.open:
            return
        self.open = False
        network, conditions = self._network, self._network.conditions
        for way in self.ways:
            way.end(flush=network.rng.random() < conditions.flushed if flush is None else flush)
        told = network.rng.random() < conditions.listener_told
        later(network.rng.uniform(*conditions.notice), self._broken)
        later(network.rng.uniform(*conditions.notice), lambda: self._listener_learns(told))

    def _listener_learns(self, told: bool) -> None:
        end, link = self.ends[1], self._links[1]
        end.lose(link)
        if told:
            end.push(Broken(link))
