"""Rounds until peers agree with `--overlap 1`, which mixes bodies one round late and by half."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from dpeer.topology.mixing_matrix import CirculantMatrix
from dpeer.topology.topologies import AnyTopology, TimeVaryingTopology

LIMIT = 256
"""The largest size: each round of a graph that changes takes dense products."""

THETA = 0.5
"""The share of the late difference that is mixed in; `dpeer.training.mixing.overlapped` has the step."""

_SHRINK = 1e-3 * (1 + 1e-9)
_MOST, _MOST_CHANGING = 200_000, 20_000
"""The most rounds that are simulated, of a fixed graph and of one that changes."""


def late_rounds(topology: AnyTopology) -> int | None:
    """The rounds of gossip until the worst disagreement is a thousandth, and stays so for another round.

    In gossip alone x(t+1) = x(t) + theta (W x(t-1) - x(t-1)), from x(1) = x(0). Along an eigenvector of a normal W that
    is a recursion of numbers; a graph that changes is simulated with matrices.

    Args:
        topology: A graph of at most `LIMIT` peers.

    Returns:
        The rounds; None where disagreement does not become as small.
    """
    if isinstance(topology, TimeVaryingTopology):
        return _simulated(topology)
    eigenvalues = _eigenvalues(topology)
    return _simulated(topology) if eigenvalues is None else _of_eigenvalues(eigenvalues)


def _eigenvalues(topology: AnyTopology) -> NDArray[np.complex128] | None:
    """The eigenvalues of a fixed, normal W but for that of the mean; None for another W."""
    matrix = topology.mixing_at(0)
    dense = matrix.sparse.toarray()
    center = np.eye(topology.size) - 1.0 / topology.size
    if isinstance(matrix, CirculantMatrix):
        found: NDArray[np.complex128] = np.fft.fft(dense[:, 0])[1:]
        return found
    if not np.allclose(dense, dense.T, rtol=0, atol=1e-12):
        return None
    # Along the mean the centered matrix has an eigenvalue of zero, which is put where it does not count.
    values = np.linalg.eigvalsh(center @ dense @ center + 2.0 * (np.eye(topology.size) - center))
    return values[values < 1.5].astype(np.complex128)


def _of_eigenvalues(eigenvalues: NDArray[np.complex128]) -> int | None:
    before = now = np.ones_like(eigenvalues)
    small = False
    for number in range(1, _MOST):
        before, now = now, now + THETA * (eigenvalues - 1.0) * before
        shrunk = bool(np.abs(now).max(initial=0.0) <= _SHRINK)
        if shrunk and small:
            return number - 1
        small = shrunk
    return None


def _simulated(topology: AnyTopology) -> int | None:
    size = topology.size
    center = np.eye(size) - 1.0 / size
    last = deque([center, center], maxlen=2)
    small = False
    for number in range(_MOST_CHANGING):
        before, now = last
        matrix = topology.mixing_at(number).sparse
        last.append(now + THETA * (matrix @ before - before))
        different = center @ last[-1]
        # The Frobenius norm is at most sqrt(size) times the spectral one, and quick.
        shrunk = bool(np.linalg.norm(different) <= _SHRINK * size**0.5 and np.linalg.norm(different, ord=2) <= _SHRINK)
        if shrunk and small:
            return number
        small = shrunk
    return None
