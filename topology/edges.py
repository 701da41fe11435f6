"""What a graph is drawn from, and its two forms, from which weights are computed: links, or steps.

Nodes are the ranks 0..size-1. A graph in which all peers do the same, only from their own place, is a set of
`Steps`, from which everything about it follows without ever writing its edges down (a complete graph of 100,000
peers has five thousand million). Every other graph is a list of `Links`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

Ranks = NDArray[np.int64]


@dataclass(frozen=True)
class Request:
    """What a graph may be drawn from; each graph takes what it needs and ignores the rest.

    Attributes:
        size: The number of peers, at least 2.
        grid_shape: (rows, columns) of a grid or torus; None for the most nearly square one.
        degree: The number of neighbors of each peer in random-regular, and before rewiring in small-world.
        graph_seed: What a random graph is drawn from, at least 0. Public: every peer draws the same graph.
        rewire: The probability with which small-world moves an edge, 0 to 1.
        edge_probability: The probability of each edge of erdos-renyi, 0 to 1; None for 2 ln(size) / size.
        fresh_neighbors: The number of neighbors that fresh-neighbors draws for each peer in every round.
    """

    size: int
    grid_shape: tuple[int, int] | None = None
    degree: int = 4
    graph_seed: int = 0
    rewire: float = 0.1
    edge_probability: float | None = None
    fresh_neighbors: int = 4


@dataclass(frozen=True, eq=False)
class Links:
    """A graph as a list of its edges.

    Attributes:
        size: The number of peers.
        sender: One end of each edge; the sending one if the graph is directed, (edges,).
        receiver: The other end, (edges,).
        directed: Whether an edge carries bodies one way only. Otherwise each is listed once.
    """

    size: int
    sender: Ranks
    receiver: Ranks
    directed: bool = False

    @classmethod
    def of(cls, graph: nx.Graph[int]) -> Links:
        """The links of a networkx graph whose nodes are the ranks."""
        ends = np.array(list(graph.edges), dtype=np.int64).reshape(-1, 2)
        return cls(len(graph), ends[:, 0], ends[:, 1], graph.is_directed())

    def messages(self) -> tuple[Ranks, Ranks]:
        """Sender and receiver of every message of a round: an undirected edge carries two."""
        if self.directed:
            return self.sender, self.receiver
        return np.concatenate([self.sender, self.receiver]), np.concatenate([self.receiver, self.sender])


@dataclass(frozen=True, eq=False)
class Steps:
    """A circulant graph: peer i sends to peer i + s (modulo size) for every s.

    Attributes:
        size: The number of peers.
        steps: The distinct s, each from 1 to size - 1, ascending.
        directed: Whether an edge carries bodies one way only; otherwise there is a step back for every s.
    """

    size: int
    steps: Ranks
    directed: bool = False

    @classmethod
    def of(cls, size: int, steps: Any, *, directed: bool = False) -> Steps:
        """The graph of any steps, taken modulo size."""
        return cls(size, np.unique(np.asarray(steps, dtype=np.int64) % size), directed)

    def links(self) -> Links:
        """The same graph as a list of its edges."""
        sender = np.repeat(np.arange(self.size), len(self.steps))
        receiver = (sender + np.tile(self.steps, self.size)) % self.size
        once = slice(None) if self.directed else sender < receiver
        return Links(self.size, sender[once], receiver[once], self.directed)


@dataclass(frozen=True)
class Drawing:
    """A graph and the parameters that, with its name and size, define it (JSON-able and canonical)."""

    graph: Links | Steps
    parameters: dict[str, Any] = field(default_factory=dict)
