"""Contraction of the disagreement by products of mixing matrices, for graphs that change.

The disagreement is the norm ||(I - J) W_(t-1) ... W_0 (I - J)||; values no larger than rounding errors count as 0.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpeer.exceptions import TopologyError
from dpeer.topology.eigen import largest_singular_value
from dpeer.topology.mixing_matrix import CirculantMatrix, Matrix, as_sparse
from dpeer.topology.topologies import TimeVaryingTopology

_ROUNDING = 1e-12
_PATIENCE = 10_000


class Contraction(Protocol):
    """The disagreement left, as that norm, after any number of rounds."""

    def after(self, rounds: int) -> float:
        """The norm after `rounds` rounds, so exact that one minus it has a relative error below 1e-6."""
        ...

    def first_below(self, threshold: float) -> int:
        """The first number of rounds after which the norm is no more than the threshold.

        Raises:
            TopologyError: If ten thousand rounds do not get there.
        """
        ...


def contraction(topology: TimeVaryingTopology) -> Contraction:
    """How the disagreement of a topology shrinks; the matrices looked at are kept."""
    return (
        _CirculantProducts(topology)
        if isinstance(topology.mixing_at(0), CirculantMatrix)
        else _MatrixProducts(topology)
    )


class _CirculantProducts:
    """Products of circulants, whose eigenvalues are the products of theirs."""

    def __init__(self, topology: TimeVaryingTopology) -> None:
        self._topology = topology
        self._eigenvalues: list[NDArray[np.complex128]] = []

    def after(self, rounds: int) -> float:
        product = np.ones(self._topology.size - 1, dtype=np.complex128)
        for number in range(rounds):
            product *= self._of(number)
        return _rounded(float(np.abs(product).max()))

    def first_below(self, threshold: float) -> int:
        product = np.ones(self._topology.size - 1, dtype=np.complex128)
        for number in range(_PATIENCE):
            product *= self._of(number)
            if float(np.abs(product).max()) <= threshold:
                return number + 1
        raise _no_contraction(self._topology)

    def _of(self, number: int) -> NDArray[np.complex128]:
        number %= self._topology.period  # graphs in which all do the same are the only ones that repeat
        while len(self._eigenvalues) <= number:
            mixing = self._topology.mixing_at(len(self._eigenvalues))
            assert isinstance(mixing, CirculantMatrix)
            self._eigenvalues.append(mixing.eigenvalues()[1:])
        return self._eigenvalues[number]


class _MatrixProducts:
    """Products of other matrices, never multiplied out."""

    def __init__(self, topology: TimeVaryingTopology) -> None:
        self._topology = topology
        self._matrices: list[Matrix] = []
        self._transposed: list[Matrix] = []

    def after(self, rounds: int) -> float:
        return _rounded(self._norm(rounds))

    def first_below(self, threshold: float) -> int:
        left = np.random.default_rng(0).standard_normal((self._topology.size, 4))
        left -= left.mean(axis=0)
        start = np.linalg.norm(left, axis=0)
        for number in range(_PATIENCE):
            self._draw(number + 1)
            left = np.asarray(self._matrices[number] @ left)
            # The share left of any start is no more than the norm, which is dear and need not be known as yet.
            shares = np.linalg.norm(left - left.mean(axis=0), axis=0) / start
            if float(shares.max()) <= threshold and self._norm(number + 1, threshold) <= threshold:
                return number + 1
        raise _no_contraction(self._topology)

    def _norm(self, rounds: int, threshold: float | None = None) -> float:
        self._draw(rounds)
        return largest_singular_value(
            lambda x: _through(self._matrices[:rounds], x),
            lambda x: _through(self._transposed[:rounds][::-1], x),
            self._topology.size,
            threshold=threshold,
        )

    def _draw(self, rounds: int) -> None:
        while len(self._matrices) < rounds:
            matrix = as_sparse(self._topology.mixing_at(len(self._matrices)))
            self._matrices.append(matrix)
            self._transposed.append(csr_array(matrix.T) if self._topology.directed else matrix)


def _through(factors: list[Matrix], x: NDArray[np.float64]) -> NDArray[np.float64]:
    x = x - x.mean(axis=0)
    for factor in factors:
        x = np.asarray(factor @ x)
    return np.asarray(x - x.mean(axis=0))


def _rounded(norm: float) -> float:
    return norm if norm > _ROUNDING else 0.0


def _no_contraction(topology: TimeVaryingTopology) -> TopologyError:
    return TopologyError(f"{topology.name}: {_PATIENCE} rounds do not shrink disagreement 1000-fold")
