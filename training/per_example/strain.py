"""Whether weights have grown so large that the last bits of what is computed may decide.

A neighbor that sends huge weights which cancel in pairs makes rounding as large as gradients; and how products of
matrices round depends on the place of a row. Then one record more would change the gradients of others. The weights at
a step are made of what peers have released, so it gives nothing away that records are computed one by one then.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dpeer.training.flat import Flat

_USUAL = 4.0
"""How many times its largest first value, or 1, a tensor's values may be without being counted."""

_MOST = 1e3
"""The largest product of what all tensors have grown by besides; rounding shows from a hundred times as much on."""


class Strain:
    """Compares a model's weights with what they were.

    Args:
        model: All that is trained, as it is before the first step.
    """

    def __init__(self, model: Flat) -> None:
        self._model = model
        self._usual = _USUAL * self._largest().clamp_min(1.0)

    def too_large(self) -> bool:
        """Whether the weights are beyond what products of matrices compute alike at every place."""
        grown = (self._largest() / self._usual).clamp_min(1.0)
        return not float(grown.double().log().sum()) <= math.log(_MOST)  # also where one is not a number

    def _largest(self) -> Tensor:
        values = self._model.data
        return torch.stack([torch.linalg.vector_norm(values[here], math.inf) for _, _, here in self._model.layout])
