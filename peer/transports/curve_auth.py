"""Who gets in at a listening socket: answers libzmq's questions about keys, and ends connections that are too many.

libzmq asks by its authentication protocol (ZAP, rfc.zeromq.org/spec/27), through a socket of the transport's own
context; nobody outside this process can reach it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import zmq
from zmq.utils.monitor import parse_monitor_message

from dpeer.peer.core.limits import HANDSHAKE, PROVE_WITHIN, UNSAID
from dpeer.peer.transports import tcp
from dpeer.peer.transports.base import TurnedAway
from dpeer.peer.transports.connections import Connections
from dpeer.peer.transports.keys import Identity, Keyring
from dpeer.peer.transports.memory_guard import GAUGED
from dpeer.peer.transports.monitors import monitored

if TYPE_CHECKING:
    from dpeer.peer.transports.zeromq import ZeroMQTransport

_DOMAIN = b"dpeer"
_ZAP = "inproc://zeromq.zap.01"
_VERSION = b"1.0"

_WATCHED = (
    GAUGED
    | zmq.EVENT_ACCEPTED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)


class Door:
    """The door of one listening socket.

    Args:
        transport: Makes the sockets, reads them, and takes what happens.
        router: The listening socket, before it is bound.
        keyring: Whose keys are let in.
    """

    def __init__(self, transport: ZeroMQTransport, router: zmq.Socket[bytes], keyring: Keyring) -> None:
        self._transport = transport
        self._owners = keyring.owners
        self._connections = Connections()
        self._ends: dict[int, tcp.Ends] = {}
        self._unsaid: dict[str, tuple[str, int]] = {}
        self._loop = asyncio.get_running_loop()
        self._asked = transport.socket(zmq.REP, _ZAP)
        self._asked.bind(_ZAP)
        transport.watch(self._asked, self._answer)
        router.curve_server = True
        router.curve_secretkey = keyring.secret
        router.setsockopt(zmq.ZAP_DOMAIN, _DOMAIN)
        router.setsockopt(zmq.HANDSHAKE_IVL, int(HANDSHAKE * 1000))
        self._router = router
        self._monitor = monitored(router, _WATCHED)
        transport.watch(self._monitor, self._happened)
        self._look: asyncio.TimerHandle | None = None
        self._look_later()

    def close(self) -> None:
        """Let nobody in any more; before the listening socket is closed."""
        if self._look is not None:
            self._look.cancel()
        self._router.disable_monitor()
        for watched in (self._monitor, self._asked):
            self._transport.forget(watched)

    def identify(self, part: zmq.Frame) -> tuple[Identity, int]:
        """Who has proved a key on the connection on which this part of a message came, and the connection's number."""
        identity = int(part["User-Id"])
        number = int(part.get(zmq.SRCFD))
        for old in self._connections.spoke(number, identity, self._loop.time()):
            self._end(old)
        return identity, number

    # -- libzmq's questions ------------------------------------------------------------------------------------

    def _answer(self, parts: list[zmq.Frame]) -> None:
        question = [part.bytes for part in parts]
        version, request, key = question[0], question[1], question[6] if len(question) == 7 else b""
        owner = self._owners.get(key) if question[5] == b"CURVE" else None
        if owner is None:
            self._turned_away(question[3].decode(errors="replace"), "unlisted-key")
            code, text, name = b"400", b"not listed", b""
        else:
            code, text, name = b"200", b"", str(owner).encode()
        with contextlib.suppress(zmq.ZMQError):  # the one who asked is gone
            self._asked.send_multipart([version or _VERSION, request, code, text, name, b""], zmq.NOBLOCK)

    # -- connections -------------------------------------------------------------------------------------------

    def _happened(self, parts: list[zmq.Frame]) -> None:
        self._transport.gauge.happened(self._router, parts)
        message = parse_monitor_message([part.bytes for part in parts])
        event, number = message["event"], message["value"]
        if event == zmq.EVENT_ACCEPTED:
            self._accepted(number)
        elif event == zmq.EVENT_DISCONNECTED:
            self._connections.closed(number)
            self._ends.pop(number, None)
        else:
            self._turned_away("", "no-key")

    def _accepted(self, number: int) -> None:
        ends = tcp.ends(number)
        if ends is not None:
            self._ends[number] = ends
            for old in self._connections.accepted(number, tcp.place(ends), self._loop.time()):
                self._end(old)

    def ending(self, number: int) -> Callable[[], object]:
        """What ends the connection on which a message has just come, and leaves alone whoever gets its number later."""
        # The word that it was accepted may come later than its first message.
        return partial(tcp.end, number, self._ends.get(number) or tcp.ends(number))

    def _end(self, number: int) -> None:
        tcp.end(number, self._ends.get(number))

    def _look_later(self) -> None:
        self._look = self._loop.call_later(PROVE_WITHIN / 2, self._look_after)

    def _look_after(self) -> None:
        for number in self._connections.overdue(self._loop.time()):
            self._end(number)
        self._look_later()

    def _turned_away(self, place: str, reason: str) -> None:
        self._unsaid[reason] = place, self._unsaid.get(reason, ("", 0))[1] + 1
        if self._transport.waiting(self) < UNSAID:
            for reason, (place, count) in self._unsaid.items():
                self._transport.push(self, TurnedAway(place, reason, count))
            self._unsaid.clear()
