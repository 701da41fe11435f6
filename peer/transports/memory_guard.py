"""Ends the connections on which a message comes that has no end: libzmq would keep it, and grow."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import zmq
from zmq.utils.monitor import parse_monitor_message

from dpeer.peer.core.limits import LOOK
from dpeer.peer.transports import tcp
from dpeer.peer.transports.base import Endless, Link
from dpeer.peer.transports.undelivered import Undelivered, longest_message, on_the_wire

if TYPE_CHECKING:
    from dpeer.peer.core.limits import Limits
    from dpeer.peer.transports.zeromq import ZeroMQTransport

_OPENED = zmq.EVENT_ACCEPTED | zmq.EVENT_CONNECTED
GAUGED = _OPENED | zmq.EVENT_DISCONNECTED
"""What a socket's monitor has to say for this."""


@dataclass
class _Socket:
    """One socket: its link, where it was dialled, and its connections: their ends, and whose messages came on them."""

    link: Link | None
    undelivered: Undelivered
    ends: dict[int, tcp.Ends | None] = field(default_factory=dict)
    links: dict[int, Link] = field(default_factory=dict)


class Gauge:
    """Looks every `LOOK` seconds at how much libzmq holds of each connection that has not come to its end.

    Args:
        transport: Has the sockets, and takes what happens.
        limits: The longest frames.
    """

    def __init__(self, transport: ZeroMQTransport, limits: Limits) -> None:
        self._transport = transport
        self._longest = longest_message(limits, transport.piece_bytes)
        self._sealed = transport.keyring is not None
        self._sockets: dict[zmq.Socket[bytes], _Socket] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._count = tcp.counter()

    def add(self, socket: zmq.Socket[bytes], link: Link | None) -> None:
        """Begin to look at a socket's connections, each as soon as the socket's monitor says that it is there.

        Args:
            socket: It must not be connected or bound yet.
            link: What is dialled with it; None for a listener.
        """
        self._sockets[socket] = _Socket(link, Undelivered(self._longest))

    def forget(self, socket: zmq.Socket[bytes]) -> None:
        """Look at a socket's connections no more."""
        self._sockets.pop(socket, None)
        if not self._sockets and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def happened(self, socket: zmq.Socket[bytes], parts: list[zmq.Frame]) -> None:
        """Note what the socket's monitor has said."""
        message = parse_monitor_message([part.bytes for part in parts])
        event, number, one = message["event"], int(message["value"]), self._sockets.get(socket)
        if one is None:
            return
        if event & _OPENED and self._count(number) is not None:
            one.ends[number] = tcp.ends(number)
            one.links.pop(number, None)  # that of an earlier connection with this number, perhaps
            one.undelivered.opened(number)
            if self._timer is None:
                self._look_later()
        elif event == zmq.EVENT_DISCONNECTED:
            one.undelivered.closed(number)
            one.ends.pop(number, None)
            one.links.pop(number, None)

    def came(self, socket: zmq.Socket[bytes], link: Link, parts: list[zmq.Frame]) -> None:
        """Note a message that has been handed out: the frames that were on the wire."""
        one = self._sockets.get(socket)
        if one is None:
            return
        try:
            number = int(parts[-1].get(zmq.SRCFD))
        except zmq.ZMQError:  # over a protocol older than peers have: what comes so is taken for held
            return
        one.links[number] = link
        one.undelivered.delivered(number, on_the_wire(map(len, parts), sealed=self._sealed))

    def emptied(self, socket: zmq.Socket[bytes]) -> None:
        """Note that no whole message waits in the socket at present."""
        one = self._sockets.get(socket)
        if one is not None and one.undelivered.doubtful:
            for number in one.undelivered.emptied():
                self._end(socket, one, number)

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK, self._look)

    def _look(self) -> None:
        self._timer = None
        connections = 0
        for socket, one in self._sockets.items():
            for number in one.undelivered.numbers:
                counts = self._count(number)
                if counts is None:
                    continue  # it is closed, and the word of that is on its way
                connections += 1
                if one.undelivered.look(number, *counts):
                    self._end(socket, one, number)
            if one.undelivered.doubtful:
                self._transport.look_soon(socket)
        if connections:
            self._look_later()

    def _end(self, socket: zmq.Socket[bytes], one: _Socket, number: int) -> None:
        there = one.ends.get(number)
        if tcp.end(number, there, reset=True):
            link = one.links.get(number) if one.link is None else one.link
            key = socket if one.link is None else one.link
            self._transport.push(key, Endless(link, tcp.place(there)))
