"""The settings of the graph on which peers gossip."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from dpeer.plugins import reference
from dpeer.sections import Mark, Section, setting
from dpeer.topology.building import WEIGHTS

_GROUP = "Graph"


def _as_text(value: Any) -> Any:
    """A whole number as text, as it comes from the command line."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


GridShape = Annotated[str, Field(pattern=r"^\d+x\d+$")]
FreshNeighbors = Annotated[str, BeforeValidator(_as_text), Field(pattern=r"^(directed:)?\d+$")]


class GraphSettings(Section):
    """Which peers gossip with each other, and with which weights."""

    topology: Annotated[str, BeforeValidator(reference)] = setting(
        "ring",
        "who gossips with whom: ring, grid, exponential, full, one-peer-exponential, ... (`dpeer topology show --help` "
        "names all, `dpeer topology advise` helps to choose), file:PATH, or a function of your own that makes a "
        "networkx graph: FILE.py:FUNCTION",
        mark=Mark.FOLLOWS,
        group=_GROUP,
        first=True,
    )
    size: int = setting(8, "number of peers", mark=Mark.SHARED, group=_GROUP, first=True, ge=2)
    weights: str = setting("metropolis", f"mixing weights: {', '.join(WEIGHTS)}", mark=Mark.FOLLOWS, group=_GROUP)
    grid_shape: GridShape | None = setting(
        None, "ROWSxCOLUMNS of grid and torus; near-square if not given", mark=Mark.FOLLOWS, group=_GROUP
    )
    degree: int = setting(
        4, "neighbors of each peer in random-regular and small-world", mark=Mark.FOLLOWS, group=_GROUP, ge=1
    )
    rewire: float = setting(
        0.1, "probability with which small-world moves an edge", mark=Mark.FOLLOWS, group=_GROUP, ge=0, le=1
    )
    edge_probability: float | None = setting(
        None,
        "probability of each edge in erdos-renyi (default: 2 ln(size) / size)",
        mark=Mark.FOLLOWS,
        group=_GROUP,
        gt=0,
        le=1,
    )
    fresh_neighbors: FreshNeighbors | None = setting(
        None,
        "K: a new random graph every round, K neighbors each; directed:K: everyone draws K peers to hear from "
        "(takes the place of --topology)",
        mark=Mark.FOLLOWS,
        group=_GROUP,
    )
    graph_seed: int = setting(0, "seed of random graphs", mark=Mark.FOLLOWS, group=_GROUP, ge=0)

    def shape(self) -> tuple[int, int] | None:
        """`grid_shape` as (rows, columns)."""
        if self.grid_shape is None:
            return None
        rows, columns = self.grid_shape.split("x")
        return int(rows), int(columns)
