"""What every mixing matrix must be: nonnegative, with rows (and columns) that sum to one, and connecting everyone."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from dpeer.exceptions import TopologyError

TOLERANCE = 1e-12
"""How far from one a row or column of a mixing matrix may sum."""

# (In quotes: scipy before 1.15 cannot be subscripted while it runs.)
Matrix: TypeAlias = "csr_array[np.float64]"

_SHORT = 32


def check(matrix: Matrix, *, symmetric: bool) -> None:
    """Refuse a matrix that would not average: the last gate of every fixed matrix built.

    Args:
        matrix: The mixing matrix, (size, size).
        symmetric: Whether W = W^T is promised (it is where the graph is undirected).

    Raises:
        TopologyError: If an entry is negative, a row or column does not sum to one within 1e-12, a promised
            symmetry is broken, or some peer's information cannot reach some other.
    """
    check_averages(matrix)
    if symmetric and abs(matrix - matrix.T).max() > TOLERANCE:
        raise TopologyError("mixing matrix: not symmetric, though the graph is undirected")
    parts = parts_of(matrix)
    if parts > 1:
        raise TopologyError(f"the graph is not connected: {parts} groups of peers would never agree")


def check_averages(matrix: Matrix, *, columns: bool = True) -> None:
    """Refuse a matrix with a negative entry, or a row (or column) that does not sum to one within 1e-12.

    Raises:
        TopologyError: Naming the entry, row or column.
    """
    if matrix.data.min() < 0.0:
        raise TopologyError(f"mixing matrix: {matrix.data.min():g} is negative")
    for axis, what in ((1, "row"), (0, "column"))[: 2 if columns else 1]:
        sums = row_sums(matrix if axis == 1 else csr_array(matrix.T))
        worst = int(np.argmax(np.abs(sums - 1.0)))
        # "not within" rather than "beyond", so that a NaN is caught too
        if not abs(sums[worst] - 1.0) <= TOLERANCE:
            raise TopologyError(f"mixing matrix: {what} {worst} sums to {sums[worst]!r}, not 1")


def parts_of(matrix: Matrix) -> int:
    """The number of groups of peers that reach each other through a matrix: 1 if it connects everyone."""
    parts, _ = connected_components(matrix, directed=True, connection="strong")
    return int(parts)


def row_sums(matrix: Matrix) -> NDArray[np.float64]:
    """The sum of every row, (size,), as if added up exactly: the rows of a star have as many entries as peers."""
    starts = matrix.indptr
    lengths = np.diff(starts)
    total, lost = np.zeros(matrix.shape[0]), np.zeros(matrix.shape[0])
    for place in range(min(_SHORT, int(lengths.max(initial=0)))):
        rows = np.flatnonzero(lengths > place)
        before, value = total[rows], matrix.data[starts[rows] + place]
        after = before + value
        kept = after - before
        lost[rows] += (before - (after - kept)) + (value - kept)  # what rounding took (Knuth's TwoSum)
        total[rows] = after
    total += lost
    for row in np.flatnonzero(lengths > _SHORT):
        total[row] = math.fsum(matrix.data[starts[row] : starts[row + 1]].tolist())
    return total
