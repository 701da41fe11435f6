"""How many rounds news takes from every peer to every other one: the diameter of graphs that may change."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from dpeer.topology.neighborhood import Graphs
from dpeer.topology.static import Topology

_STARTS = 3
"""From how many rounds on news is followed: graphs that change spread it at different speeds."""


def rounds_to_everybody(graphs: Graphs, rounds: int) -> int:
    """The most rounds in which what one peer knows reaches all others, if each tells its out-neighbors in each round.

    For a graph that stays this is its (directed) diameter. For one that changes it is the largest temporal diameter
    found from a few rounds on.

    Args:
        graphs: The graph of every round.
        rounds: How many rounds the run has.

    Returns:
        A number of rounds, at least 1 and at most `rounds`; `rounds` where news does not reach everybody.
    """
    stays = isinstance(graphs, Topology)

    @cache
    def senders(number: int) -> list[tuple[int, ...]]:
        return [graphs.at(number, rank).in_neighbors for rank in range(graphs.size)]

    starts = {0} if stays else {rounds * part // _STARTS for part in range(_STARTS)}
    period = 1 if stays else rounds
    return max(1, *(_from(senders, start, period, graphs.size, rounds) for start in starts))


def _from(senders: Callable[[int], list[tuple[int, ...]]], start: int, period: int, size: int, rounds: int) -> int:
    everybody = (1 << size) - 1
    known = [1 << rank for rank in range(size)]  # a bit for each rank whose news is there
    for step in range(rounds):
        if all(one == everybody for one in known):
            return step
        before = list(known)
        for rank, heard in enumerate(senders((start + step) % period)):
            for sender in heard:
                known[rank] |= before[sender]
    return rounds
