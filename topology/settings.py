"""The settings of the graph on which peers gossip, and the graph that they name."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from dpeer.exceptions import ConfigurationError
from dpeer.plugins import reference
from dpeer.sections import EXCHANGE, Mark, Section, setting
from dpeer.topology.topologies import WEIGHTS, Topology, build


def _as_text(value: Any) -> Any:
    """A whole number as text, as it comes from the command line."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


GridShape = Annotated[str, Field(pattern=r"^\d+x\d+$")]
FreshNeighbors = Annotated[str, BeforeValidator(_as_text), Field(pattern=r"^(directed:)?\d+$")]


class GraphSettings(Section):
    """Which peers gossip with each other, and with which weights."""

    topology: Annotated[str, BeforeValidator(reference)] = setting(
        "ring",
        "who gossips with whom, such as full: ring, grid, exponential, full, one-peer-exponential, ... (`dpeer "
        "topology show --help` names all, `dpeer topology spectral-gap` compares them), file:PATH, or a function of "
        "your own that makes a networkx graph: FILE.py:FUNCTION",
        mark=Mark.FOLLOWS,
        group=EXCHANGE,
        first=True,
    )
    size: int = setting(8, "number of peers", mark=Mark.SHARED, group=EXCHANGE, first=True, ge=2)
    weights: str = setting("metropolis", f"mixing weights: {', '.join(WEIGHTS)}", mark=Mark.FOLLOWS, group=EXCHANGE)
    grid_shape: GridShape | None = setting(
        None, "ROWSxCOLUMNS of grid and torus; near-square if not given", mark=Mark.FOLLOWS, group=EXCHANGE
    )
    degree: int = setting(
        4, "neighbors of each peer in random-regular and small-world", mark=Mark.FOLLOWS, group=EXCHANGE, ge=1
    )
    rewire: float = setting(
        0.1, "probability with which small-world moves an edge", mark=Mark.FOLLOWS, group=EXCHANGE, ge=0, le=1
    )
    edge_probability: float | None = setting(
        None,
        "probability of each edge in erdos-renyi (default: 2 ln(size) / size)",
        mark=Mark.FOLLOWS,
        group=EXCHANGE,
        gt=0,
        le=1,
    )
    fresh_neighbors: FreshNeighbors | None = setting(
        None,
        "neighbors in a new random graph every round: K each, or directed:K, where everyone draws K peers to hear from "
        "(takes the place of --topology)",
        mark=Mark.FOLLOWS,
        group=EXCHANGE,
    )
    graph_seed: int = setting(0, "seed of random graphs", mark=Mark.FOLLOWS, group=EXCHANGE, ge=0)

    def shape(self) -> tuple[int, int] | None:
        """`grid_shape` as (rows, columns)."""
        if self.grid_shape is None:
            return None
        rows, columns = self.grid_shape.split("x")
        return int(rows), int(columns)


def build_graph(graph: GraphSettings) -> Topology:
    """The graph with its mixing matrix; all peers of a process share one.

    Raises:
        ConfigurationError: No such graph exists.
    """
    fresh = {}
    if graph.fresh_neighbors is not None:
        fresh["fresh_neighbors"] = fresh_topology(graph.fresh_neighbors, None)[1]
    return _build(
        graph.topology,
        graph.size,
        weights=graph.weights,
        grid_shape=graph.shape(),
        degree=graph.degree,
        graph_seed=graph.graph_seed,
        rewire=graph.rewire,
        edge_probability=graph.edge_probability,
        **fresh,
    )


_build = lru_cache(maxsize=4)(build)

_PREFIX = "directed:"
_SAME = ("fresh-neighbors", "random-regular")
_DIRECTED = ("fresh-directed",)


def fresh_topology(text: str, asked: str | None) -> tuple[str, int]:
    """The topology that K or directed:K stands for, and its K.

    Args:
        text: The option's value.
        asked: The topology that was asked for beside it, if one was.

    Raises:
        ConfigurationError: The value is something else, or another topology was asked for.
    """
    directed = text.startswith(_PREFIX)
    number = text.removeprefix(_PREFIX)
    if not (number.isascii() and number.isdigit()):
        raise ConfigurationError(f"--fresh-neighbors {text!r}: write K or directed:K, for example 4")
    fitting = _DIRECTED if directed else _SAME
    if asked is not None and asked not in (*fitting, *_DIRECTED):
        raise ConfigurationError(
            f"fresh neighbors {text} make their own graphs, and topology {asked} is another: leave one of them out"
        )
    return (asked if asked in _DIRECTED else fitting[0]), int(number)
