"""A graph of one's own: two rings that share one bridge, as two regions with a line between them.

    dpeer topology show --topology examples/own_graph.py:two_rings --size 8
    dpeer simulate --topology examples/own_graph.py:two_rings --size 8 --rounds 3

A function takes the number of peers and the graph seed, and returns an undirected networkx graph of the ranks 0 to
size - 1. All peers must get the same one. `weighted` sets the mixing weights itself, by the attribute "weight" of each
edge; a peer keeps what its edges leave of one.
"""

from __future__ import annotations

import networkx as nx


def two_rings(size: int, seed: int) -> nx.Graph[int]:
    """Two rings of half the peers each, joined by an edge between rank 0 and the first of the second ring."""
    half = size // 2
    graph: nx.Graph[int] = nx.Graph()
    nx.add_cycle(graph, range(half))
    nx.add_cycle(graph, range(half, size))
    graph.remove_edges_from(nx.selfloop_edges(graph))
    graph.add_edge(0, half)
    return graph


def weighted(size: int, seed: int) -> nx.Graph[int]:
    """The same graph, whose bridge carries a weight of 0.4 and every other edge 0.3."""
    graph = two_rings(size, seed)
    for one, other in graph.edges:
        graph.edges[one, other]["weight"] = 0.4 if (one, other) == (0, size // 2) else 0.3
    return graph
