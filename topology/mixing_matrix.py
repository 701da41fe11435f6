"""Mixing matrices: sparse or circulant, checked to be doubly stochastic, and read by rank."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from dpeer.exceptions import TopologyError
from dpeer.topology.graph_types import CirculantGraph, Ranks
from dpeer.topology.neighborhood import Neighborhood, Row

TOLERANCE = 1e-12
"""How far from one a row or column of a mixing matrix may sum."""

# (In quotes: scipy before 1.15 cannot be subscripted while it runs.)
Sparse: TypeAlias = "csr_array[np.float64]"

_SHORT = 32
_CLOSE = 1e-12
_CANDIDATES = 64


class MixingMatrix:
    """A mixing matrix W: body j goes to i, with weight W[i, j], where that is not zero.

    Args:
        sparse: W, (size, size), without stored zeros; kept.
    """

    def __init__(self, sparse: Sparse) -> None:
        self._sparse = sparse

    @property
    def size(self) -> int:
        """The number of peers."""
        return int(self._sparse.shape[0])

    @cached_property
    def sparse(self) -> Sparse:
        """W, (size, size), read-only."""
        return _read_only(self._sparse)

    @cached_property
    def transposed(self) -> Sparse:
        """W^T, (size, size), read-only."""
        return _read_only(csr_array(self.sparse.T))

    @cached_property
    def _seen(self) -> dict[int, Neighborhood]:
        """What ranks that have been asked for see."""
        return {}

    def neighborhood(self, rank: int) -> Neighborhood:
        """The round as `rank` sees it."""
        if rank not in self._seen:
            self._seen[rank] = self._look(rank)
        return self._seen[rank]

    def _look(self, rank: int) -> Neighborhood:
        receiving = slice(*self.sparse.indptr[rank : rank + 2])
        sending = slice(*self.transposed.indptr[rank : rank + 2])
        senders = self.sparse.indices[receiving].tolist()
        weights = self.sparse.data[receiving].tolist()
        return Neighborhood(
            rank=rank,
            row=Row(rank, dict(zip(senders, weights, strict=True))),
            in_neighbors=tuple(other for other in senders if other != rank),
            out_neighbors=tuple(other for other in self.transposed.indices[sending].tolist() if other != rank),
        )

    def edges(self, *, directed: bool) -> list[list[int]]:
        """The edges: sorted [i, j] with i < j, or sorted [sender, receiver] when directed."""
        receiver, sender = self.sparse.nonzero()
        kept = sender != receiver if directed else sender < receiver
        edges = np.stack([sender[kept], receiver[kept]], axis=1)
        found: list[list[int]] = edges[np.lexsort((edges[:, 1], edges[:, 0]))].tolist()
        return found

    def messages(self) -> tuple[Ranks, Ranks]:
        """The numbers of messages that each peer sends, and receives, in a round, (size,) each."""
        receiver, sender = self.sparse.nonzero()
        others = receiver != sender
        return np.bincount(sender[others], minlength=self.size), np.bincount(receiver[others], minlength=self.size)


class CirculantMatrix(MixingMatrix):
    """The mixing matrix of a circulant graph; its entries are written down only where they are asked for.

    It is diagonal in the Fourier basis. Its eigenvalues are the discrete Fourier transform of its first column, so
    graphs of any size are analysed without writing it down (Gray, "Toeplitz and circulant matrices: a review", 2006,
    section 3.1).

    Args:
        graph: Which peers send to which.
        weight: The weight of each neighbor, at most 1 / (number of offsets); the rest of a row is on the diagonal.
    """

    def __init__(self, graph: CirculantGraph, weight: float) -> None:
        self.graph, self.weight = graph, weight

    @property
    def size(self) -> int:
        """The number of peers."""
        return self.graph.size

    @cached_property
    def sparse(self) -> Sparse:
        """W, (size, size), read-only."""
        size, offsets = self.size, self.graph.offsets
        senders = np.concatenate([[0], size - offsets])  # of rank 0; of rank i: i further on
        weights = np.concatenate([[1.0 - len(offsets) * self.weight], np.full(len(offsets), self.weight)])
        columns = (np.arange(size)[:, None] + senders) % size
        starts = np.arange(size + 1) * len(senders)
        matrix = csr_array((np.tile(weights, size), columns.ravel(), starts), shape=(size, size))
        matrix.eliminate_zeros()
        return _read_only(matrix)

    def messages(self) -> tuple[Ranks, Ranks]:
        """The numbers of messages that each peer sends, and receives, in a round, (size,) each."""
        every = np.full(self.size, len(self.graph.offsets))
        return every, every

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


def check_mixing(matrix: Sparse, *, symmetric: bool) -> None:
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


def check_stochastic(matrix: Sparse, *, columns: bool = True) -> None:
    """Refuse a matrix with a negative entry, or a row (or column) that does not sum to one within 1e-12.

    Raises:
        TopologyError: Naming the entry, row or column.
    """
    if matrix.data.min() < 0.0:
        raise TopologyError(f"mixing matrix: {matrix.data.min():g} is negative")
    for line, lines in (("row", matrix), ("column", csr_array(matrix.T)))[: 2 if columns else 1]:
        sums = row_sums(lines)
        worst = int(np.argmax(np.abs(sums - 1.0)))
        # "not within" rather than "beyond", so that a NaN is caught too
        if not abs(sums[worst] - 1.0) <= TOLERANCE:
            raise TopologyError(f"mixing matrix: {line} {worst} sums to {float(sums[worst])!r}, not 1")


def component_count(matrix: Sparse) -> int:
    """The number of groups of peers that reach each other through a matrix: 1 if it connects everyone."""
    parts, _ = connected_components(matrix, directed=True, connection="strong")
    return int(parts)


def row_sums(matrix: Sparse) -> NDArray[np.float64]:
    """The sum of every row, (size,), as if added up exactly: the rows of a star have as many entries as peers."""
    starts = matrix.indptr
    lengths = np.diff(starts)
    total, lost = np.zeros(matrix.shape[0]), np.zeros(matrix.shape[0])
    for place in range(min(_SHORT, int(lengths.max(initial=0)))):
        rows = np.flatnonzero(lengths > place)
        before, value = total[rows], matrix.data[starts[rows] + place]
        after = before + value
        kept = after - before
        lost[rows] += (before - (after - kept)) + (value - kept)  # the rounding error (Knuth's TwoSum)
        total[rows] = after
    total += lost
    for row in np.flatnonzero(lengths > _SHORT):
        total[row] = math.fsum(matrix.data[starts[row] : starts[row + 1]].tolist())
    return total


def _read_only(matrix: Sparse) -> Sparse:
    matrix.sort_indices()
    for array in (matrix.data, matrix.indices, matrix.indptr):
        array.setflags(write=False)
    return matrix
