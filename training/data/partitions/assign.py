"""Assignment of samples to peers, for each scheme."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpeer.training.data.partitions.schemes import Scheme

Indices = NDArray[np.int64]


def owners(labels: Indices, scheme: Scheme, classes: int, size: int, rng: np.random.Generator) -> Indices:
    """Each sample's owner; -1 where no peer gets it."""
    if scheme.name == "iid":
        return _iid(len(labels), size, rng)
    if scheme.name == "dirichlet-equal":
        return _equal(labels, rng.dirichlet(np.full(classes, scheme.value), size=size), rng)
    return deal(labels, _shares(scheme, classes, size, rng), rng)


def _shares(scheme: Scheme, classes: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """The peers' shares of each class, up to a factor per class; shape (classes, size)."""
    if scheme.name == "dirichlet":
        return rng.dirichlet(np.full(size, scheme.value), size=classes)
    shares = np.zeros((classes, size))
    if scheme.name == "pathological-sampled":
        # Whatever the others have drawn: a class may go to many more peers than another, or to none.
        drawn = rng.permuted(np.tile(np.arange(classes), (size, 1)), axis=1)[:, : int(scheme.value)]
        shares[drawn, np.arange(size)[:, np.newaxis]] = 1
        return shares
    for rank in range(size):
        # The classes that the fewest peers hold so far, at random among equals.
        chosen = np.lexsort((rng.random(classes), shares.sum(axis=1)))[: int(scheme.value)]
        shares[chosen, rank] = 1
    return shares[:, rng.permutation(size)]


def _iid(count: int, size: int, rng: np.random.Generator) -> Indices:
    """Each sample's owner, in parts whose sizes differ by at most one."""
    return rng.permutation(np.arange(count, dtype=np.int64) % size)


def deal(labels: Indices, shares: NDArray[np.float64], rng: np.random.Generator) -> Indices:
    """Each sample's owner, or -1 where no peer holds its class.

    Boundaries are rounded with one random offset per class, so that no rank is favoured and a peer without a share
    gets nothing.
    """
    owners = np.full(len(labels), -1, np.int64)
    for number, row in enumerate(shares):
        members = rng.permutation(np.flatnonzero(labels == number))
        total = row.sum()
        if not total > 0:
            continue
        bounds = np.floor(np.cumsum(row) / total * len(members) + rng.random()).astype(np.int64)
        bounds[row.nonzero()[0][-1] :] = len(members)
        for rank, (start, stop) in enumerate(zip([0, *bounds[:-1]], bounds, strict=True)):
            owners[members[start:stop]] = rank
    return owners


def _equal(labels: Indices, wanted: NDArray[np.float64], rng: np.random.Generator) -> Indices:
    """Each sample's owner, in parts of equal size; samples that are left over have none.

    The peers take turns in random order; whose turn it is takes a sample of a class drawn from its own proportions
    among the classes that are not used up (as the code that DisPFL and FedDyn published does).

    Args:
        labels: Class numbers, shape (samples,).
        wanted: Each peer's proportions, shape (peers, classes).
        rng: Where chance comes from.
    """
    size, classes = wanted.shape
    queues = [rng.permutation(np.flatnonzero(labels == number)).tolist() for number in range(classes)]
    each = len(labels) // size
    turns = rng.permutation(np.repeat(np.arange(size), each))
    chances = rng.random(len(turns))
    found = np.full(len(labels), -1, np.int64)
    bounds = _bounds(wanted, queues)
    for peer, chance in zip(turns.tolist(), chances.tolist(), strict=True):
        row = bounds[peer]
        number = int(np.searchsorted(row, chance * row[-1], side="right"))
        found[queues[number].pop()] = peer
        if not queues[number]:
            bounds = _bounds(wanted, queues)
    return found


def _bounds(wanted: NDArray[np.float64], queues: list[list[int]]) -> NDArray[np.float64]:
    """Cumulated proportions over the classes that are not used up; equal ones where a peer wants none of them."""
    there = np.array([bool(queue) for queue in queues])
    left = np.where(there, wanted, 0.0)
    left[left.sum(axis=1) < np.finfo(float).tiny] = there  # below it, sums times a chance would round back to sums
    return np.cumsum(left, axis=1)
