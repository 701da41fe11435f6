"""The base class of codecs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from functools import cached_property

import torch
from torch import Tensor

from dpeer.training.buffer_pool import BufferPool
from dpeer.training.flat import Exchanged
from dpeer.training.payload import Payload

Weigh = Callable[[Collection[int]], Mapping[int, float]]
"""Gives the weights of these ranks and the own."""


class Codec(ABC):
    """Puts a peer's body into payloads, and mixes it with its neighbors' payloads.

    A round calls `release` and `mix_sound`.
    """

    _body: Exchanged

    @cached_property
    def buffers(self) -> BufferPool:
        """Buffers for payloads, sent or received."""
        there = self._body.data.device.type == "cuda"
        return BufferPool(self.payload_bytes, pinned=there and torch.cuda.is_available())

    @property
    @abstractmethod
    def payload_bytes(self) -> int:
        """The most bytes that a payload may have."""

    def room(self) -> memoryview | None:
        """Memory to put a payload's pieces together in; None if buffers cut at multiples of a megabyte will do."""
        return self.buffers.take()

    @abstractmethod
    def release(self, number: int) -> Payload | None:
        """Round `number`'s body for all neighbors, in read-only buffers that never change again; None: say nothing."""

    @abstractmethod
    def check(self, rank: int, payload: Payload) -> str | None:
        """Why a payload of this rank must not be mixed ("wrong-size", "not-finite", ...), or None; never raises."""

    @abstractmethod
    def mix(self, received: Mapping[int, Payload], row: Mapping[int, float]) -> None:
        """Replace the body by the mix of the payloads and this peer's own released body.

        Ranks are taken in order, for floating point addition does not commute to the bit.

        Args:
            received: Payloads by rank, each of which `check` let pass; without the own.
            row: Weights for exactly the ranks in `received` and the own.
        """

    def mix_sound(self, received: Mapping[int, Payload], weigh: Weigh) -> dict[int, str]:
        """Mix the payloads that `check` lets pass.

        Args:
            received: Payloads by rank, without the own.
            weigh: Gives the row for the ranks that are left.

        Returns:
            The ranks whose payload was not mixed, and why.
        """
        reasons = {rank: self.check(rank, payload) for rank, payload in received.items()}
        refused = {rank: reason for rank, reason in reasons.items() if reason is not None}
        sound = {rank: payload for rank, payload in received.items() if rank not in refused}
        self.mix(sound, weigh(sound))
        return refused

    def rebase(self) -> None:  # noqa: B027 - most count from nothing
        """Count the next update from the body as it is now, where updates are counted from what mixing gave.

        Every change of the body since must be a function of what peers have released.
        """

    def state(self) -> Mapping[str, Tensor]:
        """What a resumed run needs besides the body, between two rounds; by name."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:  # noqa: B027 - most keep nothing
        """Take up what `state` gave.

        Raises:
            KeyError, ValueError, RuntimeError: It is not of such a codec.
        """
