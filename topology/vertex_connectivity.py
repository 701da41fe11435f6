"""How many peers may be lost before a graph falls apart: its vertex connectivity, from networkx."""

from __future__ import annotations

import networkx as nx

from dpeer.topology.neighborhood import Graphs
from dpeer.topology.static import Topology

LIMIT = 32
"""The largest size for which it is found: the time grows with more than the square of it."""


def survives(graphs: Graphs, rounds: int) -> int | None:
    """How many peers may be lost, whichever they are, so that the others stay in one piece.

    That is the vertex connectivity less one, of all edges of the run together: a peer that is left can still reach, and
    be reached by, every other one. Whether those that are left go on is another matter: they must be a quorum.

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
        for number in range(1 if isinstance(graphs, Topology) else rounds)
        for rank in range(graphs.size)
        for sender in graphs.at(number, rank).in_neighbors
    )
    mutual = all(together.has_edge(receiver, sender) for sender, receiver in together.edges)
    return int(nx.node_connectivity(together.to_undirected() if mutual else together)) - 1
