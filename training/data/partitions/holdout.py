"""Holding samples out of training, together with those that overlap them."""

from __future__ import annotations

import numpy as np

from dpeer.training.data.partitions.assign import Indices

FEWEST = 5
"""Samples that validation takes at least where nobody has asked for it: of fewer, the loss says next to nothing."""

_FAR_MORE = 2.0
"""Times the share asked for that is too much to lose: where whole groups are held out, one may be half of the data."""


def hold_out(strata: Indices, stretches: Indices | None, share: float, rng: np.random.Generator) -> Indices:
    """Choose samples to hold out, spread evenly over the strata, and never a part of a stretch.

    Stretches are drawn systematically: in random order, stratum after stratum, every n-th.

    Args:
        strata: What is to be represented (the class, or class and writer), shape (samples,).
        stretches: Which samples must not be parted (overlapping windows, one patient's rows), by a number each,
            shape (samples,); None where every sample stands alone.
        share: Share of the stretches to hold out, above 0 and below 1.
        rng: Where chance comes from.

    Returns:
        Sorted indices of what is held out: never everything, and at least one stretch where there are two.
    """
    if stretches is None:
        stretches = np.arange(len(strata))
    _, first, number = np.unique(stretches, return_index=True, return_inverse=True)
    count = len(first)
    order = np.lexsort((rng.random(count), strata[first]))
    passed = np.floor(np.arange(count + 1) * share + rng.random())
    held = np.zeros(count, dtype=bool)
    held[order] = passed[1:] > passed[:-1]
    if count > 1 and not held.any():
        held[rng.integers(count)] = True
    if count and held.all():
        held[rng.integers(count)] = False
    return np.flatnonzero(held[number])


def enough(held: int, samples: int, share: float) -> bool:
    """Whether so many samples serve for validation, and leave enough of all `samples` for training.

    The share asked for counts, too: where each sample is drawn by itself, a small peer may have a few by chance.

    Args:
        held: How many are held out.
        samples: How many there are in all.
        share: The share that was to be held out.
    """
    return min(held, round(share * samples)) >= FEWEST and held <= _FAR_MORE * share * samples
