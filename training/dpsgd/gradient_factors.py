"""Per-example gradients, dense or as factors whose product is never in memory; and their norms and sums.

Those of a layer on a sequence (tokens, patches) are sums over the places of an example. Where that takes less memory
they are never made: their lengths (ghost norms) follow from products between places, and weighted sums over examples
are one matrix product (Li et al., Large Language Models Can Be Strong Differentially Private Learners, ICLR 2022).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from dpeer.training.dpsgd.stable_matmul import one_thread, product


class ParameterGradients(ABC):
    """The gradients of one parameter (or several that lie side by side), one for each example.

    Args:
        factors: Tensors of which the gradients are made, shape (examples, ...).
    """

    def __init__(self, *factors: Tensor) -> None:
        self._factors = factors

    def squares(self) -> Tensor:
        """The squared length of each gradient, shape (examples,); here of the one factor's."""
        return row_norms(self._factors[0].flatten(1)).square()

    @abstractmethod
    def row(self, example: int) -> Tensor:
        """The gradient of one example, shape (values,)."""

    @abstractmethod
    def sums(self, weights: Tensor) -> Tensor:
        """Weighted sums of the gradients, shape (sums, values), added up in the precision of the weights.

        Args:
            weights: Shape (sums, examples).
        """

    def drop(self, examples: Tensor) -> None:
        """Make the gradients of these examples zero, whatever they are; a mask, shape (examples,)."""
        self._factors = tuple(
            factor.masked_fill(examples.view(-1, *[1] * (factor.ndim - 1)), 0.0) for factor in self._factors
        )


_AT_ONCE = 1024
"""Values of each gradient that are there in float64 at a time: few enough for a processor's cache."""


def row_norms(rows: Tensor) -> Tensor:
    """The length of each row, shape (rows,), float64.

    In float32 the squares of millions of values add up to too little, by more than what clipping leaves for rounding;
    and a length above 1.8e19 would be infinite.
    """
    squares = torch.zeros(len(rows), dtype=torch.float64, device=rows.device)
    for some in torch.split(rows, _AT_ONCE, dim=1):
        squares += torch.linalg.vector_norm(some.double(), dim=1).square_()
    return squares.sqrt_()


class DenseGradients(ParameterGradients):
    """Gradients as a matrix with a row for each example, the one factor."""

    def row(self, example: int) -> Tensor:
        """See `ParameterGradients`."""
        return self._factors[0][example]

    def sums(self, weights: Tensor) -> Tensor:
        """See `ParameterGradients`."""
        some = torch.split(self._factors[0], _AT_ONCE, dim=1)
        return torch.cat([weights @ values.to(weights.dtype) for values in some], dim=1)


@dataclass
class ExampleGradients:
    """Losses and gradients that a backend computed for some examples.

    Attributes:
        losses: Shape (examples,).
        parts: Gradients, each with the place of its values in the vector of what is trained; zero elsewhere.
        examples: The number of examples.
        count: How many values are trained.
    """

    losses: Tensor
    parts: list[tuple[slice, ParameterGradients]]
    examples: int
    count: int

    @one_thread()
    def norms(self) -> Tensor:
        """The length of each example's gradient over all parameters, shape (examples,), float64."""
        total = torch.zeros(self.examples, dtype=torch.float64, device=self.losses.device)
        for _, part in self.parts:
            total += part.squares()
        return total.sqrt_()

    def drop(self, examples: Tensor) -> None:
        """Make the gradients of these examples zero; a mask, shape (examples,)."""
        for _, part in self.parts:
            part.drop(examples)

    def row(self, example: int) -> Tensor:
        """The gradient of one example, shape (count,), float32."""
        out = torch.zeros(self.count, dtype=torch.float32, device=self.losses.device)
        for place, part in self.parts:
            out[place] += part.row(example)
        return out

    def sums(self, weights: Tensor) -> Tensor:
        """Weighted sums of gradients, shape (sums, count); weights and precision as in `ParameterGradients.sums`."""
        out = torch.zeros(len(weights), self.count, dtype=weights.dtype, device=self.losses.device)
        for place, part in self.parts:
            out[:, place] += part.sums(weights)
        return out


_ROUNDING = 1e-12
"""More than products of a few thousand places in float64 are off by, relative to what they are without cancelling."""


def sequence_gradients(left: Tensor, right: Tensor) -> ParameterGradients:
    """Gradients that are sums of outer products over places; of one place, as a linear layer's on no series.

    Args:
        left: Shape (examples, places, rows).
        right: Shape (examples, places, columns).
    """
    if left.shape[1] == 1 or 2 * left.shape[1] ** 2 <= left.shape[2] * right.shape[2]:
        return SequenceGradients(left, right)
    return DenseGradients(product(left.transpose(1, 2), right).flatten(1))


class SequenceGradients(ParameterGradients):
    """Gradients that are sums of outer products over places, of the two factors of `sequence_gradients`."""

    @one_thread()
    def squares(self) -> Tensor:
        """See `ParameterGradients`; never too small, also where the terms of many places all but cancel."""
        left, right = (factor.double() for factor in self._factors)
        terms = (row_norms(left.flatten(0, 1)) * row_norms(right.flatten(0, 1))).view(left.shape[:2])
        if left.shape[1] == 1:
            return terms[:, 0].square()
        found = product(left, left.transpose(1, 2)) * product(right, right.transpose(1, 2))
        return found.sum((1, 2)).clamp(min=0.0) + _ROUNDING * terms.sum(1).square()

    def row(self, example: int) -> Tensor:
        """See `ParameterGradients`."""
        left, right = self._factors
        out: Tensor = (left[example].T @ right[example]).flatten()
        return out

    def sums(self, weights: Tensor) -> Tensor:
        """See `ParameterGradients`."""
        return torch.stack([self._sum(own) for own in weights])

    def _sum(self, weights: Tensor) -> Tensor:
        left, right = self._factors
        if not (here := weights != 0).all():  # of the weights of groups most are zero
            weights, left, right = weights[here], left[here], right[here]
        weighted = (weights[:, None, None] * left).flatten(0, 1)
        out: Tensor = (weighted.T @ right.to(weights.dtype).flatten(0, 1)).flatten()
        return out


class EmbeddingGradients(ParameterGradients):
    """Gradients of an embedding: each example changes the rows that it has looked up.

    Args:
        places: Which rows, shape (examples, looked up).
        values: The gradients of what was looked up, shape (examples, looked up, width).
        rows: The number of rows.
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
        super().__init__(added.view(examples, count, width))

    def row(self, example: int) -> Tensor:
        """See `ParameterGradients`."""
        (values,) = self._factors
        out = values.new_zeros(self._rows, values.shape[2])
        return out.index_add_(0, self._places[example], values[example]).flatten()

    def sums(self, weights: Tensor) -> Tensor:
        """See `ParameterGradients`."""
        (values,) = self._factors
        out = weights.new_zeros(len(weights), self._rows, values.shape[2])
        for own, into in zip(weights, out, strict=True):
            here = own != 0
            changes = (own[here][:, None, None] * values[here].to(own.dtype)).flatten(0, 1)
            into.index_add_(0, self._places[here].flatten(), changes)
        return out.flatten(1)
