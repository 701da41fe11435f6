"""Building a topology by its name, which is the one way to make one."""

from __future__ import annotations

from pathlib import Path

from dpeer.exceptions import TopologyError, UnknownName
from dpeer.topology.checks import check
from dpeer.topology.circulant import Circulant
from dpeer.topology.edges import Request
from dpeer.topology.files import PREFIX, file_graph
from dpeer.topology.graphs import GRAPHS
from dpeer.topology.schedules import CHANGING
from dpeer.topology.static import Topology
from dpeer.topology.time_varying import ChangingTopology
from dpeer.topology.weights import WEIGHT_RULES, mix

TOPOLOGIES: tuple[str, ...] = (*GRAPHS, *CHANGING)
"""The names `build` knows; besides, `file:PATH`."""

LIMIT = 1_000_000
"""The largest size built."""

WEIGHTS: tuple[str, ...] = tuple(WEIGHT_RULES)
"""The names of the weights rules `build` knows."""


def build(
    name: str,
    size: int,
    *,
    weights: str = "metropolis",
    grid_shape: tuple[int, int] | None = None,
    degree: int = 4,
    graph_seed: int = 0,
    rewire: float = 0.1,
    edge_probability: float | None = None,
    fresh_neighbors: int = 4,
) -> Topology | ChangingTopology:
    """Build a topology by name; its matrices are checked to be stochastic and to connect everyone.

    Args:
        name: One of `TOPOLOGIES`, or `file:PATH`: an edge list or GraphML.
        size: The number of peers, at least 2.
        weights: One of `WEIGHTS`. A directed graph takes `uniform` whatever is asked for: the others are
            not defined on it.
        grid_shape: (rows, columns), for `grid` and `torus`; the most nearly square one by default.
        degree: Neighbors of each peer, for `random-regular` and (before rewiring) `small-world`.
        graph_seed: What random graphs are drawn from; the same seed gives the same graph.
        rewire: The probability with which `small-world` moves an edge.
        edge_probability: Of each edge of `erdos-renyi`; by default 2 ln(size) / size.
        fresh_neighbors: Neighbors that `fresh-neighbors` draws for each peer in every round.

    Options that a graph does not use are ignored, so that one set of options serves several graphs.

    Raises:
        UnknownName: If `name` or `weights` is not a valid name.
        TopologyError: If there is no such graph of this size, or the weights do not suit it.
    """
    known = name in TOPOLOGIES or name.startswith(PREFIX)
    if not known:
        raise UnknownName("topology", name, (*TOPOLOGIES, f"{PREFIX}PATH"))
    if weights not in WEIGHT_RULES:
        raise UnknownName("weights rule", weights, WEIGHTS)
    if size < 2:
        raise TopologyError(f"size {size}: a topology joins at least 2 peers")
    if size > LIMIT:
        raise TopologyError(f"size {size}: graphs are built of at most {LIMIT:,} peers")
    request = Request(size, grid_shape, degree, graph_seed, rewire, edge_probability, fresh_neighbors)
    if name in CHANGING:
        return _changing(name, request, weights)
    drawing = file_graph(name, size) if name.startswith(PREFIX) else GRAPHS[name](request)
    shown = f"{PREFIX}{Path(name.removeprefix(PREFIX)).name}" if name.startswith(PREFIX) else name
    directed = drawing.graph.directed
    mixing = mix(drawing.graph, weights, shown)
    if not isinstance(mixing, Circulant):  # whose rows are all one row, right by construction
        check(mixing, symmetric=not directed)
    return Topology(shown, size, "uniform" if directed else weights, drawing.parameters, directed, mixing)


def _changing(name: str, request: Request, weights: str) -> ChangingTopology:
    plan = CHANGING[name](request)
    directed = plan.draw(0).directed
    if not directed and not WEIGHT_RULES[weights].changing:
        raise TopologyError(
            f"weights {weights}: {name} has another graph every round, and these weights suit one: use metropolis"
        )
    return ChangingTopology(name, request.size, "uniform" if directed else weights, plan.parameters, plan)
