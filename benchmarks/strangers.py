"""Strangers that attack a peer, as a process of its own: `flooded.py` starts it, and measures the peer's slowdown.

    python benchmarks/strangers.py KIND CONNECTIONS

    junk        send junk without pause, to a peer without keys
    stalled     begin the handshake of a connection with keys, say nothing more, and connect again when that is ended
    unlisted    shake hands with a key that is not listed, and again when it is turned away
    plain       know of no keys, and send junk; connect again when the connection is ended

It says "ready", and reads where to attack: a line of JSON with `address`, `server`, the public key of the peer in
hexadecimal digits, and `per_s`, how often a second to connect at most (junk: to send something), or null. Without an
address it attacks a socket of its own, which does the least that keeps the attack going. When its input ends, it prints
how often a second it has connected (junk: sent something). It is held on the last core.
"""

from __future__ import annotations

import json
import os
import resource
import selectors
import socket
import struct
import sys
import threading
import time

import zmq

from dpeer.cores import own_cores
from dpeer.peer.transports.curve import new_secret, public_of

JUNK = bytes(100)
MUCH = bytes(65536)

_PAUSE = 0.002
"""Seconds until it is looked again whether there were too many attempts."""

_PATIENCE = 100
"""Milliseconds that a handshake with the socket of its own may take."""


def greeting(mechanism: bytes) -> bytes:
    """What a connection of ZeroMQ begins with."""
    return b"\xff" + bytes(8) + b"\x7f\x03\x01" + mechanism.ljust(20, b"\0") + bytes(32)


def sink(context: zmq.Context[zmq.Socket[bytes]], secret: bytes | None = None, *, closed: bool = False) -> str:
    """A socket that swallows all that it gets, without a line of Python; returns its address.

    Args:
        context: Where it lives.
        secret: Its secret key; None for a socket without keys.
        closed: Whether it turns away every key.
    """
    router = context.socket(zmq.ROUTER)
    if secret is not None:
        router.curve_server = True
        router.curve_secretkey = secret
        router.setsockopt(zmq.HANDSHAKE_IVL, _PATIENCE)
    if closed:
        router.setsockopt(zmq.ZAP_DOMAIN, b"aside")
        asked = context.socket(zmq.REP)
        asked.bind("inproc://zeromq.zap.01")
        threading.Thread(target=_deny, args=(asked,), daemon=True).start()
    port = router.bind_to_random_port("tcp://127.0.0.1")
    sink = context.socket(zmq.XPUB)
    threading.Thread(target=zmq.proxy, args=(router, sink), daemon=True).start()
    return f"tcp://127.0.0.1:{port}"


def _deny(asked: zmq.Socket[bytes]) -> None:
    while True:
        version, request, *_ = asked.recv_multipart()
        asked.send_multipart([version, request, b"400", b"not listed", b"", b""])


