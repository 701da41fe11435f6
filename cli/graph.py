"""From settings to a topology; imports no torch."""

from __future__ import annotations

from dpeer.cli.config import Settings
from dpeer.topology import Topology, build


def build_graph(settings: Settings) -> Topology:
    """The graph and the mixing matrix that the settings ask for.

    Raises:
        ConfigurationError: there is no such graph.
    """
    return build(
        settings.topology,
        settings.size,
        weights=settings.weights,
        grid_shape=settings.shape(),
        degree=settings.degree,
        graph_seed=settings.graph_seed,
    )
