"""The settings of the graph on which peers gossip, and the graph that they name."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

from pydantic import BeforeValidator

from dpeer.plugins import reference
from dpeer.sections import EXCHANGE, Mark, Section, setting
from dpeer.topology.topologies import WEIGHTS, Topology, build


class GraphSettings(Section):
    """Which peers gossip with each other, and with which weights."""

    topology: Annotated[str, BeforeValidator(reference)] = setting(
        "ring",
        "the graph, such as exponential: ring, grid, exponential, full, one-peer-exponential, ... (`dpeer "
        "topology show --help` names all, `dpeer topology spectral-gap` compares them), file:PATH, or a function of "
        "your own that makes a networkx graph: FILE.py:FUNCTION",
        mark=Mark.FOLLOWS,
        group=EXCHANGE,
        first=True,
    )
    size: int = setting(8, "number of peers", mark=Mark.SHARED, group=EXCHANGE, first=True, ge=2)
    weights: str = setting(
        "metropolis",
        f"mixing weights: {', '.join(WEIGHTS)} (the mean counts each rank by `weight` in its table [rank.N])",
        mark=Mark.FOLLOWS,
        group=EXCHANGE,
    )
    graph_seed: int = setting(0, "seed of random graphs", mark=Mark.FOLLOWS, group=EXCHANGE, ge=0)


def build_graph(graph: GraphSettings) -> Topology:
    """The graph with its mixing matrix; all peers of a process share one.

    Raises:
        ConfigurationError: No such graph exists.
    """
    return _build(graph.topology, graph.size, weights=graph.weights, graph_seed=graph.graph_seed)


_build = lru_cache(maxsize=4)(build)


def forget_graphs() -> None:
    """Have graphs built anew: a file that one is made of may have changed between runs."""
    _build.cache_clear()
