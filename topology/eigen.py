"""Extreme eigenvalues of mixing matrices: of the dense matrix up to some two thousand peers, by iteration beyond."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh, svds

from dpeer.exceptions import TopologyError

DENSE = 2048
"""The largest size whose dense matrix is solved."""

# (In quotes: scipy before 1.15 cannot be subscripted while it runs.)
Sparse: TypeAlias = "csr_array[np.float64]"
Vector = NDArray[np.float64]

Agreement: TypeAlias = "Vector | None"
"""The unit vector along which all peers agree, (m,); None for the constant one."""


def smallest(matrix: Sparse, *, laplacian: bool = False, agreement: Agreement = None) -> float:
    """The smallest eigenvalue of a symmetric positive semidefinite matrix, (m, m), with a relative error below 1e-6.

    Of a connected Laplacian the eigenvalue 0, whose vector is that of agreement, does not count.
    """
    size = matrix.shape[0]
    moved = 2.0 * float(matrix.diagonal().max()) + 1.0 if laplacian else 0.0  # beyond all other eigenvalues
    if size <= DENSE:
        apart = moved / size if agreement is None else moved * np.outer(agreement, agreement)
        return float(np.linalg.eigvalsh(matrix.toarray() + apart)[0])
    times = LinearOperator((size, size), matvec=lambda x: matrix @ x + moved * agreed(x, agreement), dtype=np.float64)
    how: dict[str, Any] = {"v0": _start(size), "return_eigenvectors": False}
    try:
        return float(eigsh(times, k=1, which="SA", ncv=60, maxiter=100, tol=1e-9, **how)[0])
    except ArpackNoConvergence:
        # Few cuts part such a graph, so its factors stay small, and the inverse finds the eigenvalue in a few steps.
        return float(max(eigsh(matrix.tocsc(), k=1 + laplacian, which="LM", sigma=-1e-10, **how)))


def norm_of_product(matrices: Sequence[Sparse], agreement: Agreement = None) -> float:
    """||(I - J) W_(t-1) ... W_0 (I - J)||, J projecting onto agreement; one minus it has an error below 1e-6.

    Raises:
        TopologyError: The iteration does not converge; random graphs have not been seen to do that.
    """
    size = matrices[0].shape[0]
    if size <= DENSE:
        return float(np.linalg.norm(_through(matrices, np.eye(size), agreement), 2))
    back = [matrix.T for matrix in reversed(matrices)]
    product = LinearOperator(
        (size, size),
        matvec=lambda x: _through(matrices, x, agreement),
        rmatvec=lambda x: _through(back, x, agreement),
        dtype=np.float64,
    )
    try:
        return float(svds(product, k=1, v0=_start(size), ncv=40, return_singular_vectors=False)[0])
    except ArpackNoConvergence as error:
        raise TopologyError(f"size {size}: the norm of a product of mixing matrices did not converge") from error


def agreed(x: Vector, agreement: Agreement) -> Any:
    """The part of vectors, (m,) or (m, n), along agreement; it broadcasts to their shape."""
    return x.mean(axis=0) if agreement is None else np.multiply.outer(agreement, agreement @ x)


def _through(factors: Sequence[Any], x: Vector, agreement: Agreement) -> Vector:
    x = x - agreed(x, agreement)
    for factor in factors:
        x = factor @ x
    return np.asarray(x - agreed(x, agreement))


def _start(size: int) -> Vector:
    """Where an iteration begins: anywhere, but always there."""
    return np.random.default_rng(0).standard_normal(size)
