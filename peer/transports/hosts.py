"""TCP connections: hosts of addresses are resolved and connected to, and two connections joined."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import re
import socket
import threading
from collections.abc import Awaitable, Callable

from dpeer.exceptions import AddressError
from dpeer.ipv4 import check_host
from dpeer.peer.core.limits import KEEPALIVE_IDLE, PROVE_WITHIN

LOOPBACK = "127.0.0.1"

PIECE = 2**16
"""Bytes of a way's buffer, which is all that is held of it: while they cannot be written, nothing is read."""

LAST = 30.0
"""Seconds that the other way still has once one has ended: a closing peer's last words travel on a slow line."""

Passes = Callable[[int, int], Awaitable[None]]
"""Called with a way (0 for the one from the first socket) and bytes read on it, before they are written: may wait."""

_PLACE = re.compile(r"(?:tcp|relay)://(\[[^\]]+\]|[^:/\[\]]+):(\d{1,5})")


def split(address: str) -> tuple[str, int] | None:
    """Host and port of a TCP or relay address; None for another, which has nothing to resolve.

    Raises:
        AddressError: this is no address.
    """
    if re.match(r"ipc://.", address):
        return None
    found = _PLACE.fullmatch(address)
    if found is None or int(found[2]) > 65535:
        raise AddressError(f"address {address!r} cannot be dialled: expected tcp://HOST:PORT or ipc:///PATH")
    try:
        check_host(found[1])
    except ValueError as error:
        raise AddressError(f"address {address!r} cannot be dialled: {error}") from error
    return found[1].strip("[]"), int(found[2])


def is_literal(host: str) -> bool:
    """Whether this is an IP address, and so nothing to resolve."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def endpoint(host: str, port: int) -> str:
    """The address for libzmq."""
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


async def resolve(host: str, port: int) -> list[str]:
    """The IP addresses that a name stands for, the one to be tried first in front.

    The operating system's resolver can take minutes, and cannot be interrupted: it runs on a thread for which nothing
    waits, not even the end of the process.

    Raises:
        OSError: the name cannot be resolved at present.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Future[list[str]] = loop.create_future()

    def look_up() -> None:
        try:
            hosts = [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
            outcome: list[str] | OSError = list(dict.fromkeys(hosts))
        except OSError as error:
            outcome = OSError(f"its name {host!r} cannot be resolved ({error.strerror or error})")
        except UnicodeError as error:
            outcome = OSError(f"its name {host!r} cannot be resolved (not a host name: {error})")
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, outcome)

    def settle(outcome: list[str] | OSError) -> None:
        if found.done():
            return
        if isinstance(outcome, OSError):
            found.set_exception(outcome)
        else:
            found.set_result(outcome)

    threading.Thread(target=look_up, name=f"resolve-{host}", daemon=True).start()
    return await found


def set_up(connection: socket.socket, give_up: float) -> None:
    """Have the operating system notice within `give_up` seconds that nothing confirms what was sent."""
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A firewall on the way must not forget a connection that is idle during training (libzmq's has heartbeats).
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):  # not on macOS before Python 3.13
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_IDLE)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # not on macOS
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(give_up * 1000))


async def connect(host: str, port: int, give_up: float) -> socket.socket:
    """A connection; of a name that stands for several addresses, to the first one that takes it.

    Raises:
        OSError: its text states why none could be made.
    """
    found = [host] if is_literal(host) else await resolve(host, port)
    last = OSError(f"its name {host!r} stands for no address")
    for one in found:
        connection = socket.socket(socket.AF_INET6 if ":" in one else socket.AF_INET)
        try:
            set_up(connection, give_up)
            async with asyncio.timeout(PROVE_WITHIN / len(found)):
                await asyncio.get_running_loop().sock_connect(connection, (one, port))
        except OSError as error:  # TimeoutError, too
            connection.close()
            why = os.strerror(error.errno) if error.errno else str(error) or "nothing answers"
            last = OSError(f"port {port} of {host} cannot be reached ({why})")
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    raise last


async def receive(connection: socket.socket, length: int) -> bytes:
    """Exactly so many bytes.

    Raises:
        OSError: the connection has ended before.
    """
    found = b""
    while len(found) < length:
        some = await asyncio.get_running_loop().sock_recv(connection, length - len(found))
        if not some:
            raise OSError("the other end closed the connection")
        found += some
    return found


async def join(first: socket.socket, second: socket.socket, passes: Passes | None = None) -> None:
    """Copy between two non-blocking sockets until both ends are closed, or one is and `LAST` is over; close both."""
    ways = [
        asyncio.create_task(_copy(way, *ends, passes)) for way, ends in enumerate(((first, second), (second, first)))
    ]
    try:
        _, others = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        if others:
            await asyncio.wait(others, timeout=LAST)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        first.close()
        second.close()


async def _copy(way: int, source: socket.socket, target: socket.socket, passes: Passes | None) -> None:
    loop, buffer, takes = asyncio.get_running_loop(), memoryview(bytearray(PIECE)), True
    with contextlib.suppress(OSError):  # a reset ends the way as a close does
        while read := await loop.sock_recv_into(source, buffer):
            if passes is not None:
                await passes(way, read)
            # What the target does not take is read all the same: unread bytes would make the system reset what the
            # other way still carries.
            if takes:
                try:
                    await loop.sock_sendall(target, buffer[:read])
                except OSError:
                    takes = False
            await asyncio.sleep(0)  # ready sockets alone would never let the event loop do anything else
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
