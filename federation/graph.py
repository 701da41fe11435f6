"""Building the topology that settings ask for; imports no torch."""

from __future__ import annotations

from functools import lru_cache

from dpeer.exceptions import ConfigurationError
from dpeer.federation.fresh import fresh_topology
from dpeer.federation.settings import Settings
from dpeer.topology import Graphs, Isolated, Participation, ServerSampling, TimeVaryingTopology, Topology, build


def build_graph(settings: Settings) -> Topology | TimeVaryingTopology:
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
    """The graphs of a run: the given ones, with only some peers in each round where `participation` says so.

    Raises:
        ConfigurationError: All are to take the mean of those drawn, which the graph or the way to mix does not suit.
    """
    if settings.participation_mode == "server" and not isinstance(graph, Isolated):
        _check_server(settings)
        return ServerSampling(graph, settings.participation, settings.seed)
    return graph if settings.participation == 1 else Participation(graph, settings.participation, settings.seed)


def _check_server(settings: Settings) -> None:
    """Refuse ways to mix that compare what comes with a body that the receiver has sent itself."""
    robust = f"--robust {settings.robust}" if settings.robust != "none" else None
    furthest = f"--max-norm {settings.max_norm}" if settings.max_norm is not None else None
    quantized = f"--quantize {settings.quantize}" if settings.quantize is not None else None
    codec = f"--codec {settings.codec}" if settings.codec is not None else None
    for said in filter(None, (robust, furthest, quantized, codec)):
        raise ConfigurationError(
            f"--participation-mode server with {said}: it needs what the receiver itself has sent in the round, and "
            "most send nothing: leave one of the two out"
        )


# All peers of a process share one: what it has drawn, or solved for, serves them all.
_build = lru_cache(maxsize=4)(build)
