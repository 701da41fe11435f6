"""Per-example gradients, dense or as factors whose product is never in memory; and their norms and sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from dpeer.training.dpsgd.stable_matmul import one_thread


class ParameterGradients(Protocol):
    """The gradients of one parameter (or several that lie side by side), one for each example."""

    def squares(self) -> Tensor:
        """The squared length of each gradient, shape (examples,)."""

    def drop(self, examples: Tensor) -> None:
        """Make the gradients of these examples zero, whatever they are; a mask, shape (examples,)."""

    def row(self, example: int) -> Tensor:
        """The gradient of one example, shape (values,)."""

    def sums(self, weights: Tensor) -> Tensor:
        """Weighted sums of the gradients, shape (sums, values), added up in the precision of the weights.

        Args:
            weights: Shape (sums, examples).
        """


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


class DenseGradients:
    """Gradients as a matrix with a row for each example.

    Args:
        values: Shape (examples, values).
    """

    def __init__(self, values: Tensor) -> None:
        self._values = values

    def squares(self) -> Tensor:
        """See `ParameterGradients`."""
        return row_norms(self._values).square()

    def drop(self, examples: Tensor) -> None:
        """See `ParameterGradients`."""
        self._values = self._values.masked_fill(examples[:, None], 0.0)

    def row(self, example: int) -> Tensor:
        """See `ParameterGradients`."""
        return self._values[example]

    def sums(self, weights: Tensor) -> Tensor:
        """See `ParameterGradients`."""
        if weights.dtype == self._values.dtype:
            return weights @ self._values
        return torch.cat(
            [weights @ some.to(weights.dtype) for some in torch.split(self._values, _AT_ONCE, dim=1)], dim=1
        )

    def added(self, examples: int) -> DenseGradients:
        """The gradients of so many examples, each of which has several rows here, side by side."""
        return DenseGradients(self._values.view(examples, -1, self._values.shape[1]).sum(1))


class OuterProducts:
    """Gradients that are outer products, as a linear layer's are: they need not lie in memory to be measured and added.

    Args:
        left: Shape (examples, rows).
        right: Shape (examples, columns).
    """

    def __init__(self, left: Tensor, right: Tensor) -> None:
        self._left, self._right = left, right

    def squares(self) -> Tensor:
        """See `ParameterGradients`."""
        return (row_norms(self._left) * row_norms(self._right)).square()

    def drop(self, examples: Tensor) -> None:
        """See `ParameterGradients`."""
        self._left = self._left.masked_fill(examples[:, None], 0.0)
        self._right = self._right.masked_fill(examples[:, None], 0.0)

    def row(self, example: int) -> Tensor:
        """See `ParameterGradients`."""
        return torch.outer(self._left[example], self._right[example]).flatten()

    def sums(self, weights: Tensor) -> Tensor:
        """See `ParameterGradients`."""
        weighted = weights[:, None, :] * self._left.T.to(weights.dtype)  # (sums, rows, examples)
        out: Tensor = (weighted @ self._right.to(weights.dtype)).flatten(1)
        return out


@dataclass
class ExampleGradients:
    """What a backend computed for some examples.

    Attributes:
        losses: Shape (examples,).
        parts: Gradients, each with the place of its values in the vector of what is trained; zero elsewhere.
        examples: How many there are.
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