class Attack:
    """An attack on one address, which goes on until the process ends.

    Args:
        kind: Of the strangers.
        connections: How many they have at once.
        address: Where to.
        server: The public key of who listens there; empty if it has none.
        per_s: How many attempts it makes a second at most; None for as many as it can.

    Attributes:
        attempts: How many connections were made, or how much junk was sent.
    """

    def __init__(self, kind: str, connections: int, address: str, server: bytes, per_s: float | None) -> None:
        self.attempts = 0
        self._per_s, self._began = per_s, time.perf_counter()
        self._connections, self._address, self._server = connections, address, server
        self._context = zmq.Context()
        ways = {"junk": self._junk, "stalled": self._stall, "unlisted": self._prove, "plain": self._shout}
        if not address:
            secret = new_secret() if server else None
            self._address = sink(self._context, secret, closed=bool(server))
            self._server = public_of(secret) if secret else b""
        threading.Thread(target=ways[kind], daemon=True).start()

    @property
    def rate(self) -> float:
        """Attempts a second so far."""
        return self.attempts / (time.perf_counter() - self._began)

    def _early(self) -> bool:
        return self._per_s is not None and self.rate > self._per_s

    def _junk(self) -> None:
        poller = zmq.Poller()
        for _ in range(self._connections):
            link = self._context.socket(zmq.DEALER)
            link.connect(self._address)
            poller.register(link, zmq.POLLOUT)
        while True:
            while self._early():
                time.sleep(_PAUSE)
            for link, _ in poller.poll():
                try:
                    for _ in range(10):
                        link.send(JUNK, zmq.NOBLOCK)
                        self.attempts += 1
                except zmq.Again:
                    continue

    def _prove(self) -> None:
        secret = new_secret()
        links: dict[zmq.Socket[bytes], zmq.Socket[bytes]] = {}
        poller = zmq.Poller()
        for _ in range(self._connections):
            link = self._context.socket(zmq.DEALER)
            link.curve_secretkey, link.curve_publickey = secret, public_of(secret)
            link.curve_serverkey = self._server
            link.setsockopt(zmq.RECONNECT_IVL, 1)
            monitor = link.get_monitor_socket(zmq.EVENT_CONNECTED | zmq.EVENT_HANDSHAKE_FAILED_AUTH)
            links[monitor] = link
            poller.register(monitor, zmq.POLLIN)
            link.connect(self._address)
        while True:
            for monitor, _ in poller.poll():
                event = int.from_bytes(monitor.recv_multipart()[0][:2], sys.byteorder)
                if event == zmq.EVENT_CONNECTED:
                    self.attempts += 1
                else:  # libzmq does not try again where it was turned away
                    while self._early():
                        time.sleep(_PAUSE)
                    links[monitor].disconnect(self._address)
                    links[monitor].connect(self._address)

    def _stall(self) -> None:
        self._connect_on_and_on(greeting(b"CURVE"))

    def _shout(self) -> None:
        self._connect_on_and_on(greeting(b"NULL") + MUCH)

    def _connect_on_and_on(self, data: bytes) -> None:
        """Keep so many connections, each of which says this once and waits until it is ended."""
        held: set[socket.socket] = set()
        with selectors.DefaultSelector() as selector:
            while True:
                while len(held) < self._connections and not self._early() and (one := self._open()) is not None:
                    held.add(one)
                    selector.register(one, selectors.EVENT_READ | selectors.EVENT_WRITE)
                for key, events in selector.select(_PAUSE):
                    here = key.fileobj
                    assert isinstance(here, socket.socket)
                    try:
                        if events & selectors.EVENT_WRITE:
                            here.send(data)
                            selector.modify(here, selectors.EVENT_READ)
                        if events & selectors.EVENT_READ and not here.recv(65536):
                            raise ConnectionResetError
                    except BlockingIOError:
                        continue
                    except OSError:
                        selector.unregister(here)
                        held.discard(here)
                        here.close()

    def _open(self) -> socket.socket | None:
        """A connection that is being made; None if there can be no further one at present."""
        host, _, port = self._address.removeprefix("tcp://").rpartition(":")
        one = socket.socket()
        one.setblocking(False)
        # Without this the ports of connections that were ended are soon used up.
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        try:
            one.connect((host, int(port)))
        except BlockingIOError:
            pass
        except OSError:
            one.close()
            return None
        self.attempts += 1
        return one


def main() -> None:
    """Attack as the arguments and the input say."""
    kind, connections = sys.argv[1], int(sys.argv[2])
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {own_cores()[-1]})
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print("ready", flush=True)
    where = json.loads(sys.stdin.readline())
    attack = Attack(kind, connections, where["address"], bytes.fromhex(where["server"]), where["per_s"])
    sys.stdin.read()
    print(attack.rate, flush=True)
    os._exit(0)  # nothing is waited for: neither threads nor what is still to be sent


if __name__ == "__main__":
    main()
