"""Unix sockets between peers of one host and user, in place of TCP; found by the address of the listener.

A listener at tcp://HOST:PORT also listens at an abstract Unix socket, whose name has its user, host and port. Such a
name is no file, so nothing stale is left of a process that was killed. Each network namespace has its own names: one
that a dialler sees is of a listener that is bound to this very address. libzmq lets in connections of the same user
alone, and a dialler breaks one to another user's before a message is sent. Keys are proved as over TCP.

Linux has abstract sockets; elsewhere, and wherever no such name is found, peers use TCP.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import struct
import sys
from pathlib import Path

import zmq

AVAILABLE = sys.platform == "linux"

_SOCKETS = Path("/proc/net/unix")
"""The Unix sockets of this network namespace, a line each."""

_WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 - names of listeners, to which nothing is bound here

_FILTER_UID = 59
"""libzmq's ZMQ_IPC_FILTER_UID, for which pyzmq has no name: whose connections a listener accepts."""


def bind(router: zmq.Socket[bytes], host: str, port: int) -> bool:
    """Have a socket that is bound to this host and port listen at their Unix socket, too; whether it does."""
    if not AVAILABLE:
        return False
    try:
        router.setsockopt(_FILTER_UID, os.geteuid())
        router.bind(endpoint(host, port))
    except zmq.ZMQError:  # another user has taken the name, or this libzmq has no filter
        return False
    return True


def find(host: str, port: int) -> str | None:
    """The Unix socket, as an address for libzmq, whose listener is bound to this IP address and port; None without."""
    try:
        known = {line.rpartition(b" ")[2] for line in _SOCKETS.read_bytes().split(b"\n")}  # any user chooses bytes
    except OSError:
        return None
    hosts = [host, *(_WILDCARDS if is_own(host) else ())]
    found = (endpoint(one, port) for one in hosts)
    return next((one for one in found if one.removeprefix("ipc://").encode() in known), None)


def is_own_users(connection: int) -> bool:
    """Whether the process at the other end of a Unix socket, by its descriptor, is of this process's user."""
    with (
        contextlib.suppress(OSError, struct.error),
        socket.fromfd(connection, socket.AF_UNIX, socket.SOCK_STREAM) as one,
    ):
        _, user, _ = struct.unpack("=iII", one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return int(user) == os.geteuid()
    return False


def carried(part: zmq.Frame) -> bool:
    """Whether a message came through a Unix socket, by a part of it: libzmq names the IP address of others."""
    with contextlib.suppress(zmq.ZMQError):
        return str(part.get("Peer-Address")).startswith("localhost")
    return False


def endpoint(host: str, port: int) -> str:
    """The address for libzmq of the Unix socket that goes with this host and port."""
    return f"ipc://@dpeer-{os.geteuid()}-{host}-{port}"


def is_own(host: str) -> bool:
    """Whether an IP address is one of this network namespace: only then a socket can be bound to it."""
    try:
        address = ipaddress.ip_address(host)
        family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as one:
            one.bind((host, 0))
    except (ValueError, OSError):
        return False
    return True
