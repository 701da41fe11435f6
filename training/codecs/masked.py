"""Masked codec: a sparse peer's values, and a mask of the parameters that it holds."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dpeer.training import payload
from dpeer.training.codecs.base import Codec, Undecodable
from dpeer.training.flat import new_vector
from dpeer.training.payload import Payload


class Masked(Codec):
    """Sends the values of the mask, and a bit for each parameter: whether the mask has it.

    Args:
        start: See `Codec`.
        rank: This peer.
        mask: Which parameters the peer holds, shape (count,), bool; the algorithm changes it in place.
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
        if vectors is None:
            raise Undecodable("wrong-size")
        return [vectors[0] if vectors else new_vector(0), mask]
