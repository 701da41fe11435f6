"""Ghost norms: lengths of per-example gradients of layers on sequences (tokens, patches) without the gradients.

Such a gradient is a sum over the places of an example. Where that takes less memory it is never made: its length
follows from products between places, and weighted sums over examples are one matrix product (Li et al., Large Language
Models Can Be Strong Differentially Private Learners, ICLR 2022).
"""

from __future__ import annotations

import torch
from torch import Tensor

from dpeer.training.dpsgd.gradient_factors import DenseGradients, ParameterGradients, row_norms
from dpeer.training.dpsgd.stable_matmul import one_thread, product

_ROUNDING = 1e-12
"""More than products of a few thousand places in float64 are off by, relative to what they are without cancelling."""


def sequence_gradients(left: Tensor, right: Tensor) -> ParameterGradients:
    """Gradients that are sums of outer products over places.

    Args:
        left: Shape (examples, places, rows).
        right: Shape (examples, places, columns).
    """
    if 2 * left.shape[1] ** 2 <= left.shape[2] * right.shape[2]:
        return SequenceGradients(left, right)
    return DenseGradients(product(left.transpose(1, 2), right).flatten(1))


class SequenceGradients:
    """Gradients that are sums of outer products over places, as a linear layer's are on a series.

    Args:
        left: Shape (examples, places, rows).
        right: Shape (examples, places, columns).
    """

    def __init__(self, left: Tensor, right: Tensor) -> None:
        self._left, self._right = left, right

    @one_thread()
    def squares(self) -> Tensor:
        """See `ParameterGradients`; never too small, also where the terms of many places all but cancel."""
        left, right = self._left.double(), self._right.double()
        found = product(left, left.transpose(1, 2)) * product(right, right.transpose(1, 2))
        terms = (row_norms(left.flatten(0, 1)) * row_norms(right.flatten(0, 1))).view(left.shape[:2]).sum(1)
        return found.sum((1, 2)).clamp(min=0.0) + _ROUNDING * terms.square()

    def drop(self, examples: Tensor) -> None:
        """See `ParameterGradients`."""
        self._left = self._left.masked_fill(examples[:, None, None], 0.0)
        self._right = self._right.masked_fill(examples[:, None, None], 0.0)

    def row(self, example: int) -> Tensor:
        """The gradient of one example, shape (rows times columns,)."""
        out: Tensor = (self._left[example].T @ self._right[example]).flatten()
        return out

    def sums(self, weights: Tensor) -> Tensor:
        """See `ParameterGradients`; added up in the precision of the weights."""
        return torch.stack([self._sum(own) for own in weights])

    def _sum(self, weights: Tensor) -> Tensor:
        here = weights != 0  # of the weights of groups most are zero
        left = (weights[here][:, None, None] * self._left[here].to(weights.dtype)).flatten(0, 1)
        out: Tensor = (left.T @ self._right[here].to(weights.dtype).flatten(0, 1)).flatten()
        return out


class EmbeddingGradients:
    """Gradients of an embedding: each example changes the rows that it has looked up.

    Args:
        places: Which rows, shape (examples, looked up).
        values: The gradients of what was looked up, shape (examples, looked up, width).
        rows: How many rows there are.
    """

    def __init__(self, places: Tensor, values: Tensor, rows: int) -> None:
        self._rows = rows
        examples, count, width = values.shape
        # What an example looks up several times is added: side by side, equal rows get one slot.
        places, order = places.sort(1)
        first = torch.ones_like(places)
        first[:, 1:] = places[:, 1:] != places[:, :-1]
        slots = first.cumsum(1) - 1
        self._places = torch.zeros_like(places).scatter_(1, slots, places)
        into = slots + torch.arange(examples, device=slots.device)[:, None] * count
        values = values.gather(1, order[:, :, None].expand(-1, -1, width)).reshape(-1, width)
        added = values.new_zeros(examples * count, width).index_add_(0, into.flatten(), values)
        self._values = added.view(examples, count, width)

    def squares(self) -> Tensor:
        """See `ParameterGradients`."""
        return row_norms(self._values.flatten(1)).square()

    def drop(self, examples: Tensor) -> None:
        """See `ParameterGradients`."""
        self._values = self._values.masked_fill(examples[:, None, None], 0.0)

    def row(self, example: int) -> Tensor:
        """The gradient of one example, shape (rows times width,)."""
        out = self._values.new_zeros(self._rows, self._values.shape[2])
        return out.index_add_(0, self._places[example], self._values[example]).flatten()

    def sums(self, weights: Tensor) -> Tensor:
        """See `ParameterGradients`; added up in the precision of the weights."""
        out = weights.new_zeros(len(weights), self._rows, self._values.shape[2])
        for own, into in zip(weights, out, strict=True):
            here = own != 0
            values = (own[here][:, None, None] * self._values[here].to(own.dtype)).flatten(0, 1)
            into.index_add_(0, self._places[here].flatten(), values)
        return out.flatten(1)
