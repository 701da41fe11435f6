"""Connection guard: bounds the cost of a socket's connections where libzmq sets no bound.

ZMQ_MAXMSGSIZE bounds a frame, high-water marks bound whole messages that wait, ZMQ_HANDSHAKE_IVL bounds a handshake.
But libzmq keeps all frames of a message until its last one, however many come, and accepts any number of connections.
The guard looks every `LOOK` seconds at the bytes that libzmq took from each connection since the last whole message. If
they are more than all messages that may wait to be read, one of these has no end, and the connection is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import socket
import struct
import termios
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import zmq

from dpeer.peer.core.limits import AROUND, LOOK, MOST_UNPROVED, PROVE_WITHIN, UNREAD
from dpeer.peer.transport import Identity, Link

EVENTS = zmq.EVENT_ACCEPTED | zmq.EVENT_CONNECTED | zmq.EVENT_DISCONNECTED  # of a socket's monitor


@dataclass
class _Connection:
    copy: socket.socket  # of the descriptor, whose number may be another connection's by the time it is used
    since: float
    place: str  # the host at the other end, if it has a name; asked for at once, as a connection that ends has none
    identity: Identity | None = None
    link: Link | None = None
    came: bool = False  # whether a whole message has come since the last look
    base: int = 0  # bytes taken until then
    ended: bool = False

    def taken(self) -> int:
        """Bytes that libzmq took from the connection; 0 where the system does not count (Linux does, over TCP)."""
        with contextlib.suppress(OSError, AttributeError, struct.error):
            info = self.copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 136)
            (received,) = struct.unpack_from("=Q", info, 128)  # tcpi_bytes_received, since Linux 4.1
            (waiting,) = struct.unpack("=i", fcntl.ioctl(self.copy, termios.FIONREAD, bytes(4)))
            return int(received - waiting)
        return 0

    def end(self) -> None:
        """Shut it down, with a reset: a sender that is not read learns of it at once."""
        self.ended = True
        with contextlib.suppress(OSError):
            self.copy.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 0))
            self.copy.shutdown(socket.SHUT_RDWR)


def _place(connection: socket.socket) -> str:
    there = connection.getpeername()
    return str(there[0]) if isinstance(there, tuple) else ""


class ConnectionGuard:
    """Guards the connections of one socket.

    Args:
        longest: Bytes of an honest message's frames, at most.
        keys: Whether a connection has to prove a key: few may be without, for a short time, and the newest connection
            of each key takes the place of its others.
        endless: Called with link and host of a connection that was ended because of a message without end.
    """

    def __init__(self, longest: int, endless: Callable[[Link | None, str], None], *, keys: bool):
        self._most = (UNREAD + 2) * (longest + AROUND)
        self._keys, self._endless = keys, endless
        self._all: dict[int, _Connection] = {}  # by the number of the descriptor
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def happened(self, event: zmq.Event, number: int) -> None:
        """Take an event of the socket's monitor."""
        if event & EVENTS and number in self._all:
            self._all.pop(number).copy.close()
        if event & (zmq.EVENT_ACCEPTED | zmq.EVENT_CONNECTED):
            with contextlib.suppress(OSError):  # it is gone already
                copy = socket.fromfd(number, socket.AF_INET, socket.SOCK_STREAM)
                self._all[number] = _Connection(copy, self._loop.time(), _place(copy))
            self._timer = self._timer or self._loop.call_later(LOOK, self._look)
            if self._keys and len(unproved := self.unproved()) > MOST_UNPROVED:  # a host that floods displaces itself
                [(busiest, _)] = Counter(one.place for one in unproved).most_common(1)
                next(one for one in unproved if one.place == busiest).end()

    def _connection(self, part: zmq.Frame) -> _Connection | None:
        """The connection of a message, by a part of it; None if its event comes later, or it is of an old protocol."""
        with contextlib.suppress(zmq.ZMQError):
            return self._all.get(int(part.get(zmq.SRCFD)))
        return None

    def came(self, part: zmq.Frame, link: Link, identity: Identity | None = None) -> None:
        """Take a whole message, by a part of it."""
        if (one := self._connection(part)) is None:
            return
        one.came, one.link = True, link
        if one.identity != identity:
            one.identity = identity
            for other in self._all.values():
                if other is not one and other.identity == identity:
                    other.end()

    def end_sender(self, part: zmq.Frame) -> None:
        """End the connection of a message, by a part of it."""
        if (one := self._connection(part)) is not None:
            one.end()

    def end(self, link: Link) -> None:
        """End the connection of a link."""
        for one in self._all.values():
            if one.link == link:
                one.end()

    def unproved(self) -> list[_Connection]:
        """The connections that have proved no key, the oldest first."""
        return [one for one in self._all.values() if one.identity is None and not one.ended]

    def _look(self) -> None:
        now = self._loop.time()
        for one in [one for one in self._all.values() if not one.ended]:
            taken = one.taken()
            if one.came:
                one.base, one.came = taken, False
            if taken - one.base > self._most:
                one.end()
                self._endless(one.link, one.place)
            elif self._keys and one.identity is None and now - one.since >= PROVE_WITHIN:
                one.end()
        self._timer = self._loop.call_later(LOOK, self._look) if self._all else None

    def close(self) -> None:
        """Guard nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        for one in self._all.values():
            one.copy.close()
        self._all.clear()
