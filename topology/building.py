"""`build`: a topology by its name, checked to be stochastic and to connect everyone."""

from __future__ import annotations

from dpeer.exceptions import TopologyError, UnknownName
from dpeer.topology.graph_types import EdgeList, GraphOptions
from dpeer.topology.graphs import GRAPHS
from dpeer.topology.mixing_matrix import CirculantMatrix, Matrix, check_mixing
from dpeer.topology.time_varying_graphs import TIME_VARYING
from dpeer.topology.topologies import OWN, TimeVaryingTopology, Topology
from dpeer.topology.user_graphs import PREFIX, file_graph, is_function, plugin_graph, shown
from dpeer.topology.weights import WEIGHT_RULES, mixing_matrix, with_diagonal

TOPOLOGIES: tuple[str, ...] = (*GRAPHS, *TIME_VARYING)
"""The names `build` knows; besides, `file:PATH` and `FILE.py:FUNCTION`."""

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
) -> Topology | TimeVaryingTopology:
    """Build a topology by name; its matrices are checked to be stochastic and to connect everyone.

    Args:
        name: One of `TOPOLOGIES`, `file:PATH` (an edge list or GraphML), or `FILE.py:FUNCTION`, which is called with
            the size and the graph seed.
        size: The number of peers, at least 2.
        weights: One of `WEIGHTS`. A directed graph takes `uniform` whatever is asked for: the others are
            not defined on it; a function's graph whose edges have weights keeps those.
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
    users = name.startswith(PREFIX) or is_function(name)
    if name not in TOPOLOGIES and not users:
        raise UnknownName("topology", name, (*TOPOLOGIES, f"{PREFIX}PATH"))
    if weights not in WEIGHT_RULES:
        raise UnknownName("weights rule", weights, WEIGHTS)
    if size < 2:
        raise TopologyError(f"size {size}: a topology joins at least 2 peers")
    if size > LIMIT:
        raise TopologyError(f"size {size}: graphs are built of at most {LIMIT:,} peers")
    request = GraphOptions(size, grid_shape, degree, graph_seed, rewire, edge_probability, fresh_neighbors)
    if name in TIME_VARYING:
        return _time_varying(name, request, weights)
    own_weights = None
    mixing: CirculantMatrix | Matrix
    if name in GRAPHS:
        built = GRAPHS[name](request)
    elif name.startswith(PREFIX):
        built = file_graph(name, size)
    else:
        built, own_weights = plugin_graph(name, size, graph_seed)
    label = shown(name) if users else name
    directed = built.graph.directed
    if own_weights is not None:
        assert isinstance(built.graph, EdgeList)
        mixing, weights = with_diagonal(built.graph, own_weights), OWN
    else:
        mixing, weights = mixing_matrix(built.graph, weights, label), "uniform" if directed else weights
    if not isinstance(mixing, CirculantMatrix):  # whose rows are all one row, right by construction
        check_mixing(mixing, symmetric=not directed)
    return Topology(label, size, weights, built.parameters, directed, mixing)


def _time_varying(name: str, request: GraphOptions, weights: str) -> TimeVaryingTopology:
    plan = TIME_VARYING[name](request)
    directed = plan.draw(0).directed
    if not directed and not WEIGHT_RULES[weights].changing:
        raise TopologyError(
            f"weights {weights}: {name} has another graph every round, and these weights suit one: use metropolis"
        )
    return TimeVaryingTopology(name, request.size, "uniform" if directed else weights, plan.parameters, plan)
