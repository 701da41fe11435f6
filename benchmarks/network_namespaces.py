"""Emulated lines in network namespaces, one a host, whose packets this program delays, and drops if a queue is full.

The namespaces have no name. They are open files of the process that made them, and end with it, so nothing is left
behind whatever happens. `ip` of iproute2 is needed, root, and /dev/net/tun.

The kernel hands over what a TCP connection sends at once as one packet of up to 64 KiB, with a header that says how to
cut it, and takes it so. So a gigabit is some thousand packets a second, which Python keeps up with.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import heapq
import itertools
import os
import select
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

from emulated_lines import Pipe, Shape, beside

_NEW_NETWORK = 0x40000000  # CLONE_NEWNET of sched.h
_TUNSETIFF, _TUNSETOFFLOAD = 0x400454CA, 0x400454D0  # of linux/if_tun.h
_TUN, _NO_INFO, _OFFLOAD_HEADERS = 0x0001, 0x1000, 0x4000  # IFF_TUN, IFF_NO_PI, IFF_VNET_HDR
_CHECKSUMS, _SEGMENTS = 0x01, 0x02  # TUN_F_CSUM, TUN_F_TSO4
_QUEUE = 10_000
"""Packets that wait for this program at most; its own queue is in seconds."""

_OFFLOAD = struct.Struct("<BBHHHH")  # virtio_net_hdr: flags, kind, header length, segment size, checksum start, offset
_DESTINATION = _OFFLOAD.size + 19  # the last byte of an IPv4 header's destination
_AT_ONCE = 64
_MOST = 2**16 + _OFFLOAD.size

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
        file = os.open(self.files[host], os.O_RDONLY)
        try:
            _checked(_libc.setns(file, _NEW_NETWORK))
        finally:
            os.close(file)

    def host(self, host: int) -> str:
        """The host's address."""
        return _address(host)

    def reach(self, dialler: int, listener: int, port: int) -> tuple[str, int]:
        """The listener's address and port: packets take the lines."""
        return _address(listener), port


@contextmanager
def namespaces(shapes: Sequence[Shape]) -> Iterator[Namespaces]:
    """Namespaces with a TUN device each, whose packets take lines of these shapes.

    Raises:
        OSError: No root, no /dev/net/tun, or no `ip`.
    """
    with beside(_pass_on, shapes) as found:
        yield found


def _address(host: int) -> str:
    """The IPv4 address of a host; of RFC 2544's, which are for measurements."""
    return f"198.18.0.{host + 1}"


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
                _checked(_libc.unshare(_NEW_NETWORK))  # this thread is in the new namespace then
                files.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY))
                devices.append(_device(stack))
                _run("ip link set lo up")
                _run(f"ip address add {_address(host)}/24 dev line")
                _run(f"ip link set line txqueuelen {_QUEUE} up")
        except OSError as error:
            found.send(error)
            return
        found.send(Namespaces(tuple(f"/proc/{os.getpid()}/fd/{file}" for file in files)))
        carry(shapes, devices)


def _device(stack: ExitStack) -> int:
    """A TUN device of this thread's namespace: packets whose segments the kernel leaves whole, with their headers."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    stack.callback(os.close, device)
    flags = _TUN | _NO_INFO | _OFFLOAD_HEADERS
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", b"line", flags))
    fcntl.ioctl(device, _TUNSETOFFLOAD, _CHECKSUMS | _SEGMENTS)
    return device


def wire_bytes(packet: bytes) -> int:
    """The bytes of IP packets that a packet with its offload header is cut into."""
    kind: int
    header: int
    segment: int
    _, kind, header, segment, _, _ = _OFFLOAD.unpack_from(packet)
    length = len(packet) - _OFFLOAD.size
    if not kind or not segment:
        return length
    return length + (-(-(length - header) // segment) - 1) * header


def carry(shapes: Sequence[Shape], devices: Sequence[int]) -> None:
    """Pass packets on for ever: host n has the address that ends in n + 1, and the n-th device.

    Before each line a router keeps the bytes of a round trip, as routers are built, of 50 ms at least.
    """
    up, down = ([Pipe(one.bytes_per_second) for one in shapes] for _ in range(2))
    longest = [max(0.05, one.round_trip) for one in shapes]
    hosts = {device: host for host, device in enumerate(devices)}
    order = itertools.count()
    due: list[tuple[float, int, int, int | None, bytes]] = []  # time, order, receiver, bytes before the downlink, it
    while True:
        wait = None if not due else max(0.0, due[0][0] - time.monotonic())
        for device in select.select(devices, [], [], wait)[0]:
            sender = hosts[device]
            for packet in _read(device):
                receiver, now = packet[_DESTINATION] - 1, time.monotonic()
                if packet[_OFFLOAD.size] >> 4 != 4 or not 0 <= receiver < len(shapes):
                    continue  # what hosts say by themselves, as IPv6 does
                if up[sender].free_at - now > longest[sender]:
                    continue
                count = wire_bytes(packet)
                at = up[sender].sent(count, now) + (shapes[sender].round_trip + shapes[receiver].round_trip) / 4
                heapq.heappush(due, (at, next(order), receiver, count, packet))
        while due and due[0][0] <= time.monotonic():
            at, _, receiver, queued, packet = heapq.heappop(due)
            if queued is not None:
                if down[receiver].free_at - at > longest[receiver]:
                    continue
                through = down[receiver].passed(queued, at)
                if through > at:
                    heapq.heappush(due, (through, next(order), receiver, None, packet))
                    continue
            try:
                os.write(devices[receiver], packet)
            except OSError:  # the device is not up yet, or its packet is damaged: lost, as on a line
                continue


def _read(device: int) -> list[bytes]:
    packets = []
    try:
        for _ in range(_AT_ONCE):
            packets.append(os.read(device, _MOST))  # noqa: PERF401 - ends with an error
    except BlockingIOError:
        pass
    return packets
