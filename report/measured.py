"""The numbers behind a picture of graphs."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpeer.topology import Analysis, AnyTopology, TimeVaryingTopology, analyse, disagreement, spectrum

BOTTOM = 1e-4
"""The least disagreement shown."""

_ROUNDS = 150
_MESSAGES = 500
_FEWEST = 5


@dataclass(frozen=True)
class Curve:
    """One graph of the picture.

    Attributes:
        graph: The graph.
        analysis: The graph's gap, and the rounds and messages that agreement takes.
        spectrum: The singular values of the graph's matrix, or of a period's product, largest first.
        left: The worst disagreement left after 0, 1, ... rounds; ends where it falls below `BOTTOM`.
    """

    graph: AnyTopology
    analysis: Analysis
    spectrum: NDArray[np.float64]
    left: NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """All graphs of the picture.

    Attributes:
        curves: The graphs, in the order asked for.
        rounds: How many rounds are shown.
        messages: How many messages a peer are shown.
    """

    curves: list[Curve]
    rounds: int
    messages: float


def measure(graphs: list[AnyTopology], rounds: int | None) -> Measured:
    """Analyse graphs, and choose how many rounds to show unless that was asked for."""
    found = [analyse(graph) for graph in graphs]
    if rounds is None:
        shown = math.ceil(_enough([analysis.rounds for analysis in found], _ROUNDS))
        messages = _enough([analysis.rounds * analysis.bytes_per_round_factor for analysis in found], _MESSAGES)
    else:
        shown = rounds
        messages = rounds * statistics.median(analysis.bytes_per_round_factor for analysis in found)
    curves = [
        Curve(graph, analysis, spectrum(graph), _left(graph, analysis, shown, messages))
        for graph, analysis in zip(graphs, found, strict=True)
    ]
    return Measured(curves, shown, messages)


def _enough(needed: list[float], most: float) -> float:
    """A range of rounds in which all graphs but the slowest quarter agree; these would squash the others.

    Args:
        needed: The rounds that each graph needs.
        most: A range not to exceed, unless no graph agrees in it.
    """
    ordered = sorted(needed)
    typical = ordered[round(0.75 * (len(ordered) - 1))]
    return max(_FEWEST, min(1.15 * typical, max(most, 1.2 * ordered[0])))


def _left(graph: AnyTopology, analysis: Analysis, rounds: int, messages: float) -> NDArray[np.float64]:
    """Disagreement over the rounds shown, or until it is too small to be shown."""
    last = max(rounds, math.ceil(messages / analysis.bytes_per_round_factor))
    if isinstance(graph, TimeVaryingTopology):
        last = min(last, 2 * analysis.rounds + 5)  # a graph that changes costs more the longer it is followed
    left = disagreement(graph, last)
    below = np.flatnonzero(left < BOTTOM)
    return left[: below[0] + 1] if len(below) else left
