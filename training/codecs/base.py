"""Codecs, which encode a peer's values into a payload and decode payloads: base class, buffers, and floats."""

from __future__ import annotations

import contextlib
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpeer.exceptions import ConfigurationError, DpeerError
from dpeer.training import payload
from dpeer.training.flat import new_vector
from dpeer.training.payload import Payload
from dpeer.training.settings import WireDtype

_WINDOW = 4
"""Rounds after which spare buffers are given back: how many are needed varies with the disk and the neighbors."""


class BufferPool:
    """Room for payloads of one size.

    A buffer is free once nothing refers to it: no socket that still sends from it, no neighbor of the same process that
    still reads it, no tensor that looks into it. So no caller ever waits for a buffer, and none is overwritten too
    early: while all are in use, a new one is made. How far neighbors can be apart bounds how many are made. Page-locked
    ones are copied by a GPU itself.
    """

    def __init__(self, nbytes: int, *, pinned: bool = False) -> None:
        self.nbytes = nbytes
        self._pinned = pinned
        self._free: deque[NDArray[np.uint8]] = deque()
        self._spare = self._rounds = 0  # how many were free in all rounds of a window, and which round of it this is

    def take(self) -> memoryview:
        """A buffer, writable, with whatever was in it before; any thread may call this."""
        try:
            memory = self._free.pop()
        except IndexError:
            memory = torch.empty(self.nbytes, dtype=torch.uint8, device="cpu", pin_memory=self._pinned).numpy()
        self._spare = min(self._spare, len(self._free))
        # All that is ever made of the memoryview refers to this very array object; with the last of it, it goes.
        lease = memory.view()
        weakref.finalize(lease, self._free.append, memory).atexit = False
        return memoryview(lease.data)

    def settle(self) -> None:
        """Begin a round: once in a few rounds give back the memory of buffers that none of these needed."""
        self._rounds = (self._rounds + 1) % _WINDOW
        if self._rounds:
            return
        with contextlib.suppress(IndexError):  # another thread has taken one meanwhile
            for _ in range(self._spare):
                self._free.popleft()
        self._spare = len(self._free)

    def trim(self) -> None:
        """Give back the memory of all buffers that are free: no other body is encoded."""
        self._free.clear()
        self._spare = 0


class Undecodable(DpeerError):  # noqa: N818 - reads as what happened
    """A payload that a codec refuses.

    Args:
        reason: A short fixed word to count by, such as "wrong-size".
    """

    def __init__(self, reason: str) -> None:
        # What neighbors send is counted and dropped, so that this is read of the own payload alone.
        super().__init__(f"the codec's 'decode' refuses what its 'encode' gave: {reason}")
        self.reason = reason


class Codec(ABC):
    """Encodes a peer's values into a payload, and decodes payloads, each by itself.

    A class needs `payload_bytes`, `encode` and `decode`. A round calls `encode` once, then `decode` for the own payload
    and each neighbor's.

    Args:
        start: The common start of all peers, shape (count,), float32.
        rank: This peer.

    Attributes:
        error_feedback: Whether what encoding lost of the own values is added to the mix again, so that it travels
            with a later release.
    """

    error_feedback: bool = False

    def __init__(self, start: Tensor, rank: int) -> None:
        self.count, self.rank, self.device = start.numel(), rank, start.device

    @cached_property
    def buffers(self) -> BufferPool:
        """Buffers for payloads, sent or received."""
        return BufferPool(self.payload_bytes, pinned=self.device.type == "cuda" and torch.cuda.is_available())

    @property
    @abstractmethod
    def payload_bytes(self) -> int:
        """The most bytes that a payload may have."""

    def receive_buffer(self) -> memoryview | None:
        """Memory to put a payload's pieces together in; None if any memory will do."""
        return self.buffers.take()

    @abstractmethod
    def encode(self, values: Tensor, number: int) -> Payload:
        """The payload of round `number` for all neighbors, in read-only buffers that never change again.

        Args:
            values: Shape (count,), float32.
            number: The round, from 0.
        """

    @abstractmethod
    def decode(self, payload: Payload) -> Sequence[Tensor]:
        """A payload's values, as vectors that together have shape (count,); only to be read.

        A hostile neighbor chooses the bytes. Whatever this raises, the payload is left out.

        Args:
            payload: One buffer or several, of this peer or of a neighbor.

        Raises:
            Undecodable: The payload is refused.
        """


def check_size(codec: Codec, payload: Payload) -> None:
    """Refuse a payload longer than its codec's `payload_bytes`: neighbors would drop it.

    Raises:
        ConfigurationError: It is longer.
    """
    if (size := sum(memoryview(buffer).nbytes for buffer in payload)) > codec.payload_bytes:
        raise ConfigurationError(
            f"codec {type(codec).__name__} encoded {size:,} bytes, and its payload_bytes is {codec.payload_bytes:,}; "
            "it must be the most bytes of a payload"
        )


class Dense(Codec):
    """Sends all values in one buffer of little-endian floats; a `dtype` of 16 bits rounds them."""

    def __init__(self, start: Tensor, rank: int, dtype: WireDtype = "float32") -> None:
        super().__init__(start, rank)
        self.dtype = dtype

    @property
    def payload_bytes(self) -> int:
        """Four or two bytes a value."""
        return payload.width(self.dtype) * self.count

    def receive_buffer(self) -> memoryview | None:
        """See `Codec`: a buffer only for values on a GPU, which copies from page-locked memory; sums need none."""
        return None if self.device.type == "cpu" else self.buffers.take()

    def encode(self, values: Tensor, number: int) -> Payload:
        """See `Codec.encode`."""
        buffer = self.buffers.take()
        payload.write(values, self.dtype, buffer)
        return [buffer.toreadonly()]

    def decode(self, payload_: Payload) -> list[Tensor]:
        """See `Codec.decode`; without a copy."""
        return payload.views(payload_, self.count, self.dtype)


class Masked(Codec):
    """Sends the values of the mask, and a bit for each parameter: whether the mask has it.

    The algorithm changes the mask, shape (count,), bool, in place.
    """

    def __init__(self, start: Tensor, rank: int, mask: Tensor) -> None:
        super().__init__(start, rank)
        self.mask = mask

    @property
    def payload_bytes(self) -> int:
        """Four bytes and a bit a parameter, were all of them in the mask."""
        return 4 * self.count + -(-self.count // 8)

    def encode(self, values: Tensor, number: int) -> Payload:
        """The mask as bits (the first parameter is the lowest bit of the first byte), then the values that it has."""
        bits = np.packbits(self.mask.cpu().numpy(), bitorder="little")
        return [bits.tobytes(), payload.encode(values[self.mask])]

    def decode(self, payload_: Payload) -> list[Tensor]:
        """The values that were sent, and the mask of the parameters that they are of, (count,), bool; on the host."""
        bits, values = payload_
        if memoryview(bits).nbytes != -(-self.count // 8):
            raise Undecodable("wrong-size")
        unpacked = np.unpackbits(np.frombuffer(bits, dtype=np.uint8), count=self.count, bitorder="little")
        mask = torch.from_numpy(unpacked.astype(bool))
        vectors = payload.views([values], int(mask.sum()))
        return [vectors[0] if vectors else new_vector(0), mask]
