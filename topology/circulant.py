"""Mixing matrices of graphs in which all peers do the same: everything about them follows from one row.

A circulant matrix is diagonal in the Fourier basis. Its eigenvalues are the discrete Fourier transform of its first
column, so that graphs of any size are analysed without writing a matrix down (Gray, "Toeplitz and circulant
matrices: a review", 2006, section 3.1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpeer.topology.edges import Steps

_CLOSE = 1e-12
_CANDIDATES = 64


@dataclass(frozen=True, eq=False)
class Circulant:
    """A mixing matrix: W[i, j] is `weight` where j sends to i, and the diagonal is what a row lacks to one.

    Attributes:
        steps: The graph: which peers send to which.
        weight: The weight of each neighbor; `weight` times the number of steps is at most one.
    """

    steps: Steps
    weight: float

    @property
    def size(self) -> int:
        """The number of peers."""
        return self.steps.size

    @cached_property
    def matrix(self) -> csr_array[np.float64]:
        """W, (size, size)."""
        size, steps = self.size, self.steps.steps
        senders = np.concatenate([[0], size - steps])  # of rank 0; of rank i: i further on
        weights = np.concatenate([[1.0 - len(steps) * self.weight], np.full(len(steps), self.weight)])
        columns = (np.arange(size)[:, None] + senders) % size
        starts = np.arange(size + 1) * len(senders)
        matrix = csr_array((np.tile(weights, size), columns.ravel(), starts), shape=(size, size))
        matrix.sort_indices()
        return matrix

    def eigenvalues(self) -> NDArray[np.complex128]:
        """All eigenvalues of W, (size,); the first belongs to the vectors in which all peers agree."""
        kernel = np.zeros(self.size)
        kernel[self.steps.steps] = self.weight
        kernel[0] = 1.0 - len(self.steps.steps) * self.weight
        return np.fft.fft(kernel)

    def gap(self) -> float:
        """1 - the largest |eigenvalue| but the first, exact to a few units in the last place of the gap itself.

        The transform tells which eigenvalue is the largest but leaves its distance from 1 to cancellation; that is
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
        turns = (frequency * self.steps.steps) % size  # exact, where the angle itself would be rounded
        angles = np.pi * np.minimum(turns, size - turns) / size
        a = 2.0 * self.weight * float(np.sum(np.sin(angles) ** 2))
        b = 0.0
        if self.steps.directed:
            b = self.weight * float(np.sum(np.sin(2.0 * angles) * np.where(2 * turns > size, -1.0, 1.0)))
        squared = 2.0 * a - a * a - b * b  # 1 - |eigenvalue|^2
        return squared / (1.0 + math.sqrt(max(0.0, 1.0 - squared)))
