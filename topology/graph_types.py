"""The two forms of a graph, a list of edges or a circulant graph, and the options from which graphs are made.

Nodes are the ranks 0..size-1. In a `CirculantGraph` each peer's edges are those of rank 0, moved along: one row defines
it, and its edges are never written down (a complete graph of 100,000 peers has five thousand million). Every other
graph is an `EdgeList`. A graph's parameters define it together with its name and size; they are canonical JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

Ranks = NDArray[np.int64]


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
class EdgeList:
    """A graph as a list of its edges.

    Attributes:
        size: The number of peers.
        sender: One end of each edge; the sending one if the graph is directed, (edges,).
        receiver: The other end, (edges,).
        directed: Whether an edge carries bodies one way only. Otherwise each is listed once.
        parameters: The graph's parameters.
        weights: The weight of each edge in the mixing matrix, (edges,); None for those of a weights rule.
    """

    size: int
    sender: Ranks
    receiver: Ranks
    directed: bool = False
    parameters: dict[str, Any] = field(default_factory=dict)
    weights: NDArray[np.float64] | None = None

    @classmethod
    def of(cls, graph: nx.Graph[int], parameters: dict[str, Any] | None = None) -> EdgeList:
        """The edges of an undirected networkx graph whose nodes are the ranks."""
        ends = np.array(list(graph.edges), dtype=np.int64).reshape(-1, 2)
        return cls(len(graph), ends[:, 0], ends[:, 1], parameters=parameters or {})

    def messages(self) -> tuple[Ranks, Ranks]:
        """Sender and receiver of every message of a round: an undirected edge carries two."""
        if self.directed:
            return self.sender, self.receiver
        return np.concatenate([self.sender, self.receiver]), np.concatenate([self.receiver, self.sender])


@dataclass(frozen=True, eq=False)
class CirculantGraph:
    """A circulant graph: peer i sends to peer i + s (modulo size) for every s.

    Attributes:
        size: The number of peers.
        offsets: The distinct s, each from 1 to size - 1, ascending.
        directed: Whether an edge carries bodies one way only; otherwise every s comes with -s.
        parameters: Empty: the name and the size define every circulant graph.
    """

    size: int
    offsets: Ranks
    directed: bool = False
    parameters: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, size: int, offsets: Any, *, directed: bool = False) -> CirculantGraph:
        """The graph of any offsets, taken modulo size."""
        return cls(size, np.unique(np.asarray(offsets, dtype=np.int64) % size), directed)

    def edge_list(self) -> EdgeList:
        """The same graph as a list of its edges."""
        sender = np.repeat(np.arange(self.size), len(self.offsets))
        receiver = (sender + np.tile(self.offsets, self.size)) % self.size
        once = slice(None) if self.directed else sender < receiver
        return EdgeList(self.size, sender[once], receiver[once], self.directed)


Graph = EdgeList | CirculantGraph
