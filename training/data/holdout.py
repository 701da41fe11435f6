"""Train/test splits: by strata, with equal rows together, or record by record as record-level DP requires; no torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]

FEWEST = 5
"""The fewest samples of validation by default: the loss of fewer is mostly noise."""

_FAR_MORE = 2.0
"""The largest multiple of the share that is held out: a whole group may be half of the data."""


def digests(rows: NDArray[Any]) -> list[bytes]:
    """A digest of each row's content, of shape (rows, ...); equal rows have one, and others differ."""
    if np.issubdtype(rows.dtype, np.floating):
        rows = rows + 0.0  # -0.0 equals 0.0 and has other bytes
    return [blake2b(np.ascontiguousarray(row).tobytes(), digest_size=16).digest() for row in rows]


def numbered(found: Sequence[Hashable], known: dict[Any, int] | None = None) -> NDArray[np.int64]:
    """A number for each digest or name, from 0 in the order in which they come; equal ones have the same.

    `known` are the numbers of others, to which new ones are added.
    """
    numbers = {} if known is None else known
    return np.array([numbers.setdefault(one, len(numbers)) for one in found], np.int64)


def count_equal(found: Sequence[bytes]) -> int:
    """How many rows equal another one."""
    return sum(count for count in Counter(found).values() if count > 1)


def in_words(count: int, rows: int, what: str = "row") -> str:
    """How many rows equal another one, as a sentence begins."""
    return f"{count:,} of {rows:,} {what}s equal another {what} in inputs"


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
        Sorted indices of what is held out: never everything, and at least one stretch of two or more.
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
    """Whether so many held-out samples serve for validation, and leave enough of all `samples` for training.

    The share asked for counts, too: where each sample is drawn by itself, a small peer may have a few by chance.
    """
    return min(held, round(share * samples)) >= FEWEST and held <= _FAR_MORE * share * samples


_FEWEST_SETS = 12
"""The fewest sets, or half as many as without equal samples; with fewer, inputs have few values by nature,
and whole sets would leave some values to no part."""


def hold_out_alike(
    strata: Indices, stretches: Indices | None, numbers: Indices, share: float, rng: np.random.Generator
) -> Indices:
    """Choose samples to hold out as `hold_out` does, and equal ones together, if enough of them differ.

    `numbers` has a number for each sample, the same for equal ones. Where no sample equals one of another stretch, the
    same are held out as by `hold_out`.
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
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    count, kinds = int(apart.max(initial=-1)) + 1, int(numbers.max(initial=-1)) + 1
    edges = (np.ones(len(apart), bool), (apart, count + numbers))
    _, part = connected_components(coo_array(edges, shape=(count + kinds, count + kinds)), directed=False)
    lowest = np.full(count + kinds, count, np.int64)
    np.minimum.at(lowest, part[:count], np.arange(count))
    return lowest[part[apart]]


def hold_out_apart(names: Sequence[bytes], share: float, key: bytes) -> Indices:
    """Choose samples to hold out, each by a keyed hash of its name alone, whatever the others are.

    A name is the sample's content, or what it must not be parted from. Samples of one name are held out together, and
    one more of them changes nothing for the others.

    Returns:
        Sorted indices of what is held out. How many they are is random; none and all are possible.
    """
    drawn = (int.from_bytes(blake2b(name, key=key, digest_size=8).digest(), "little") for name in names)
    return np.flatnonzero(np.fromiter((number < share * 2**64 for number in drawn), bool, len(names)))
