"""Mixing matrices: sparse or circulant, checked to be doubly stochastic, and read by rank.

A circulant matrix is diagonal in the Fourier basis. Its eigenvalues are the discrete Fourier transform of its first
column, so that graphs of any size are analysed without writing a matrix down (Gray, "Toeplitz and circulant
matrices: a review", 2006, section 3.1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from dpeer.exceptions import TopologyError
from dpeer.topology.graph_types import CirculantGraph
from dpeer.topology.neighborhood import Neighborhood, Row

_CLOSE = 1e-12
_CANDIDATES = 64


@dataclass(frozen=True, eq=False)
class CirculantMatrix:
    """A mixing matrix: W[i, j] is `weight` where j sends to i, and the diagonal is what a row lacks to one.

    Attributes:
        graph: Which peers send to which.
        weight: The weight of each neighbor; `weight` times the number of offsets is at most one.
    """

    graph: CirculantGraph
    weight: float

    @property
    def size(self) -> int:
        """The number of peers."""
        return self.graph.size

    @cached_property
    def matrix(self) -> csr_array[np.float64]:
        """W, (size, size)."""
        size, offsets = self.size, self.graph.offsets
        senders = np.concatenate([[0], size - offsets])  # of rank 0; of rank i: i further on
        weights = np.concatenate([[1.0 - len(offsets) * self.weight], np.full(len(offsets), self.weight)])
        columns = (np.arange(size)[:, None] + senders) % size
        starts = np.arange(size + 1) * len(senders)
        matrix = csr_array((np.tile(weights, size), columns.ravel(), starts), shape=(size, size))
        matrix.sort_indices()
        return matrix

    def eigenvalues(self) -> NDArray[np.complex128]:
        """All eigenvalues of W, (size,); the first belongs to the vectors in which all peers agree."""
        kernel = np.zeros(self.size)
        kernel[self.graph.offsets] = self.weight
        kernel[0] = 1.0 - len(self.graph.offsets) * self.weight
        return np.fft.fft(kernel)

    def gap(self) -> float:
        """1 - the largest |eigenvalue| but the first, exact to a few units in the last place of the gap itself.

        The transform finds the largest eigenvalue but leaves its distance from 1 to cancellation; that is
        summed again from terms that do not cancel.
        """
        sizes = np.abs(self.eigenvalues()[1 : self.size // 2 + 1])  # the others are their conjugates
        largest = float(sizes.max(initial=0.0))
        if largest < 0.5:
            return 1.0 - largest if largest > _CLOSE else 1.0
        frequencies = 1 + np.flatnonzero(sizes >= largest - _CLOSE)[:_CANDIDATES]
        return min(self._distance_from_one(int(frequency)) for frequency in frequencies)

    def _distance_from_one(self, frequency: int) -> float:
        """1 - |eigenvalue|, the eigenvalue being 1 - a - bi with a = 2 w sum sin^2(x / 2), b = w sum sin x."""
        size = self.size
        turns = (frequency * self.graph.offsets) % size  # exact, where the angle itself would be rounded
        angles = np.pi * np.minimum(turns, size - turns) / size
        a = 2.0 * self.weight * float(np.sum(np.sin(angles) ** 2))
        b = 0.0
        if self.graph.directed:
            b = self.weight * float(np.sum(np.sin(2.0 * angles) * np.where(2 * turns > size, -1.0, 1.0)))
        squared = 2.0 * a - a * a - b * b  # 1 - |eigenvalue|^2
        return squared / (1.0 + math.sqrt(max(0.0, 1.0 - squared)))


TOLERANCE = 1e-12
"""How far from one a row or column of a mixing matrix may sum."""

# (In quotes: scipy before 1.15 cannot be subscripted while it runs.)
Matrix: TypeAlias = "csr_array[np.float64]"

_SHORT = 32


def check_mixing(matrix: Matrix, *, symmetric: bool) -> None:
    """Refuse a matrix that would not average: the last gate of every fixed matrix built.

    Args:
        matrix: The mixing matrix, (size, size).
        symmetric: Whether W = W^T is promised (it is where the graph is undirected).

    Raises:
        TopologyError: If an entry is negative, a row or column does not sum to one within 1e-12, a promised
            symmetry is broken, or some peer's information cannot reach some other.
    """
    check_stochastic(matrix)
    if symmetric and abs(matrix - matrix.T).max() > TOLERANCE:
        raise TopologyError("mixing matrix: not symmetric, though the graph is undirected")
    parts = component_count(matrix)
    if parts > 1:
        raise TopologyError(f"the graph is not connected: {parts} groups of peers would never agree")


def check_stochastic(matrix: Matrix, *, columns: bool = True) -> None:
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


def component_count(matrix: Matrix) -> int:
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


class Neighborhoods:
    """What is exchanged in a round with the mixing matrix W: body j goes to i where W[i, j] is not zero.

    Args:
        matrix: W, (size, size); kept, and made read-only.
    """

    def __init__(self, matrix: csr_array[np.float64]) -> None:
        self.matrix = matrix
        self._columns = csr_array(matrix.T)
        self._columns.sort_indices()
        for kept in (self.matrix, self._columns):
            for array in (kept.data, kept.indices, kept.indptr):
                array.setflags(write=False)

    def of(self, rank: int) -> Neighborhood:
        """The round as `rank` sees it."""
        row = _entries(self.matrix, rank)
        return Neighborhood(
            rank=rank,
            row=Row(rank, row),
            in_neighbors=tuple(other for other in row if other != rank),
            out_neighbors=tuple(other for other in _entries(self._columns, rank) if other != rank),
        )

    def edges(self, *, directed: bool) -> list[list[int]]:
        """The edges: sorted [i, j] with i < j, or sorted [sender, receiver] when directed."""
        receiver, sender = self.matrix.nonzero()
        kept = sender != receiver if directed else sender < receiver
        edges = np.stack([sender[kept], receiver[kept]], axis=1)
        found: list[list[int]] = edges[np.lexsort((edges[:, 1], edges[:, 0]))].tolist()
        return found


def as_sparse(mixing: CirculantMatrix | Matrix) -> Matrix:
    """The mixing matrix as a sparse matrix, also where it is a circulant."""
    return mixing.matrix if isinstance(mixing, CirculantMatrix) else mixing


def messages(mixing: CirculantMatrix | csr_array[np.float64]) -> NDArray[np.int64]:
    """How many messages each peer sends in a round, (size,)."""
    if isinstance(mixing, CirculantMatrix):
        return np.full(mixing.size, len(mixing.graph.offsets))
    receiver, sender = mixing.nonzero()
    return np.bincount(sender[receiver != sender], minlength=mixing.shape[0])


def _entries(matrix: csr_array[np.float64], row: int) -> dict[int, float]:
    """The nonzero entries of one row, column -> value, in column order."""
    span = slice(matrix.indptr[row], matrix.indptr[row + 1])
    pairs = zip(matrix.indices[span].tolist(), matrix.data[span].tolist(), strict=True)
    return {column: value for column, value in pairs if value != 0.0}
