"""Hosts and ports of addresses, and the resolution of names on a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import socket
import threading

from dpeer.exceptions import AddressError
from dpeer.ipv4 import check_host

_PLACE = re.compile(r"(?:tcp|relay)://(\[[^\]]+\]|[^:/\[\]]+):(\d{1,5})")


def split(address: str) -> tuple[str, int] | None:
    """Host and port of a TCP or relay address; None for another, which has nothing to resolve.

    Raises:
        AddressError: this is no address.
    """
    if re.match(r"(ipc|inproc)://.", address):
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
            outcome = error
        except UnicodeError as error:
            outcome = OSError(f"not a host name: {error}")
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
