"""Disagreement of one peer: the relative distance of its released body to the mix, from at most 262,144 values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

MOST = 2**18
"""Values of a body that are compared, about: of a larger one runs of `_RUN` values, at equal distances."""

_RUN = 512
"""Enough for whole lines of the cache, few enough that each larger layer has some."""


def disagreement(own: Sequence[Tensor], mix: Tensor, first: int = 0) -> float | None:
    """||own - mix|| / ||mix||, in the Euclidean norm.

    Both are read only where they are compared, so the time has a bound whatever the body. The places depend on its size
    alone: the bits are the same however messages were cut.

    Args:
        own: The released body; vectors of together shape (count,), float32 or halves, on any device.
        mix: Shape (count,), float32, on any device.
        first: Where the body begins: what an algorithm sends before it is left out.

    Returns:
        None where it is not finite, or the mix is zero.
    """
    apart = length = 0.0
    with torch.no_grad():
        for here, there in _compared(own, mix, first):
            values = there.cpu().reshape(-1)
            between = here.cpu().float().reshape(-1) - values
            apart += float(between.dot(between))
            length += float(values.dot(values))
    if not (math.isfinite(apart) and math.isfinite(length)) or length == 0.0:
        return None
    return math.sqrt(apart / length)


def _compared(own: Sequence[Tensor], mix: Tensor, first: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Views of the values that are compared, side by side."""
    step = -(-(mix.numel() - first) // MOST) * _RUN
    end = 0
    for vector in own:
        begin, end = end, end + vector.numel()
        start = max(begin, first)
        if step <= _RUN and start < end:
            yield vector[start - begin :], mix[start:end]
            continue
        start = first - (first - start) // step * step  # the next run
        if start + _RUN <= end:
            yield vector[start - begin :].unfold(0, _RUN, step), mix[start:end].unfold(0, _RUN, step)
