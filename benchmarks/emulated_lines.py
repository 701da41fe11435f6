"""Emulated lines between the processes of a benchmark: their interface, and the choice of an emulator.

Each host has one line, as a site has: all that it sends shares the uplink, all that it receives the downlink. The
first emulator that works here is used:

    packets   network namespaces, whose packets a process delays and drops (`network_namespaces.py`; root and
              /dev/net/tun): the kernel's TCP with its windows and its congestion control
    proxy     a TCP proxy before each listener, for everyone else (`line_emulator.py`)
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Protocol

LOCAL = "127.0.0.1"


@dataclass(frozen=True)
class Shape:
    """A host's line.

    Attributes:
        bytes_per_second: The bandwidth, of the uplink and of the downlink.
        round_trip: Seconds to a host of the same shape and back: half of it each way.
    """

    bytes_per_second: float
    round_trip: float

    @classmethod
    def parse(cls, text: str) -> Shape:
        """A shape as "100Mbit/100ms", bandwidth and round trip.

        Raises:
            ValueError: The text is not of this form.
        """
        rate, _, delay = text.partition("/")
        for unit, factor in (("Gbit", 1e9), ("Mbit", 1e6)):
            if rate.endswith(unit) and delay.endswith("ms"):
                return cls(float(rate.removesuffix(unit)) * factor / 8, float(delay.removesuffix("ms")) / 1e3)
        raise ValueError(f"line {text!r}: expected a name, or bandwidth and round trip as in 100Mbit/100ms")

    def __str__(self) -> str:
        return f"{self.bytes_per_second * 8 / 1e6:g} Mbit/s, {self.round_trip * 1e3:g} ms"


@dataclass
class Pipe:
    """A bandwidth, and the bytes that wait for it.

    Attributes:
        bytes_per_second: The bandwidth.
        free_at: Time at which what waits has passed.
    """

    bytes_per_second: float
    free_at: float = 0.0

    def sent(self, count: int, now: float) -> float:
        """The time at which so many bytes have passed that are put in now."""
        self.free_at = max(now, self.free_at) + count / self.bytes_per_second
        return self.free_at

    def passed(self, count: int, now: float) -> float:
        """The same of bytes that came from a bandwidth that is no higher, the last one now."""
        self.free_at = max(now, self.free_at + count / self.bytes_per_second)
        return self.free_at


class Lines(Protocol):
    """The lines as a process of one host sees them; travels to each process by pickle."""

    def enter(self, host: int) -> None:
        """Make this process one of the host's, before it opens a socket."""

    def host(self, host: int) -> str:
        """The address at which processes of this host listen."""

    def reach(self, dialler: int, listener: int, port: int) -> tuple[str, int]:
        """Where a process of `dialler` dials to reach that port of `listener`."""


class Loopback:
    """No lines: all processes are on this host."""

    def enter(self, host: int) -> None:
        """Every process is one already."""

    def host(self, host: int) -> str:
        """Loopback."""
        return LOCAL

    def reach(self, dialler: int, listener: int, port: int) -> tuple[str, int]:
        """The port itself."""
        return LOCAL, port


@contextmanager
def beside(emulate: Callable[[Sequence[Shape], Connection], None], shapes: Sequence[Shape]) -> Iterator[Any]:
    """What an emulator hands over from a process of its own, which is killed in the end.

    Args:
        emulate: Its function: sends one value, or an OSError where it does not work here, and then carries on.
        shapes: The lines of the hosts.

    Raises:
        OSError: It does not work here.
    """
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=emulate, args=(shapes, theirs), daemon=True)
    process.start()
    try:
        found = ours.recv()
        if isinstance(found, OSError):
            raise found
        yield found
    finally:
        process.kill()
        process.join()


Opener = Callable[[Sequence[Shape]], AbstractContextManager[Lines]]


def emulators() -> Mapping[str, Opener]:
    """What opens lines of these shapes, host by host, by the emulator's name; the best first."""
    import line_emulator
    import network_namespaces

    return {"packets": network_namespaces.namespaces, "proxy": line_emulator.proxied}


@contextmanager
def opened(shapes: Sequence[Shape], emulator: str | None = None) -> Iterator[tuple[str, Lines]]:
    """The name of the emulator and its lines: of that one, or of the first that works here.

    Raises:
        OSError: It does not work here: no root, no such kernel module.
    """
    for name, opener in emulators().items():
        if emulator not in (None, name):
            continue
        with ExitStack() as stack:
            try:
                lines = stack.enter_context(opener(shapes))
            except OSError:
                if name == emulator:
                    raise
                continue
            yield name, lines
            return
    raise OSError("no emulator works here")
