"""Base class of codecs: encode a peer's values into a payload, decode payloads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from dpeer.training.codecs.buffer_pool import BufferPool
from dpeer.training.payload import Payload


class Undecodable(ValueError):  # noqa: N818 - reads as what happened
    """A payload that a codec refuses.

    Args:
        reason: A short fixed word to count by: "wrong-size", "stale".
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Codec(ABC):
    """Encodes a peer's values into a payload, and decodes payloads.

    A class needs `payload_bytes`, `encode` and `decode`. A round calls `encode` once, `decode` for the own payload and
    each neighbor's, and `mixed` for those that were mixed.

    Args:
        start: The common start of all peers, shape (count,), float32.
        rank: This peer.

    Attributes:
        error_feedback: Whether what encoding lost of the own values is added to the mix again, so that it travels
            with a later release.
    """

    error_feedback: ClassVar[bool] = False

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
        """Memory to put a payload's pieces together in; None if buffers cut at multiples of a megabyte will do."""
        return self.buffers.take()

    @abstractmethod
    def encode(self, values: Tensor, number: int) -> Payload:
        """The payload of round `number` for all neighbors, in read-only buffers that never change again.

        Args:
            values: Shape (count,), float32.
            number: The round, from 0.
        """

    @abstractmethod
    def decode(self, rank: int, payload: Payload) -> Sequence[Tensor]:
        """A payload's values, as vectors that together have shape (count,); only to be read.

        A hostile neighbor chooses the bytes. Whatever this raises, the payload is left out.

        Args:
            rank: The sender, which may be this peer.
            payload: One buffer or several.

        Raises:
            Undecodable: The payload is refused.
        """

    def mixed(self, ranks: Collection[int]) -> None:  # noqa: B027 - most keep nothing
        """The payloads of these ranks, as decoded last, and the own one have been mixed."""

    def state(self) -> Mapping[str, Tensor]:
        """What a resumed run needs between two rounds; by name."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:  # noqa: B027
        """Take up what `state` gave.

        Raises:
            KeyError, ValueError, RuntimeError: It is not of such a codec.
        """
