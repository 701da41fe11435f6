"""A graph as a list of edges, and the options from which graphs are made.

Nodes are the ranks 0..size-1. A graph's parameters define it together with its name and size; they are canonical JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

Ranks = NDArray[np.int64]

MOST_EDGES = 5_000_000
"""The most edges of a graph that is built."""


@dataclass(frozen=True)
class GraphOptions:
    """The options of all graphs, as `build` explains them; each graph takes those that it needs."""

    size: int
    grid_shape: tuple[int, int] | None = None
    degree: int = 4
    graph_seed: int = 0
    rewire: float = 0.1
    edge_probability: float | None = None
    fresh_neighbors: int = 4


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph as a list of its edges.

    Attributes:
        size: The number of peers.
        sender: One end of each edge; the sending one if the graph is directed, (edges,).
        receiver: The other end, (edges,).
        directed: Whether an edge carries bodies one way only. Otherwise each is listed once.
        parameters: The graph's parameters.
        weights: The weight of each edge in the mixing matrix, (edges,); None for those of a weights rule.
        offsets: Of a circulant graph, in which peer i sends to i + s (modulo size), every s; None for others.
    """

    size: int
    sender: Ranks
    receiver: Ranks
    directed: bool = False
    parameters: dict[str, Any] = field(default_factory=dict)
    weights: NDArray[np.float64] | None = None
    offsets: Ranks | None = None

    @classmethod
    def of(cls, graph: nx.Graph[int], parameters: dict[str, Any] | None = None) -> Graph:
        """The edges of an undirected networkx graph whose nodes are the ranks."""
        ends = np.array(list(graph.edges), dtype=np.int64).reshape(-1, 2)
        return cls(len(graph), ends[:, 0], ends[:, 1], parameters=parameters or {})

    @classmethod
    def circulant(cls, size: int, steps: Any, *, directed: bool = False) -> Graph:
        """The graph in which each peer sends to the ranks that are some steps (modulo size) after its own."""
        offsets = np.unique(np.asarray(steps, dtype=np.int64) % size)
        sender = np.repeat(np.arange(size), len(offsets))
        receiver = (sender + np.tile(offsets, size)) % size
        once = slice(None) if directed else sender < receiver
        return cls(size, sender[once], receiver[once], directed, offsets=offsets)

    def messages(self) -> tuple[Ranks, Ranks]:
        """Sender and receiver of every message of a round: an undirected edge carries two."""
        if self.directed:
            return self.sender, self.receiver
        return np.concatenate([self.sender, self.receiver]), np.concatenate([self.receiver, self.sender])
