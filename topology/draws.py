"""Random draws from a public seed: the same seed gives every peer the same draw, in every process.

Large ones take random bits from Python's generator and do the rest on whole arrays. Python's generator gives the same
bits for the same seed on every machine and in every release so far; numpy reserves the right to change its own.
"""

from __future__ import annotations

import random
from itertools import pairwise

import networkx as nx
import numpy as np
from numpy.typing import NDArray

Ranks = NDArray[np.int64]

_MANY = 64


def random_stream(seed: int, *more: int) -> random.Random:
    """The stream of `seed`, or of its round or draw numbered by `more`; independent of all the others."""
    # A text is hashed by SHA-512, the same in every process; numbers side by side would overlap.
    return random.Random(" ".join(map(str, (seed, *more))) if more else seed)  # noqa: S311 - public on purpose


def ends_of(graph: nx.Graph[int]) -> Ranks:
    """The ends of a graph's edges, (edges, 2)."""
    return np.array(list(graph.edges), dtype=np.int64).reshape(-1, 2)


def regular(size: int, degree: int, generator: random.Random) -> Ranks:
    """The edges, (edges, 2), of a random graph in which everyone has `degree` neighbors, perhaps not connected."""
    graph: nx.Graph[int]
    if degree == 2:  # connected and 2-regular is one cycle, which a plain draw seldom is
        order = generator.sample(range(size), size)
        graph = nx.Graph([*pairwise(order), (order[-1], order[0])])
    elif 2 * degree >= size:  # networkx takes minutes when nearly everyone is joined: draw the edges that are missing
        graph = nx.complement(nx.random_regular_graph(size - 1 - degree, size, seed=generator))
    else:
        graph = nx.random_regular_graph(degree, size, seed=generator)
    return ends_of(graph)


def quickly_regular(size: int, degree: int, generator: random.Random) -> Ranks:
    """As `regular`; by the pairing model for many peers with few neighbors each."""
    if size < _MANY or 4 * degree > size:
        return regular(size, degree, generator)
    if degree == 2:
        order = shuffled(size, generator)
        return np.stack([order, np.roll(order, -1)], axis=1)
    return pairing_model(size, degree, generator)


def shuffled(count: int, generator: random.Random) -> Ranks:
    """The numbers 0..count-1 in random order."""
    place = np.uint64(count.bit_length())
    # Random numbers that end in their place: once they are sorted the places are shuffled, and no two are equal.
    drawn = _bits(count, generator) << place | np.arange(count, dtype=np.uint64)
    return (np.sort(drawn) & ((np.uint64(1) << place) - np.uint64(1))).astype(np.int64)


def pairing_model(size: int, degree: int, generator: random.Random) -> Ranks:
    """The edges, (edges, 2), of a random graph in which everyone has `degree` neighbors, at most a quarter of all.

    Everyone has `degree` ends of edges, and the ends are joined at random (Bollobas, "A probabilistic proof of an
    asymptotic formula for the number of labelled regular graphs", 1980). The few edges that join a peer to itself, or a
    pair twice, are cut and joined again together with as many others, until none is left: nearly uniform, as with the
    switchings of McKay and Wormald, "Uniform generation of random regular graphs of moderate degree", 1990.
    """
    ends = (shuffled(size * degree, generator) // degree).reshape(-1, 2)
    while len(wrong := _wrong(ends, size)):
        again = np.union1d(wrong, generator.sample(range(len(ends)), len(wrong)))
        loose = ends[again].ravel()
        ends[again] = loose[shuffled(len(loose), generator)].reshape(-1, 2)
    return ends


def draw_others(size: int, count: int, generator: random.Random) -> Ranks:
    """For each peer `count` different other peers, (size, count), by Floyd's algorithm for all peers at once.

    Bentley and Floyd, "A sample of brilliance", 1987.
    """
    found = np.empty((size, count), dtype=np.int64)
    for column, last in enumerate(range(size - 1 - count, size - 1)):
        # The remainder favors small ranks by less than one in 10^14.
        drawn = (_bits(size, generator) % np.uint64(last + 1)).astype(np.int64)
        known = (found[:, :column] == drawn[:, None]).any(axis=1)
        found[:, column] = np.where(known, last, drawn)
    return found + (found >= np.arange(size)[:, None])  # no peer draws itself


def _wrong(ends: Ranks, size: int) -> Ranks:
    """The edges that join a peer to itself or repeat another one, but for one of those."""
    pairs = ends.min(axis=1) * size + ends.max(axis=1)
    wrong = np.ones(len(ends), dtype=bool)
    wrong[np.unique(pairs, return_index=True)[1]] = False
    return np.flatnonzero(wrong | (ends[:, 0] == ends[:, 1]))


def _bits(count: int, generator: random.Random) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.frombuffer(generator.randbytes(8 * count), dtype="<u8").astype(np.uint64)
