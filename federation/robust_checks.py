"""Whether the graph suits `--robust`: what each rule needs to withstand a hostile neighbor; imports no torch."""

from __future__ import annotations

from functools import lru_cache

from dpeer.exceptions import ConfigurationError
from dpeer.federation.settings import Settings
from dpeer.privacy.soundness import check_mixing
from dpeer.topology import Row, TimeVaryingTopology, Topology
from dpeer.training.mixing.robust_setting import Robust


def check_hostile(settings: Settings, graph: Topology | TimeVaryingTopology) -> None:
    """Refuse ways to mix that the graph or the guarantee of privacy does not suit; alike on all peers.

    Raises:
        ConfigurationError: Names the setting, its value, and what would be right.
    """
    robust = settings.robust != "none"
    if settings.privacy != "none":
        for name, value in (("--robust", settings.robust if robust else None), ("--max-norm", settings.max_norm)):
            check_mixing(settings.dp_adversary, None if value is None else f"{name} {value}")
    if not robust:
        return
    said = f"--robust {settings.robust}"
    if graph.directed:
        raise ConfigurationError(
            f"{said} with {graph.name}: peers there hear others than hear them, and what the rule withstands is known "
            "where neighbors hear each other, as in ring, exponential and full"
        )
    reason = _unsuited(graph, Robust.parse(settings.robust))
    if reason is not None:
        raise ConfigurationError(f"{said} with {graph.name}: {reason}")


@lru_cache(maxsize=4)  # all peers of a process ask
def _unsuited(graph: Topology | TimeVaryingTopology, robust: Robust) -> str | None:
    """Why some peer would be at the mercy of a single neighbor, or would never hear one; None if none is.

    Of a graph that changes the first rounds are looked at.
    """
    numbers = range(1 if isinstance(graph, Topology) else graph.period)
    rows = (graph.at(number, rank).row for number in numbers for rank in range(graph.size))
    return next((reason for row in rows if (reason := _lacks(row, robust)) is not None), None)


def _lacks(row: Row, robust: Robust) -> str | None:
    neighbors = len(row) - 1
    has = f"rank {row.rank} has {neighbors} neighbor{'s' if neighbors != 1 else ''}"
    if robust.rule == "trimmed-mean" and neighbors < 2 * robust.trim:
        most = neighbors // 2
        right = f"give trimmed-mean:{most}" if most else "use clip:TAU"
        return f"{has}, of whom it withstands {most} at most: {right}, or a graph with {2 * robust.trim} neighbors each"
    if robust.rule == "clip" and robust.radius is None and neighbors < 2:
        return f"{has}, and the radius follows from two or more: give clip:TAU, or a graph with more neighbors"
    if robust.rule == "median":
        rank, weight = max(row.items(), key=lambda entry: entry[1])
        if weight >= 0.5 - 1e-9:
            whose = "its own body" if rank == row.rank else f"that of rank {rank}"
            return (
                f"rank {row.rank} gives {whose} the weight {weight:.3g}, and a median needs less than 0.5 for each: "
                "use clip, or a graph on which all have two neighbors or more and equally many"
            )
    return None
