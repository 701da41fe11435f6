"""What the operating system knows of libzmq's connections, and how one is ended: libzmq tells only their numbers.

A number may be another connection's, or another file's, by the time it is used: so what is done to a connection is done
only if it still has the ends that it had at first.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
import sys
import termios
from collections.abc import Callable
from typing import Any, NamedTuple

Ends = tuple[Any, Any]
"""The addresses of the two ends of a connection: this one and the other one."""

_RECEIVED = 128
"""Where in Linux's `struct tcp_info` the bytes stand that have come (`tcpi_bytes_received`, since Linux 4.1)."""

_ENOUGH = _RECEIVED + 8


def ends(number: int) -> Ends | None:
    """The ends of the connection with this number; None if there is none."""
    with contextlib.suppress(OSError), _copy(number) as copied:
        return _ends(copied)
    return None


def place(found: Ends | None) -> str:
    """The host at the other end; empty where it has no name, as over ipc://."""
    there = None if found is None else found[1]
    return str(there[0]) if isinstance(there, tuple) else ""


def end(number: int, expected: Ends | None, *, reset: bool = False) -> bool:
    """End the connection with this number and these ends; returns whether it was there.

    Args:
        number: The number of its file descriptor.
        expected: What its ends must be; with None, because they are not known, nothing is ended.
        reset: Whether the other side is told by a reset, as soon as libzmq closes the connection. Else one that sends
            more than is read may learn of it a minute later.
    """
    with contextlib.suppress(OSError), _copy(number) as copied:
        if _ends(copied) == expected:
            if reset:
                copied.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 0))
            copied.shutdown(socket.SHUT_RDWR)
            return True
    return False


def _copy(number: int) -> socket.socket:
    """The socket with this number, under another one, so that closing it closes nothing of libzmq's."""
    return socket.socket(fileno=os.dup(number))


def _ends(connection: socket.socket) -> Ends:
    return connection.getsockname(), connection.getpeername()


class Counts(NamedTuple):
    """The bytes of a connection: those that have come, and how many of them have been read at least.

    It is libzmq that reads, on its own thread; so what has been read since `received` was asked for may be missing.
    """

    received: int
    read: int


def counter() -> Callable[[int], Counts | None]:
    """A function that counts the bytes of the TCP connection with this number, for the use of one thread.

    It gives None if there is no such connection, or if the system does not count: only Linux is asked. It is called
    often, so it makes no copy of the descriptor, and does not let go of the interpreter's lock, which a busy thread
    would give back some milliseconds later.
    """
    if not sys.platform.startswith("linux"):
        return lambda number: None
    library = ctypes.PyDLL(None)
    getsockopt, ioctl = library.getsockopt, library.ioctl
    info, length, waiting = ctypes.create_string_buffer(_ENOUGH), ctypes.c_uint32(), ctypes.c_int()
    ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p]
    where, how_many = ctypes.byref(length), ctypes.byref(waiting)
    protocol, option = int(socket.IPPROTO_TCP), int(socket.TCP_INFO)

    def count(number: int) -> Counts | None:
        length.value = _ENOUGH
        asked = getsockopt(number, protocol, option, info, where)
        if asked != 0 or length.value < _ENOUGH or ioctl(number, termios.FIONREAD, how_many) != 0:
            return None
        received: int = struct.unpack_from("=Q", info, _RECEIVED)[0]
        return Counts(received, received - waiting.value)

    return count
