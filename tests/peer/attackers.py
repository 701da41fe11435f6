"""A process that attacks a peer which uses keys: python attackers.py HOST:PORT SERVER-KEY STALLED FLOODS

It opens connections that begin a handshake and stall, connections that send junk without pause, and ZeroMQ sockets that
say hello: without keys, with a key that is not listed, with a wrong key of the server. It goes on until its standard
input is closed, and then prints all that it was sent, in hexadecimal digits.
"""

import contextlib
import os
import selectors
import socket
import sys
import threading
import time

import zmq
from zmq.utils import z85

from dpeer.peer.core import wire

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"CURVE".ljust(20, b"\0") + bytes(32)


def connect(place: tuple[str, int]) -> socket.socket:
    return socket.create_connection(place, timeout=5)


class Attack:
    """All of it, on one address."""

    def __init__(self, place: tuple[str, int], server_key: bytes) -> None:
        self.place, self.server_key = place, server_key
        self.over = threading.Event()
        self.got = bytearray()
        self.opened = 0

    def stall(self, at_once: int) -> None:
        """Keep so many connections open that have only greeted; those that are ended are replaced."""
        with selectors.DefaultSelector() as selector:
            held = 0
            while not self.over.is_set():
                while held < at_once and not self.over.is_set():
                    with contextlib.suppress(OSError):
                        one = connect(self.place)
                        one.sendall(GREETING)
                        one.setblocking(False)
                        selector.register(one, selectors.EVENT_READ)
                        held += 1
                        self.opened += 1
                for key, _ in selector.select(0.1):
                    data = b""
                    with contextlib.suppress(OSError):
                        data = key.fileobj.recv(65536)
                    self.got += data
                    if not data:
                        selector.unregister(key.fileobj)
                        key.fileobj.close()
                        held -= 1
                time.sleep(0.01)

    def flood(self) -> None:
        """Send junk, on a new connection whenever one is ended."""
        junk = os.urandom(65536)
        while not self.over.is_set():
            with contextlib.suppress(OSError), connect(self.place) as one:
                self.opened += 1
                one.sendall(GREETING)
                while not self.over.is_set():
                    one.sendall(junk)
            time.sleep(0.05)

    def hello(self, context: zmq.Context, secret: bytes | None, server_key: bytes) -> None:
        """Say hello on a ZeroMQ socket, again and again."""
        with context.socket(zmq.DEALER) as dealer:
            dealer.linger = 0
            if secret is not None:
                dealer.curve_secretkey = secret
                dealer.curve_publickey = z85.decode(zmq.curve_public(z85.encode(secret)))
                dealer.curve_serverkey = server_key
            dealer.connect(f"tcp://{self.place[0]}:{self.place[1]}")
            hello = wire.encode(wire.Hello(rank=1, next_round=0, fingerprint={"size": 99}, manifest={}, digest=""))
            while not self.over.is_set():
                with contextlib.suppress(zmq.Again):
                    dealer.send_multipart(hello, zmq.NOBLOCK)
                if dealer.poll(50):
                    self.got += b"".join(dealer.recv_multipart())


def main(address: str, server_key: str, stalled: int, floods: int) -> None:
    host, _, port = address.rpartition(":")
    attack = Attack((host, int(port)), bytes.fromhex(server_key))
    unlisted, wrong = (z85.decode(zmq.curve_keypair()[1]) for _ in range(2))
    other = z85.decode(zmq.curve_keypair()[0])
    with zmq.Context() as context:
        jobs = [
            (attack.stall, (stalled,)),
            *[(attack.flood, ())] * floods,
            (attack.hello, (context, None, b"")),
            (attack.hello, (context, unlisted, attack.server_key)),
            (attack.hello, (context, wrong, other)),
        ]
        threads = [threading.Thread(target=job, args=given, daemon=True) for job, given in jobs]
        for thread in threads:
            thread.start()
        while attack.opened < stalled + floods:
            time.sleep(0.01)
        print("attacking", flush=True)
        sys.stdin.read()
        attack.over.set()
        for thread in threads:
            thread.join(10)
    print(bytes(attack.got).hex(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
