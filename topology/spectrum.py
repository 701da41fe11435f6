"""How fast a topology mixes: the spectrum of its mixing matrix, and what a round of it costs.

With J = 11^T/m the matrix that averages at once, the worst disagreement left after t rounds is the spectral
norm of W^t - J = (W - J)^t. One round shrinks it by lambda = ||W - J||, W's second largest singular value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeer.exceptions import TopologyError
from dpeer.topology.fixed import Topology
from dpeer.topology.papers import PaperFormula, paper_formula

DENSE_LIMIT = 5000
"""The largest size analysed: the work is done on dense matrices, 8 m^2 bytes each and m^3 operations."""

_ROUNDING = 1e-12
_SHRINK = 1e-3


@dataclass(frozen=True)
class Analysis:
    """What `analyse` finds.

    Attributes:
        topology: The graph's name.
        size: The number of peers.
        second_singular_value: lambda, the factor by which a round shrinks disagreement at least.
        spectral_gap: 1 - lambda: 1 is the exact average in one round, 0 no mixing at all.
        rounds: Gossip rounds until the worst disagreement has shrunk 1000-fold.
        degree_min: The fewest messages a peer sends in a round.
        degree_max: The most messages a peer sends in a round.
        bytes_per_round_factor: The mean number of messages a peer sends in a round: times the bytes of a
            body, what it sends on average.
        paper_formula: What the papers give for this graph, if they do.
    """

    topology: str
    size: int
    second_singular_value: float
    spectral_gap: float
    rounds: int
    degree_min: int
    degree_max: int
    bytes_per_round_factor: float
    paper_formula: PaperFormula | None

    def as_dict(self) -> dict[str, Any]:
        """The analysis under its JSON keys, in their order."""
        paper = self.paper_formula
        return {
            "topology": self.topology,
            "size": self.size,
            "lambda": self.second_singular_value,
            "spectral_gap": self.spectral_gap,
            "rounds_to_1e-3": self.rounds,
            "degree_min": self.degree_min,
            "degree_max": self.degree_max,
            "bytes_per_round_factor": self.bytes_per_round_factor,
            "paper_formula": None if paper is None else {"name": paper.name, "value": paper.value},
        }


def analyse(topology: Topology) -> Analysis:
    """Compute how fast `topology` mixes and what a round of it costs.

    Raises:
        TopologyError: If it has more than `DENSE_LIMIT` peers.
    """
    size = topology.size
    if size > DENSE_LIMIT:
        raise TopologyError(f"size {size}: the spectrum is computed for at most {DENSE_LIMIT} peers")
    deviation = topology.weights - 1.0 / size
    shrinkage = _norm(deviation, symmetric=not topology.directed)
    degrees = np.bincount(topology.matrix.indices, minlength=size) - 1  # column j lists who hears j, and j
    return Analysis(
        topology=topology.name,
        size=size,
        second_singular_value=shrinkage,
        spectral_gap=1.0 - shrinkage,
        rounds=rounds_to_shrink(deviation, shrinkage),
        degree_min=int(degrees.min()),
        degree_max=int(degrees.max()),
        bytes_per_round_factor=float(degrees.mean()),
        paper_formula=paper_formula(topology.name, size),
    )


def rounds_to_shrink(deviation: NDArray[np.float64], norm: float) -> int:
    """The smallest t with ||A^t|| <= 1e-3, for A = W - J with `norm` = ||A|| < 1.

    Where A is normal (every symmetric or circulant W) ||A^t|| = ||A||^t and t follows from a logarithm.
    Elsewhere ||A^t|| may be far smaller, and only powers of A tell.

    Args:
        deviation: A, (m, m).
        norm: Its spectral norm.
    """
    if norm == 0.0:
        return 1
    if np.allclose(deviation @ deviation.T, deviation.T @ deviation, rtol=0.0, atol=_ROUNDING):
        # The threshold is 1e-9 (relative) generous: norm = 0.1 takes 3 rounds, though 0.1**3 > 1e-3 in
        # floating point.
        return max(1, math.ceil((math.log(_SHRINK) + 1e-9) / math.log(norm)))
    return _first_small_power(deviation)


def _first_small_power(deviation: NDArray[np.float64]) -> int:
    """The smallest t with ||A^t|| <= 1e-3 (as above), by doubling t and then descending bit by bit.

    ||A^t|| never grows with t, because ||A|| <= 1.
    """

    def small(power: NDArray[np.float64]) -> bool:
        return _norm(power, symmetric=False) <= _SHRINK * (1.0 + 1e-9)

    doublings = [deviation]  # A^(2^k), the last one small
    while not small(doublings[-1]):
        doublings.append(doublings[-1] @ doublings[-1])
    rounds, power = 0, np.eye(len(deviation))  # A^rounds, the largest known not to be small
    for k, doubling in reversed(list(enumerate(doublings[:-1]))):
        longer = power @ doubling
        if not small(longer):
            rounds, power = rounds + (1 << k), longer
    return rounds + 1


def _norm(matrix: NDArray[np.float64], *, symmetric: bool) -> float:
    """The spectral norm, 0 where it is no more than rounding."""
    if symmetric:  # several times cheaper than singular values
        norm = float(np.abs(np.linalg.eigvalsh(matrix)).max())
    else:
        norm = float(np.linalg.svd(matrix, compute_uv=False)[0])
    return norm if norm > _ROUNDING else 0.0
