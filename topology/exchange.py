"""A mixing matrix as receivers and senders see it: a receiver's row, and the ranks that a peer sends to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpeer.topology.circulant import Circulant
from dpeer.topology.neighborhood import Neighborhood, Row


class Exchange:
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

    def around(self, rank: int) -> Neighborhood:
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


def messages(mixing: Circulant | csr_array[np.float64]) -> NDArray[np.int64]:
    """How many messages each peer sends in a round, (size,)."""
    if isinstance(mixing, Circulant):
        return np.full(mixing.size, len(mixing.steps.steps))
    receiver, sender = mixing.nonzero()
    return np.bincount(sender[receiver != sender], minlength=mixing.shape[0])


def _entries(matrix: csr_array[np.float64], row: int) -> dict[int, float]:
    """The nonzero entries of one row, column -> value, in column order."""
    span = slice(matrix.indptr[row], matrix.indptr[row + 1])
    pairs = zip(matrix.indices[span].tolist(), matrix.data[span].tolist(), strict=True)
    return {column: value for column, value in pairs if value != 0.0}
