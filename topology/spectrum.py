"""Spectral gap of a topology and the cost of a round, for any number of peers.

With J = 11^T/m the matrix that averages at once, the worst disagreement left after t rounds is the spectral norm of
(I - J) W_(t-1) ... W_0 (I - J), which is W^t - J where W is doubly stochastic and the same in every round. A round of
such a W shrinks it by lambda = ||W - J||, W's second largest singular value, and every built-in fixed W is symmetric or
circulant, hence normal: t rounds shrink it by lambda^t exactly. Where the graph changes, lambda is that of one period.

Circulant matrices are diagonal in the Fourier basis: their eigenvalues are the discrete Fourier transform of their
first column (Gray, "Toeplitz and circulant matrices: a review", 2006, section 3.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from dpeer.exceptions import TopologyError
from dpeer.topology.eigen import largest_singular_value, smallest
from dpeer.topology.mixing_matrix import MixingMatrix, Sparse
from dpeer.topology.topologies import AnyTopology, TimeVaryingTopology


@dataclass(frozen=True)
class PaperFormula:
    """The papers' spectral gap: the formula, m being the number of peers, and its value; None where it is an order."""

    name: str
    value: float | None


_EXPONENTIAL = "2 / (1 + log2 m)"

_FORMULAS: dict[str, tuple[str, Callable[[int], float] | None]] = {
    "ring": ("16 pi^2 / (3 m^2)", lambda m: 16.0 * math.pi**2 / (3.0 * m**2)),
    "grid": ("O(1 / (m log2 m))", None),
    "torus": ("O(1 / m)", None),
    "exponential": (_EXPONENTIAL, lambda m: 2.0 / (1.0 + math.log2(m))),
    "exponential-directed": (_EXPONENTIAL, lambda m: 2.0 / (1.0 + math.log2(m))),
    "full": ("1", lambda _: 1.0),
    "star": ("O(1 / m^2)", None),
    "random-regular": ("O(1)", None),
}


def paper_formula(topology: str, size: int) -> PaperFormula | None:
    """The papers' spectral gap of `topology` with `size` peers; None for a graph they do not treat."""
    if topology not in _FORMULAS:
        return None
    name, formula = _FORMULAS[topology]
    return PaperFormula(name, None if formula is None else formula(size))


SPECTRUM_LIMIT = 2000
"""The largest size of which all eigenvalues are computed: that takes a dense matrix."""

_ROUNDING = 1e-12
_CANDIDATES = 64
_PATIENCE = 10_000
_SHRINK = 1e-3
_HALF = 0.5
_GENEROSITY = 1e-9
"""The relative excess over the threshold that counts as below: lambda = 0.1 takes 3 rounds, though 0.1**3 > 1e-3."""


