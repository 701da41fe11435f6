"""Packet emulator between TUN devices: delays packets, limits bandwidth, and drops what a full queue has no room for.

The kernel hands over what a TCP connection sends at once as one packet of up to 64 KiB, with a header that says how to
cut it, and takes it so. So a gigabit is some thousand packets a second, which Python keeps up with.
"""

from __future__ import annotations

import heapq
import itertools
import os
import select
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

from emulated_lines import Shape

_OFFLOAD = struct.Struct("<BBHHHH")  # virtio_net_hdr: flags, kind, header length, segment size, checksum start, offset
_DESTINATION = _OFFLOAD.size + 19  # the last byte of an IPv4 header's destination
_AT_ONCE = 64
_MOST = 2**16 + _OFFLOAD.size


def queue_seconds(shape: Shape) -> float:
    """Seconds of bytes that a router keeps before a line: those of a round trip, as routers are built, at least 50."""
    return max(0.05, shape.round_trip)


@dataclass
class Queue:
    """A bandwidth with a queue before it.

    Attributes:
        bytes_per_second: The bandwidth.
        seconds: The longest queue.
        free_at: Time at which what waits has passed.
    """

    bytes_per_second: float
    seconds: float
    free_at: float = 0.0

    def sent(self, count: int, now: float) -> float | None:
        """When so many bytes have passed that are put in now; None if they are dropped."""
        if self.free_at - now > self.seconds:
            return None
        self.free_at = max(now, self.free_at) + count / self.bytes_per_second
        return self.free_at

    def passed(self, count: int, now: float) -> float | None:
        """The same of bytes that came from a bandwidth that is no higher, the last one now."""
        if self.free_at - now > self.seconds:
            return None
        self.free_at = max(now, self.free_at + count / self.bytes_per_second)
        return self.free_at


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


def pass_on(shapes: Sequence[Shape], devices: Sequence[int]) -> None:
    """Pass packets on for ever: host n has the address that ends in n + 1, and the n-th device."""
    up, down = ([Queue(one.bytes_per_second, queue_seconds(one)) for one in shapes] for _ in range(2))
    hosts = {device: host for host, device in enumerate(devices)}
    order = itertools.count()
    due: list[tuple[float, int, int, int | None, bytes]] = []  # time, order, receiver, bytes before the downlink, it
    while True:
        wait = None if not due else max(0.0, due[0][0] - time.monotonic())
        for device in select.select(devices, [], [], wait)[0]:
            sender = hosts[device]
            for packet in _read(device):
                receiver = packet[_DESTINATION] - 1
                if packet[_OFFLOAD.size] >> 4 != 4 or not 0 <= receiver < len(shapes):
                    continue  # what hosts say by themselves, as IPv6 does
                count = wire_bytes(packet)
                at = up[sender].sent(count, time.monotonic())
                if at is not None:
                    at += (shapes[sender].round_trip + shapes[receiver].round_trip) / 4
                    heapq.heappush(due, (at, next(order), receiver, count, packet))
        while due and due[0][0] <= time.monotonic():
            at, _, receiver, queued, packet = heapq.heappop(due)
            if queued is not None:
                through = down[receiver].passed(queued, at)
                if through is None:
                    continue
                if through > at:
                    heapq.heappush(due, (through, next(order), receiver, None, packet))
                    continue
            _write(devices[receiver], packet)


def _read(device: int) -> list[bytes]:
    packets = []
    try:
        for _ in range(_AT_ONCE):
            packets.append(os.read(device, _MOST))  # noqa: PERF401 - ends with an error
    except BlockingIOError:
        pass
    return packets


def _write(device: int, packet: bytes) -> None:
    try:
        os.write(device, packet)
    except OSError:  # the device is not up yet, or its packet is damaged: lost, as on a line
        return
