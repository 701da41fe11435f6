"""A codec of one's own: one byte a value, as a multiple of the largest of its block.

    dpeer simulate --task digits --size 4 --rounds 5 --compress examples/own_codec.py:OneByte

A codec encodes this peer's values into buffers, and decodes the buffers of any peer into values. It averages nothing.
With `error_feedback` what rounding takes from a peer's own values stays with it, and travels with a later release.
`decode` gets bytes that a hostile neighbor may have chosen: it checks their size before it reads them.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dpeer.training import Codec, Undecodable
from dpeer.training.payload import Payload

BLOCK = 64


class OneByte(Codec):
    """Sends a scale for each block of 64 values, and an integer from -127 to 127 for each value."""

    error_feedback = True

    @property
    def payload_bytes(self) -> int:
        """Four bytes a block, and one a value."""
        return 4 * self._blocks + BLOCK * self._blocks

    @property
    def _blocks(self) -> int:
        return -(-self.count // BLOCK)

    def encode(self, values: Tensor, number: int) -> Payload:
        """Scales, then integers."""
        rows = torch.zeros(self._blocks * BLOCK)
        rows[: self.count] = values.cpu()
        rows = rows.view(self._blocks, BLOCK)
        scales = rows.abs().amax(dim=1) / 127
        steps = (rows / scales[:, None]).round().nan_to_num(0, 0, 0).clamp(-127, 127)  # a block of zeros has no scale
        return [scales.numpy().astype("<f4").tobytes(), steps.to(torch.int8).numpy().tobytes()]

    def decode(self, payload: Payload) -> list[Tensor]:
        """Integers times scales."""
        scales, steps = payload
        if memoryview(scales).nbytes != 4 * self._blocks or memoryview(steps).nbytes != BLOCK * self._blocks:
            raise Undecodable("wrong-size")
        rows = torch.from_numpy(np.frombuffer(steps, dtype=np.int8).copy()).view(self._blocks, BLOCK)
        sizes = torch.from_numpy(np.frombuffer(scales, dtype="<f4").astype(np.float32))
        return [(rows * sizes[:, None]).view(-1)[: self.count]]
