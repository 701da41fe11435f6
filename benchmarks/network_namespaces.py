"""Emulated lines in network namespaces, one namespace a host: by the kernel's netem or by `packet_emulator.py`.

The namespaces have no name. They are open files of the process that made them, and end with it, so nothing is left
behind whatever happens. `ip` and `tc` of iproute2 are needed, and root.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

import packet_emulator
from emulated_lines import Shape, beside

_NEW_NETWORK = 0x40000000  # CLONE_NEWNET of sched.h
_TUNSETIFF, _TUNSETOFFLOAD = 0x400454CA, 0x400454D0  # of linux/if_tun.h
_TUN, _NO_INFO, _OFFLOAD_HEADERS = 0x0001, 0x1000, 0x4000  # IFF_TUN, IFF_NO_PI, IFF_VNET_HDR
_CHECKSUMS, _SEGMENTS = 0x01, 0x02  # TUN_F_CSUM, TUN_F_TSO4
_QUEUE = 10_000
"""Packets that wait for the emulator at most; its own queue is in seconds."""

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Namespaces:
    """The namespaces as a process sees them.

    Attributes:
        files: The open files that are the namespaces, by host, as any process of root finds them.
    """

    files: tuple[str, ...]

    def enter(self, host: int) -> None:
        """Change to the host's namespace: this thread, and those that it starts."""
        _change(self.files[host])

    def host(self, host: int) -> str:
        """The host's address."""
        return address(host)

    def reach(self, dialler: int, listener: int, port: int) -> tuple[str, int]:
        """The listener's address and port: packets take the lines."""
        return address(listener), port


def address(host: int) -> str:
    """The IPv4 address of a host; of RFC 2544's, which are for measurements."""
    return f"198.18.0.{host + 1}"


@contextmanager
def with_packets(shapes: Sequence[Shape]) -> Iterator[Namespaces]:
    """Namespaces with a TUN device each, whose packets `packet_emulator` passes on.

    Raises:
        OSError: No root, no /dev/net/tun, or no `ip`.
    """
    with beside(_pass_on, shapes) as namespaces:
        yield namespaces


@contextmanager
def with_netem(shapes: Sequence[Shape]) -> Iterator[Namespaces]:
    """Namespaces whose Ethernet pairs end in a bridge; netem delays at both ends, and has the bandwidth.

    Raises:
        OSError: No root, no `ip` or `tc`, or a kernel without netem.
    """
    with ExitStack() as stack:
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        stack.callback(os.close, home)
        files = [_new(stack) for _ in range(len(shapes) + 1)]
        try:
            bridge = files[-1]
            _change(bridge)
            _run("ip link add bridge type bridge")
            _run("ip link set bridge up")
            for host, (shape, file) in enumerate(zip(shapes, files, strict=False)):
                _change(file)
                _run("ip link set lo up")
                _run(f"ip link add line type veth peer name line{host} netns {bridge}")
                _run(f"ip address add {address(host)}/24 dev line")
                _run("ip link set line up")
                _run(f"tc qdisc add dev line root {_netem(shape)}")
                _change(bridge)
                _run(f"ip link set line{host} master bridge up")
                _run(f"tc qdisc add dev line{host} root {_netem(shape)}")
        finally:
            _change(f"/proc/{os.getpid()}/fd/{home}")
        yield Namespaces(tuple(files[: len(shapes)]))


def _netem(shape: Shape) -> str:
    """A quarter of the round trip: a packet takes two of these, and its answer two more."""
    delay = shape.round_trip / 4
    packets = shape.bytes_per_second * (packet_emulator.queue_seconds(shape) + delay) / 1500
    return f"netem delay {delay * 1e6:.0f}us rate {shape.bytes_per_second * 8:.0f}bit limit {max(100, int(packets))}"


def _new(stack: ExitStack) -> str:
    """A new namespace, which this thread is in then."""
    _checked(_libc.unshare(_NEW_NETWORK))
    file = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    stack.callback(os.close, file)
    return f"/proc/{os.getpid()}/fd/{file}"


def _change(namespace: str) -> None:
    file = os.open(namespace, os.O_RDONLY)
    try:
        _checked(_libc.setns(file, _NEW_NETWORK))
    finally:
        os.close(file)


def _checked(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _run(command: str) -> None:
    ended = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    if ended.returncode:
        raise OSError(errno.ENOTSUP, f"{command}: {ended.stderr.strip()}")


def _pass_on(shapes: Sequence[Shape], found: Connection) -> None:
    with ExitStack() as stack:
        try:
            files, devices = [], []
            for host in range(len(shapes)):
                files.append(_new(stack))
                devices.append(_device(stack))
                _run("ip link set lo up")
                _run(f"ip address add {address(host)}/24 dev line")
                _run(f"ip link set line txqueuelen {_QUEUE} up")
        except OSError as error:
            found.send(error)
            return
        found.send(Namespaces(tuple(files)))
        packet_emulator.pass_on(shapes, devices)


def _device(stack: ExitStack) -> int:
    """A TUN device of this thread's namespace: packets whose segments the kernel leaves whole, with their headers."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    stack.callback(os.close, device)
    flags = _TUN | _NO_INFO | _OFFLOAD_HEADERS
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", b"line", flags))
    fcntl.ioctl(device, _TUNSETOFFLOAD, _CHECKSUMS | _SEGMENTS)
    return device
