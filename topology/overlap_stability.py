"""Stability of mixing one round late: which mixing matrices damp every disagreement then, and which may amplify one.

With W's eigenvalue l and local training that scales a disagreement by r, x(t+1) = r x(t) - theta (1 - l) r x(t-1) (the
step of `dpeer.training.mixing.overlapped`). It is stable if no root of mu^2 - r mu + theta (1 - l) r is outside of the
unit circle. Real eigenvalues in (-1, 1] are for r from -0.5 to 1.5; complex ones, of directed graphs, need not be.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpeer.topology.mixing_matrix import CirculantMatrix, MixingMatrix
from dpeer.topology.topologies import AnyTopology

THETA = 0.5
"""The share of a late difference that is mixed in."""

_TRAINING = (1.0, 0.5, -0.5)
"""By how much local training may scale a disagreement."""

_SAME = 1e-9


def stable_late(topology: AnyTopology) -> bool:
    """Whether mixing one round late damps what peers disagree about, on every graph of the topology's period."""
    return all(_stable(topology.mixing_at(number)) for number in range(topology.period))


def _stable(mixing: MixingMatrix | CirculantMatrix) -> bool:
    matrix = mixing.sparse
    if abs(matrix - matrix.T).max() <= _SAME:
        return True
    found = mixing.eigenvalues() if isinstance(mixing, CirculantMatrix) else np.linalg.eigvals(matrix.toarray())
    return all(_largest_root(found, scale) <= 1.0 + _SAME for scale in _TRAINING)


def _largest_root(eigenvalues: NDArray[np.complex128], scale: float) -> float:
    """The size of the largest root over all eigenvalues."""
    root = np.sqrt(scale**2 - 4.0 * THETA * (1.0 - eigenvalues.astype(np.complex128)) * scale)
    return float(np.abs(np.stack([scale + root, scale - root]) / 2.0).max())
