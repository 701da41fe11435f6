"""PowerSGD codec: matrices of changes as products of two thin ones, by subspace iteration.

Vogels, Karimireddy and Jaggi, PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization, NeurIPS
2019, Algorithm 1, as the part of a change that `dpeer.training.codecs.contraction` sends. For a change M of a matrix,

    P <- orthonormalize(M Q),    Q <- M^T P,    C(M) = P Q^T = P P^T M

which is M projected, so ||M - C(M)|| <= ||M||. The paper begins with the Q of the step before. Here M no longer has
what was large in it a round ago, since that has been released. So Q is drawn anew each round, and iterated twice.
Convolutions are matrices of their outputs and all else. Vectors, and matrices that no such product makes smaller,
travel whole. All values travel as bfloat16: what rounding takes away stays with the peer, and travels later.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dpeer.training import payload
from dpeer.training.codecs.base import Undecodable
from dpeer.training.codecs.contraction import Contraction
from dpeer.training.codecs.sizes import HEADER, Shape, as_matrix, low_rank, low_rank_values
from dpeer.training.payload import Buffer
from dpeer.training.randomness import Purpose, stream

STEP = 1.5
"""The default consensus step over R / min(n, m), of the matrix for which that is least. With twice as much random
bodies of 16 peers move apart."""

_ITERATIONS = 2
_ROWS_OF = 2**15
"""Values of the rows to which products are added at once: they stay in a core's cache."""

_LEAST = 1e-30
"""A shorter vector has no direction."""


@dataclass(frozen=True)
class _Part:
    """A parameter: its place in the vector, its shape as a matrix, and the rank that travels; 0 for all of it."""

    here: slice
    rows: int
    columns: int
    rank: int


class PowerSGD(Contraction):
    """Sends each matrix of a change as two thin matrices.

    Args:
        start: See `Contraction`.
        rank: This peer.
        shapes: The shapes of the parameters, in their order.
        low: The rank of what travels.
        step: The consensus step; None for `STEP` times the least share of a matrix's rank, at most 0.5.
        seed: The federation's seed, from which the iterations begin.
    """

    def __init__(
        self, start: Tensor, rank: int, shapes: Sequence[Shape], low: int, step: float | None = None, *, seed: int = 0
    ) -> None:
        self._parts: list[_Part] = []
        first = 0
        for shape in shapes:
            here = slice(first, first := first + math.prod(shape))
            self._parts.append(_Part(here, *as_matrix(shape), low_rank(shape, low)))
        shares = [part.rank / min(part.rows, part.columns) for part in self._parts if part.rank]
        super().__init__(start, rank, min([0.5, *(STEP * share for share in shares)]) if step is None else step)
        self._sent, self._seed = sum(low_rank_values(shape, low) for shape in shapes), seed

    @property
    def usual_bytes(self) -> int:
        """Header and two bytes a value of the thin matrices."""
        return HEADER + 2 * self._sent

    def compress(self, change: Tensor, number: int) -> list[Buffer]:
        """The parameters in their order, bfloat16: P, then Q, by rows; or all values."""
        found = [change[:0]]
        for index, part in enumerate(self._parts):
            values = change[part.here]
            if part.rank:
                generator = stream(self._seed, Purpose.COMPRESS, self.rank, number, index)
                drawn = generator.standard_normal((part.columns, part.rank), dtype=np.float32)
                found += thin(values.view(part.rows, part.columns), torch.from_numpy(drawn))
            else:
                found.append(values)
        return [payload.encode(torch.cat([one.reshape(-1) for one in found]), "bfloat16")]

    def expand(self, known: Tensor, buffers: Sequence[Buffer]) -> Tensor:
        """See `Contraction.expand`."""
        (coded,) = buffers
        vectors = payload.views([coded], self._sent, "bfloat16")
        if vectors is None:
            raise Undecodable("wrong-size")
        released = known.clone()
        pieces = self._pieces(torch.cat([known[:0], *(vector.float() for vector in vectors)]))
        for part in self._parts:
            there = released[part.here].view(part.rows, part.columns)
            if part.rank:
                p = next(pieces).view(part.rows, part.rank)
                add_products(there, p, next(pieces).view(part.columns, part.rank))
            else:
                there += next(pieces).view(part.rows, part.columns)
        return released

    def _pieces(self, sent: Tensor) -> Iterator[Tensor]:
        """What `compress` has put one after the other."""
        sizes = []
        for part in self._parts:
            thin_ones = [part.rows * part.rank, part.columns * part.rank]
            sizes += thin_ones if part.rank else [part.rows * part.columns]
        return iter(torch.split(sent, sizes))


def add_products(matrix: Tensor, p: Tensor, q: Tensor) -> None:
    """Add P Q^T to a matrix: the same bits on every host, for all who know a sum must have the same.

    A library multiplies matrices in an order that suits the processor. Here the products of one column after the other
    are added. Each is exact in float32, so it does not matter whether it is rounded before it is added.

    Args:
        matrix: Shape (rows, columns).
        p: Shape (rows, rank); values that bfloat16 has.
        q: Shape (columns, rank); the same.
    """
    rows = max(1, _ROWS_OF // matrix.shape[1])
    left, right = p.T.contiguous(), q.T.contiguous()
    for some, columns in zip(torch.split(matrix, rows), torch.split(left, rows, 1), strict=True):
        for column, values in zip(columns, right, strict=True):
            some.addr_(column, values)


def thin(matrix: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """P and Q of a matrix, (rows, rank) and (columns, rank): P is orthonormal to the precision of bfloat16.

    Args:
        matrix: Shape (rows, columns); only finite values.
        q: Where the iterations begin, shape (columns, rank).
    """
    p = q
    for _ in range(_ITERATIONS):
        q = q / q.norm(dim=0).clamp(min=_LEAST)
        # Few rows times a matrix take a fraction of the time of a matrix times few columns.
        p = torch.linalg.qr((q.T.contiguous() @ matrix.T).T).Q.bfloat16().float()
        q = (p.T.contiguous() @ matrix).T
    return p, q
