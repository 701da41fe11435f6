"""Holding samples out together with those that are equal to them in their inputs.

An equal sample on the other side would be tested on as it was trained on, and the accuracy would be too high.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from dpeer.training.data.partitions.assign import Indices
from dpeer.training.data.partitions.holdout import hold_out

_FEWEST_SETS = 12
"""So many sets there must be, or half as many as without equal samples; with fewer, inputs have few values by nature,
and whole sets would leave some values to nobody."""


def hold_out_alike(
    strata: Indices, stretches: Indices | None, numbers: Indices, share: float, rng: np.random.Generator
) -> Indices:
    """Choose samples to hold out as `hold_out` does, and equal ones together, where there are enough that differ.

    Args:
        strata: As in `hold_out`.
        stretches: As in `hold_out`.
        numbers: A number for each sample, the same for equal ones, shape (samples,).
        share: As in `hold_out`.
        rng: As in `hold_out`.

    Returns:
        Sorted indices; those of `hold_out` where no sample equals one of another stretch.
    """
    apart = np.arange(len(numbers)) if stretches is None else np.unique(stretches, return_inverse=True)[1]
    before = int(apart.max(initial=-1)) + 1
    sets = _joined(apart, numbers)
    _, sets, sizes = np.unique(sets, return_inverse=True, return_counts=True)
    if len(sizes) == before or len(sizes) < min(_FEWEST_SETS, before / 2):
        return hold_out(strata, stretches, share, rng)
    # Where most samples hang together, they are trained on: else few would be left to train on.
    largest = int(sizes.argmax())
    free = np.flatnonzero(sets != largest) if 2 * sizes[largest] > len(sets) else np.arange(len(sets))
    return free[hold_out(strata[free], sets[free], share, rng)]


def _joined(apart: Indices, numbers: Indices) -> Indices:
    """The stretches, those with equal samples as one: each sample's lowest number of a stretch that hangs together."""
    count, kinds = int(apart.max(initial=-1)) + 1, int(numbers.max(initial=-1)) + 1
    edges = (np.ones(len(apart), bool), (apart, count + numbers))
    _, part = connected_components(coo_array(edges, shape=(count + kinds, count + kinds)), directed=False)
    lowest = np.full(count + kinds, count, np.int64)
    np.minimum.at(lowest, part[:count], np.arange(count))
    return lowest[part[apart]]
