"""Connectivity over a run: the diameter in rounds, and the vertex connectivity (from networkx)."""

from __future__ import annotations

from functools import cache

import networkx as nx

from dpeer.topology.neighborhood import Graphs
from dpeer.topology.topologies import Topology

LIMIT = 32
"""The largest size whose vertex connectivity is found: the time grows with more than its square."""

_STARTS = 3  # rounds from which a message is followed: time-varying graphs spread it at different speeds


def temporal_diameter(graphs: Graphs, rounds: int) -> int:
    """The most rounds that a message of one peer takes to reach all others, if each peer forwards it in every round.

    For a fixed graph this is its (directed) diameter. For a time-varying one it is the largest temporal diameter found
    from a few rounds on.

    Args:
        graphs: The graph of every round.
        rounds: How many rounds the run has.

    Returns:
        A number of rounds, at least 1 and at most `rounds`; `rounds` where a message does not reach every peer.
    """
    fixed = _is_fixed(graphs)

    @cache
    def senders(number: int) -> list[tuple[int, ...]]:
        return [graphs.at(number, rank).in_neighbors for rank in range(graphs.size)]

    starts = {0} if fixed else {rounds * part // _STARTS for part in range(_STARTS)}
    period = 1 if fixed else rounds

    def steps(start: int) -> int:
        everyone = (1 << graphs.size) - 1
        known = [1 << rank for rank in range(graphs.size)]  # a bit for each rank whose message is there
        for step in range(rounds):
            if all(one == everyone for one in known):
                return step
            before = list(known)
            for rank, heard in enumerate(senders((start + step) % period)):
                for sender in heard:
                    known[rank] |= before[sender]
        return rounds

    return max(1, *(steps(start) for start in starts))


def survivable_losses(graphs: Graphs, rounds: int) -> int | None:
    """The number of peers, whichever they are, that may be lost so that the others stay connected.

    That is the vertex connectivity less one, of all edges of the run together: each peer that is left still reaches
    every other one. Whether those that are left go on is another matter: they must be a quorum.

    Args:
        graphs: The graph of every round.
        rounds: How many rounds the run has.

    Returns:
        A number from 0 to size - 2; None for more than `LIMIT` peers.
    """
    if graphs.size > LIMIT:
        return None
    together: nx.DiGraph[int] = nx.DiGraph()
    together.add_nodes_from(range(graphs.size))
    together.add_edges_from(
        (sender, rank)
        for number in range(1 if _is_fixed(graphs) else rounds)
        for rank in range(graphs.size)
        for sender in graphs.at(number, rank).in_neighbors
    )
    mutual = all(together.has_edge(receiver, sender) for sender, receiver in together.edges)
    return int(nx.node_connectivity(together.to_undirected() if mutual else together)) - 1


def _is_fixed(graphs: Graphs) -> bool:
    return isinstance(graphs, Topology) and not graphs.changing
