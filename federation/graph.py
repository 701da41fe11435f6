"""Building the topology that settings ask for; imports no torch."""

from __future__ import annotations

from functools import lru_cache

from dpeer.federation.fresh import fresh_topology
from dpeer.federation.settings import Settings
from dpeer.topology import ChangingTopology, Graphs, Participation, Topology, build


def build_graph(settings: Settings) -> Topology | ChangingTopology:
    """The graph and the mixing matrix that the settings ask for.

    Raises:
        ConfigurationError: there is no such graph.
    """
    fresh = {}
    if settings.fresh_neighbors is not None:
        fresh["fresh_neighbors"] = fresh_topology(settings.fresh_neighbors, None)[1]
    return _build(
        settings.topology,
        settings.size,
        weights=settings.weights,
        grid_shape=settings.shape(),
        degree=settings.degree,
        graph_seed=settings.graph_seed,
        rewire=settings.rewire,
        edge_probability=settings.edge_probability,
        **fresh,
    )


def take_part(graph: Graphs, settings: Settings) -> Graphs:
    """The graphs of a run: the given ones, with only some peers in each round where `participation` says so."""
    return graph if settings.participation == 1 else Participation(graph, settings.participation, settings.seed)


# All peers of a process share one: what it has drawn, or solved for, serves them all.
_build = lru_cache(maxsize=4)(build)
