"""Sends frames of one message without end: a process of its own, so that its memory is not the attacked one's.

    endless.py dial PORT [SECRET PUBLIC]    dials PORT of this host
    endless.py listen                       listens, and prints its port
    endless.py listen SECRET                the same, with keys

Without keys ZMTP is written by hand (rfc.zeromq.org/spec/23), and the message never ends. With them it is libzmq's,
which sends nothing of a message before its end is known: that comes after `_ENDLESS` bytes. It begins when it reads a
line; then it says what has become of the connection, or of the message: "ended", or "arrived".
"""

import asyncio
import contextlib
import socket
import sys
import time

import zmq
from zmq.utils import z85

_ENDLESS = 1_500_000_000
_FRAME = bytes(2**16)
_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
_READY = b"\x05READY\x0bSocket-Type" + (6).to_bytes(4) + b"DEALER"


@contextlib.asynccontextmanager
async def attacker(*arguments):
    """Another process that sends a message without end as soon as it is told to."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, *map(str, arguments), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def greet(connection: socket.socket) -> None:
    """Do the handshake; libzmq wants the next word only after its own."""
    connection.sendall(_GREETING)
    connection.recv(64, socket.MSG_WAITALL)
    connection.sendall(b"\x04" + bytes([len(_READY)]) + _READY)
    connection.recv(1)


def endless(connection: socket.socket) -> None:
    """Send frames with more to come, as long as they are taken."""
    frame = b"\x03" + len(_FRAME).to_bytes(8) + _FRAME
    for number in range(_ENDLESS // len(frame)):
        connection.sendall(frame)
        if number % 16 == 0:
            time.sleep(0.01)  # at most 100 MB/s: a busy machine may look a second late


def _plain(connection: socket.socket) -> None:
    greet(connection)
    connection.sendall(b"\x00\x04here")
    sys.stdin.readline()
    with contextlib.suppress(OSError):
        endless(connection)
        print("arrived", flush=True)
        sys.stdin.readline()
        return
    print("ended", flush=True)


def _sealed(link: zmq.Socket[bytes], name: list[bytes]) -> None:
    link.send_multipart([*name, b"here"])
    sys.stdin.readline()
    monitor = link.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    for part in name:
        link.send(part, zmq.SNDMORE)
    for _ in range(_ENDLESS // len(_FRAME)):
        link.send(_FRAME, zmq.SNDMORE, copy=False)
    link.send(b"", copy=False)
    monitor.recv_multipart()
    print("ended", flush=True)


def main(role: str, *arguments: str) -> None:
    port, keys = (int(arguments[0]), arguments[1:]) if role == "dial" else (0, arguments)
    if not keys and role == "dial":
        _plain(socket.create_connection(("127.0.0.1", port)))
    elif not keys:
        with socket.create_server(("127.0.0.1", 0)) as server:
            print(server.getsockname()[1], flush=True)
            _plain(server.accept()[0])
    else:
        context = zmq.Context()
        link = context.socket(zmq.DEALER if role == "dial" else zmq.ROUTER)
        link.linger = 0
        link.curve_secretkey = secret = bytes.fromhex(keys[0])
        if role == "dial":
            link.curve_publickey = z85.decode(zmq.curve_public(z85.encode(secret)))
            link.curve_serverkey = bytes.fromhex(keys[1])
            link.connect(f"tcp://127.0.0.1:{port}")
            _sealed(link, [])
        else:
            link.curve_server = True
            print(link.bind_to_random_port("tcp://127.0.0.1"), flush=True)
            _sealed(link, [link.recv_multipart()[0]])


if __name__ == "__main__":
    main(*sys.argv[1:])
