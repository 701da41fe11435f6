"""Draws of large random graphs, many a second: random bits from Python's generator, the rest on whole arrays.

Python's generator gives the same bits for the same seed on every machine and in every release so far; numpy reserves
the right to change its own from one release to the next.
"""

from __future__ import annotations

import random

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from dpeer.topology.edges import Links, Ranks


def shuffled(count: int, generator: random.Random) -> Ranks:
    """The numbers 0..count-1 in random order."""
    place = np.uint64(count.bit_length())
    # Random numbers that end in their place: once they are sorted the places are shuffled, and no two are equal.
    drawn = _bits(count, generator) << place | np.arange(count, dtype=np.uint64)
    return (np.sort(drawn) & ((np.uint64(1) << place) - np.uint64(1))).astype(np.int64)


def cycle(size: int, generator: random.Random) -> Links:
    """A graph in which all peers form one circle, in random order."""
    order = shuffled(size, generator)
    return Links(size, order, np.roll(order, -1))


def paired(size: int, degree: int, generator: random.Random) -> Links:
    """A random graph in which everyone has `degree` neighbors, at most a quarter of all; perhaps not connected.

    Everyone has `degree` ends of edges, and the ends are joined at random (Bollobas, "A probabilistic proof of an
    asymptotic formula for the number of labelled regular graphs", 1980). The few edges that join a peer to itself, or a
    pair twice, are cut and joined again together with as many others, until there are none: nearly uniform, as with the
    switchings of McKay and Wormald, "Uniform generation of random regular graphs of moderate degree", 1990.
    """
    ends = (shuffled(size * degree, generator) // degree).reshape(-1, 2)
    while len(wrong := _wrong(ends, size)):
        again = np.union1d(wrong, generator.sample(range(len(ends)), len(wrong)))
        loose = ends[again].ravel()
        ends[again] = loose[shuffled(len(loose), generator)].reshape(-1, 2)
    return Links(size, ends[:, 0], ends[:, 1])


def others(size: int, count: int, generator: random.Random) -> Ranks:
    """For each peer `count` different other peers, (size, count), by Floyd's algorithm for all peers at once.

    Bentley and Floyd, "A sample of brilliance", 1987.
    """
    found = np.empty((size, count), dtype=np.int64)
    for column, last in enumerate(range(size - 1 - count, size - 1)):
        # The remainder favors small ranks by less than one in 10^14.
        drawn = (_bits(size, generator) % np.uint64(last + 1)).astype(np.int64)
        known = (found[:, :column] == drawn[:, None]).any(axis=1)
        found[:, column] = np.where(known, last, drawn)
    return found + (found >= np.arange(size)[:, None])  # nobody draws itself


def connects(graph: Links) -> bool:
    """Whether an undirected graph joins everyone."""
    edges = coo_array((np.ones(len(graph.sender)), (graph.sender, graph.receiver)), shape=(graph.size, graph.size))
    parts, _ = connected_components(edges.tocsr(), directed=False)
    return bool(parts == 1)


def _wrong(ends: Ranks, size: int) -> Ranks:
    """The edges that join a peer to itself or repeat an earlier one."""
    low, high = ends.min(axis=1), ends.max(axis=1)
    pairs = low * size + high
    wrong = low == high
    ordered = np.sort(pairs)
    if (ordered[1:] == ordered[:-1]).any():  # seldom after the first look, and finding out which is dearer
        order = np.argsort(pairs, kind="stable")
        wrong[order[1:][pairs[order[1:]] == pairs[order[:-1]]]] = True
    return np.flatnonzero(wrong)


def _bits(count: int, generator: random.Random) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.frombuffer(generator.randbytes(8 * count), dtype="<u8").astype(np.uint64)
