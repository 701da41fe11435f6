"""A sparse peer's body: the values that it holds, and a mask that says which they are."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from dpeer.training import payload
from dpeer.training.codecs.base import Codec
from dpeer.training.flat import Exchanged, new_vector
from dpeer.training.payload import Payload


class Masked(Codec):
    """Sends the values held, and a bit for each parameter that says whether it is.

    A coordinate becomes the mean over its holders, weighted by the row; those who do not hold it have no say (so the
    weights are not doubly stochastic). Then the own mask is applied.

    Args:
        body: The values that are sent and mixed.
        rank: This peer.
        held: Which parameters the peer holds, shape (body.count,), bool.

    Attributes:
        held: Those of the body as it is.
        next: Those that it will hold after the next mixing.
    """

    def __init__(self, body: Exchanged, rank: int, held: Tensor) -> None:
        self._body, self._rank = body, rank
        self.held, self.next = held, held
        body.data.mul_(held)

    @property
    def payload_bytes(self) -> int:
        """Four bytes and a bit a parameter, were all of them held."""
        return 4 * self._body.count + -(-self._body.count // 8)

    def release(self, number: int) -> Payload:
        """The mask as bits (the first parameter is the lowest bit of the first byte), then the values held."""
        bits = np.packbits(self.held.cpu().numpy(), bitorder="little")
        return [bits.tobytes(), payload.encode(self._body.data[self.held])]

    def check(self, rank: int, payload_: Payload) -> str | None:
        """See `Codec.check`."""
        try:
            _, values = self._read(payload_)
        except (ValueError, TypeError, BufferError):
            return "wrong-size"
        return None if torch.isfinite(values).all() else "not-finite"

    def mix(self, received: Mapping[int, Payload], row: Mapping[int, float]) -> None:
        """See `Codec.mix`."""
        device = self._body.data.device
        own = self.held, self._body.data[self.held]
        total, weight = torch.zeros_like(self._body.data), torch.zeros_like(self._body.data)
        for rank in sorted(row):
            mask, values = own if rank == self._rank else self._read(received[rank])
            mask = mask.to(device)
            total[mask] += values.to(device) * row[rank]
            weight[mask] += row[rank]
        self._body.data.copy_(torch.where(weight > 0, total / weight, 0.0) * self.next)
        self.held = self.next

    def _read(self, payload_: Payload) -> tuple[Tensor, Tensor]:
        """Read a payload: which parameters were sent, and their values; on the host.

        Raises:
            ValueError, TypeError, BufferError: It is not such a payload.
        """
        bits, values = payload_
        if memoryview(bits).nbytes != -(-self._body.count // 8):
            raise ValueError("mask")
        unpacked = np.unpackbits(np.frombuffer(bits, dtype=np.uint8), count=self._body.count, bitorder="little")
        mask = torch.from_numpy(unpacked.astype(bool))
        vectors = payload.views([values], int(mask.sum()))
        if vectors is None:
            raise ValueError("values")
        return mask, vectors[0] if vectors else new_vector(0)

    def state(self) -> Mapping[str, Tensor]:
        """The mask."""
        return {"held": self.held}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """See `Codec.restore`."""
        if state["held"].shape != self.held.shape or state["held"].dtype != torch.bool:
            raise ValueError("a mask of another model")
        self.held = self.next = state["held"]
