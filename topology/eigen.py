"""Extreme eigenvalues of large sparse matrices, to a relative error far below 1e-6; never a large dense matrix.

Two methods complement each other. Lanczos iteration needs the wanted eigenvalue to stand apart from the next in
proportion to the whole spectrum, as it does in graphs that mix well. Where it does not (long lines and similar
graphs, which fall apart when few edges are cut), the factors of the sparse matrix stay small, and iterating with
its inverse, that is with the spectrum shifted and inverted, finds the eigenvalue in a few steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal
from scipy.sparse import csc_array, csr_array
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh, splu

from dpeer.exceptions import TopologyError

DENSE = 200
"""Up to this size the small dense problem is solved outright."""

STEPS = 4000
"""The most steps of a Lanczos iteration."""

_TOLERANCE = 1e-9
_BASIS = 40  # vectors in memory

Vector = NDArray[np.float64]
Product = Callable[[Vector], Vector]


def smallest(matrix: csr_array[np.float64], *, laplacian: bool = False, steps: int = STEPS) -> float:
    """The smallest eigenvalue of a symmetric positive semidefinite matrix.

    Args:
        matrix: (m, m).
        laplacian: Its rows sum to zero, it is connected, and the eigenvalue 0 of the constant vectors does not count.
        steps: The most steps of a Lanczos iteration.
    """
    if matrix.shape[0] <= DENSE:
        dense = np.asarray(matrix.toarray())
        return float(np.linalg.eigvalsh(dense + (_top(matrix) / len(dense) if laplacian else 0.0))[0])
    found = smallest_by_lanczos(matrix, laplacian=laplacian, steps=steps)
    return found if found is not None else smallest_by_inverse(matrix, laplacian=laplacian, steps=steps)


def smallest_by_lanczos(matrix: csr_array[np.float64], *, laplacian: bool, steps: int = STEPS) -> float | None:
    """See `smallest`; None where the iteration does not converge."""
    top = _top(matrix)

    def times(x: Vector) -> Vector:
        return np.asarray(matrix @ x) + (top * x.mean() if laplacian else 0.0)  # agreement is moved to the other end

    return lanczos(times, matrix.shape[0], which="smallest", steps=steps)


def smallest_by_inverse(matrix: csr_array[np.float64], *, laplacian: bool, steps: int = STEPS) -> float:
    """See `smallest`; by the largest eigenvalue of the inverse.

    A Laplacian has no inverse, but one peer's value fixed at zero makes it one: the solution is right up to a
    constant, which is taken off. The matrix that is left is an M-matrix, whose factors need no pivoting.

    Raises:
        TopologyError: If the iteration does not converge.
    """
    kept = csc_array(matrix[1:, 1:] if laplacian else matrix)
    factors = splu(kept, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})

    def solve(x: Vector) -> Vector:
        if not laplacian:
            return factors.solve(x)
        y = np.concatenate([[0.0], factors.solve((x - x.mean())[1:])])
        return np.asarray(y - y.mean())

    found = lanczos(solve, matrix.shape[0], which="largest", steps=steps)
    if found is None:
        raise TopologyError(f"size {matrix.shape[0]}: the spectral gap did not converge")
    return 1.0 / found


def largest_singular_value(times: Product, back: Product, size: int) -> float:
    """The spectral norm of a matrix A that is known by its products only; 1 - ||A|| has a relative error below 1e-6.

    Args:
        times: x -> A x, x being (m,) or (m, columns).
        back: x -> A^T x.
        size: m, A being (m, m).

    Raises:
        TopologyError: If the iteration does not converge; random graphs have not been seen to do that.
    """
    if size <= DENSE:
        return float(np.linalg.norm(times(np.eye(size)), 2))
    square = LinearOperator((size, size), matvec=lambda x: back(times(x)), dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(size)  # anywhere, but always at the same place
    try:
        (found,) = eigsh(square, k=1, which="LA", v0=start, ncv=_BASIS, maxiter=STEPS, return_eigenvectors=False)
    except ArpackError as error:
        raise TopologyError(f"size {size}: the norm of a product of mixing matrices did not converge") from error
    return math.sqrt(max(0.0, float(found)))


def lanczos(times: Product, size: int, *, which: str, steps: int = STEPS) -> float | None:
    """The smallest or largest eigenvalue of a symmetric matrix, or None where it does not converge.

    Plain Lanczos iteration (Paige 1971), three vectors in memory: lost orthogonality repeats eigenvalues that have
    been found and does not move the outermost.

    Args:
        times: x -> A x.
        size: m, A being (m, m).
        which: "smallest" or "largest".
        steps: The most steps.
    """
    # Anywhere, but always at the same place.
    vector = np.random.default_rng(0).standard_normal(size)
    vector /= math.sqrt(_dot(vector, vector))
    before = np.zeros(size)
    diagonal: list[float] = []
    beside: list[float] = []
    look = 8
    for step in range(1, steps + 1):
        product = times(vector)
        if beside:
            product = product - beside[-1] * before
        diagonal.append(_dot(vector, product))
        product = product - diagonal[-1] * vector
        length = math.sqrt(_dot(product, product))
        if step == look or length < 1e-14:
            look += 4 + look // 8  # looking takes time of its own, which grows with the steps
            chosen = 0 if which == "smallest" else step - 1
            values, vectors = eigh_tridiagonal(diagonal, beside, select="i", select_range=(chosen, chosen))
            value = float(values[0])
            residual = length * abs(float(vectors[-1, 0]))  # which bounds the error
            if residual <= max(_TOLERANCE * abs(value), 1e-300):
                return value
        if length == 0.0:
            return None
        beside.append(length)
        before, vector = vector, product / length
    return None


def _dot(x: Vector, y: Vector) -> float:
    """x^T y, without the threads of a BLAS: they gain little here, and on a busy machine wait for one another."""
    return float(np.einsum("i,i->", x, y))


def _top(matrix: csr_array[np.float64]) -> float:
    """A bound above every eigenvalue of a matrix whose diagonal dominates."""
    return 2.0 * float(matrix.diagonal().max(initial=0.0)) + 1.0