@dataclass(frozen=True)
class Analysis:
    """The mixing speed and the cost of a topology.

    Attributes:
        topology: The graph's name.
        size: The number of peers.
        second_singular_value: lambda, the factor by which a period shrinks disagreement at least.
        spectral_gap: 1 - lambda: 1 is the exact average after a period, 0 no mixing at all.
        rounds: Gossip rounds until the worst disagreement has shrunk 1000-fold.
        degree_min: The fewest messages a peer sends in a round.
        degree_max: The most messages a peer sends in a round.
        bytes_per_round_factor: The mean number of messages that a peer sends in a round.
        paper_formula: The papers' gap of this graph; None if they have none.
        period: The rounds of a period: 1 for a graph that does not change.
        doubly_stochastic: Whether the average over the peers is kept.
        rounds_to_half: Gossip rounds until half of the worst disagreement is left.
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
    period: int = 1
    doubly_stochastic: bool = True
    rounds_to_half: int = 1

    @property
    def gap_per_message(self) -> float:
        """The gap of a period, divided by the messages that a peer sends in it on average."""
        return self.spectral_gap / (self.bytes_per_round_factor * self.period)

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
            "gap_per_message": self.gap_per_message,
            "period": self.period,
            "doubly_stochastic": self.doubly_stochastic,
            "rounds_to_half": self.rounds_to_half,
        }


def analyse(topology: AnyTopology) -> Analysis:
    """Compute how fast `topology` mixes and how many messages a round of it takes.

    The gap's relative error is below 1e-6 for any size.
    """
    period = topology.period
    if isinstance(topology, TimeVaryingTopology):
        left = _Products(topology)
        shrinkage = left.after(period)
        gap = 1.0 - shrinkage
        rounds, half = (left.first_below(target * (1.0 + _GENEROSITY)) for target in (_SHRINK, _HALF))
    else:
        gap = _gap(topology.mixing)
        shrinkage, rounds, half = 1.0 - gap, rounds_to_agree(gap), rounds_to_agree(gap, _HALF)
    sent = np.concatenate([topology.mixing_at(number).messages()[0] for number in range(period)])
    return Analysis(
        topology=topology.name,
        size=topology.size,
        second_singular_value=shrinkage,
        spectral_gap=gap,
        rounds=rounds,
        degree_min=int(sent.min()),
        degree_max=int(sent.max()),
        bytes_per_round_factor=float(sent.mean()),
        paper_formula=paper_formula(topology.name, topology.size),
        period=period,
        doubly_stochastic=topology.doubly_stochastic,
        rounds_to_half=half,
    )


def spectral_gap(topology: AnyTopology) -> float:
    """The spectral gap alone, as `analyse` finds it."""
    if isinstance(topology, TimeVaryingTopology):
        return 1.0 - _Products(topology).after(topology.period)
    return _gap(topology.mixing)


def disagreement(topology: AnyTopology, rounds: int) -> NDArray[np.float64]:
    """The worst disagreement left after 0, 1, ..., `rounds` rounds of gossip without training, (rounds + 1,)."""
    if isinstance(topology, TimeVaryingTopology):
        left = _Products(topology)
        return np.array([1.0] + [left.after(number) for number in range(1, rounds + 1)])
    shrinkage = max(0.0, 1.0 - _gap(topology.mixing))
    return shrinkage ** np.arange(rounds + 1, dtype=np.float64)


def spectrum(topology: AnyTopology) -> NDArray[np.float64]:
    """The share of each independent disagreement that one round, or a period, leaves, (size,).

    The singular values of W - J (of a period's product), the largest being lambda, after the 1 of the agreement.
    Where W is symmetric or circulant they are the absolute values of its eigenvalues.

    Raises:
        TopologyError: If it has more than `SPECTRUM_LIMIT` peers.
    """
    if topology.size > SPECTRUM_LIMIT:
        raise TopologyError(f"size {topology.size}: the spectrum is computed for at most {SPECTRUM_LIMIT} peers")
    product = np.eye(topology.size) - 1.0 / topology.size
    for number in range(topology.period):
        product = np.asarray(topology.mixing_at(number).sparse @ product)
    values = np.linalg.svd(product - product.mean(axis=0), compute_uv=False)
    return np.concatenate([[1.0], values[:-1]])


def rounds_to_agree(gap: float, left: float = _SHRINK) -> int:
    """The smallest t with (1 - gap)^t <= `left`."""
    if gap >= 1.0:
        return 1
    return max(1, math.ceil((math.log(left) + _GENEROSITY) / math.log1p(-gap)))


class _Products:
    """Products of a time-varying graph's matrices, never multiplied out."""

    def __init__(self, topology: TimeVaryingTopology) -> None:
        self._topology = topology
        self._mixings: list[MixingMatrix] = []

    def after(self, rounds: int) -> float:
        """||(I - J) W_(t-1) ... W_0 (I - J)|| for t = `rounds` >= 1; one minus it has a relative error below 1e-6.

        Norms no larger than rounding errors count as 0.
        """
        norm = self._norm(rounds)
        return norm if norm > _ROUNDING else 0.0

    def first_below(self, threshold: float) -> int:
        """The first number of rounds after which that norm is no more than the threshold.

        Raises:
            TopologyError: If ten thousand rounds do not get there.
        """
        left = np.random.default_rng(0).standard_normal((self._topology.size, 4))
        left -= left.mean(axis=0)
        start = np.linalg.norm(left, axis=0)
        for number in range(_PATIENCE):
            left = np.asarray(self._mixing(number).sparse @ left)
            # The share left of any start is no more than the norm, which is dear and need not be known as yet.
            shares = np.linalg.norm(left - left.mean(axis=0), axis=0) / start
            if float(shares.max()) <= threshold and self._norm(number + 1) <= threshold:
                return number + 1
        raise TopologyError(f"{self._topology.name}: {_PATIENCE} rounds do not shrink disagreement 1000-fold")

    def _norm(self, rounds: int) -> float:
        mixings = [self._mixing(number) for number in range(rounds)]
        if mixings[0].circulant:
            product = np.ones(self._topology.size, dtype=np.complex128)
            for mixing in mixings:
                product *= _transform(mixing)
            return float(np.abs(product[1:]).max())
        forward = [mixing.sparse for mixing in mixings]
        back = [mixing.transposed if self._topology.directed else mixing.sparse for mixing in reversed(mixings)]
        return largest_singular_value(lambda x: _through(forward, x), lambda x: _through(back, x), self._topology.size)

    def _mixing(self, number: int) -> MixingMatrix:
        while len(self._mixings) <= number:
            self._mixings.append(self._topology.mixing_at(len(self._mixings)))
        return self._mixings[number]


def _through(factors: list[Sparse], x: NDArray[np.float64]) -> NDArray[np.float64]:
    x = x - x.mean(axis=0)
    for factor in factors:
        x = np.asarray(factor @ x)
    return np.asarray(x - x.mean(axis=0))


def _gap(mixing: MixingMatrix) -> float:
    """The gap 1 - ||W - J|| of a W that is circulant or symmetric."""
    if mixing.circulant:
        return _circulant_gap(mixing)
    matrix = mixing.sparse
    own = matrix.diagonal()
    others = csr_array(matrix - diags_array(own))
    # The sum of the others, not 1 less the own weight: the gap may be far smaller than rounding.
    laplacian = csr_array(diags_array(np.asarray(others.sum(axis=1))) - others)
    gap = smallest(laplacian, laplacian=True)
    # The other end of the spectrum is above 2 min W_ii - 1 (Gershgorin).
    if 2.0 * float(own.min()) < gap:
        gap = min(gap, smallest(csr_array(matrix + diags_array(np.ones(mixing.size)))))
    return 1.0 if gap > 1.0 - _ROUNDING else gap


def _column(mixing: MixingMatrix) -> NDArray[np.float64]:
    """The first column of W, (size,)."""
    return np.asarray(mixing.sparse[:, [0]].toarray()).ravel()


def _transform(mixing: MixingMatrix) -> NDArray[np.complex128]:
    """All eigenvalues of a circulant W, (size,); the first belongs to the vectors in which all peers agree."""
    return np.fft.fft(_column(mixing))


def _circulant_gap(mixing: MixingMatrix) -> float:
    """The gap of a circulant W, exact to a few units in the last place.

    The transform finds the largest eigenvalue but leaves its distance from 1 to cancellation. That is summed again from
    terms that do not cancel: an eigenvalue is 1 - a - bi with a = 2 w sum sin^2(x / 2), b = w sum sin x.
    """
    sizes = np.abs(_transform(mixing)[1 : mixing.size // 2 + 1])  # the others are their conjugates
    largest = float(sizes.max())
    if largest < 0.5:
        return 1.0 - largest if largest > _ROUNDING else 1.0
    column = _column(mixing)
    offsets = 1 + np.flatnonzero(column[1:])
    frequencies = 1 + np.flatnonzero(sizes >= largest - _ROUNDING)[:_CANDIDATES, None]
    turns = frequencies * offsets % mixing.size  # exact, where the angle itself would be rounded
    angles = np.pi * np.minimum(turns, mixing.size - turns) / mixing.size
    a = 2.0 * float(column[offsets[0]]) * np.sum(np.sin(angles) ** 2, axis=1)
    b = float(column[offsets[0]]) * np.sum(np.sin(2.0 * angles) * np.where(2 * turns > mixing.size, -1.0, 1.0), axis=1)
    squared = 2.0 * a - a * a - b * b  # 1 - |eigenvalue|^2
    return float(np.min(squared / (1.0 + np.sqrt(np.maximum(0.0, 1.0 - squared)))))
