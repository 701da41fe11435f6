"""Gradients that are sums over places, held against those that lie in memory."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dpeer.training.dpsgd.gradient_factors import (
    DenseGradients,
    EmbeddingGradients,
    SequenceGradients,
    sequence_gradients,
)

N, T = 5, 4


def sequence(bad: float = 0.0) -> tuple[SequenceGradients, Tensor]:
    left, right = torch.randn(N, T, 6), torch.randn(N, T, 7)
    left[2, 1] += bad
    return SequenceGradients(left, right), torch.einsum("ntr,ntc->nrc", left, right).flatten(1)


def looked_up(bad: float = 0.0) -> tuple[EmbeddingGradients, Tensor]:
    places = torch.tensor([[3, 1, 3, 3], [0, 1, 2, 3], [5, 5, 5, 5], [4, 0, 4, 0], [2, 2, 1, 2]])
    values = torch.randn(N, T, 3)
    values[2, 1] += bad
    chosen = nn.functional.one_hot(places, 6).float()
    return EmbeddingGradients(places, values, 6), torch.einsum("ntr,ntw->nrw", chosen, values).flatten(1)


@pytest.mark.parametrize("make", [sequence, looked_up])
def test_lengths_sums_and_rows_are_those_of_the_gradients(
    make: Callable[..., tuple[SequenceGradients | EmbeddingGradients, Tensor]],
) -> None:
    torch.manual_seed(0)
    part, whole = make()
    torch.testing.assert_close(part.squares(), whole.double().square().sum(1), rtol=1e-5, atol=1e-6)
    weights = torch.rand(3, N)
    weights[1, ::2] = 0
    torch.testing.assert_close(part.sums(weights), weights @ whole)
    precise = part.sums(weights.double())
    assert precise.dtype == torch.float64
    torch.testing.assert_close(precise, weights.double() @ whole.double(), rtol=1e-5, atol=1e-6)
    for example in range(N):
        torch.testing.assert_close(part.row(example), whole[example])
    assert not part.sums(torch.zeros(1, N)).any()


@pytest.mark.parametrize("make", [sequence, looked_up])
def test_a_gradient_that_is_not_finite_can_be_dropped(
    make: Callable[..., tuple[SequenceGradients | EmbeddingGradients, Tensor]],
) -> None:
    torch.manual_seed(0)
    part, whole = make(torch.inf)
    bad = torch.arange(N) == 2
    assert not part.squares().isfinite()[2]
    part.drop(bad)
    weights = torch.ones(1, N)
    torch.testing.assert_close(part.sums(weights), whole[~bad].sum(0, keepdim=True))
    torch.testing.assert_close(part.squares()[~bad], whole[~bad].double().square().sum(1), rtol=1e-5, atol=1e-6)


def test_places_that_nearly_cancel_do_not_make_a_gradient_look_short() -> None:
    """In float32 the products of places would leave nothing of it."""
    left, right = torch.ones(1, 2, 50), torch.full((1, 2, 60), 1e4)
    right[0, 1] = -1e4
    right[0, 1, 0] = -1e4 + 1
    (square,) = SequenceGradients(left, right).squares().tolist()
    terms = 2 * 50**0.5 * 1e4 * 60**0.5
    assert 50.0 <= square <= 50.0 + 1.001e-12 * terms**2


def test_places_that_cancel_beyond_float64_count_with_what_rounding_may_have_left() -> None:
    """The sum that is added has last bits of its own, and must not look shorter than it is."""
    left, right = torch.ones(1, 2, 50), torch.full((1, 2, 60), 1e10)
    right[0, 1] = -1e10
    right[0, 1, 0] = float(np.nextafter(np.float32(-1e10), np.float32(0)))
    found = SequenceGradients(left, right)
    assert float(found.squares()) >= float(found.sums(torch.ones(1, 1, dtype=torch.float64)).square().sum()) > 1.0


def test_what_takes_less_memory_is_taken() -> None:
    assert isinstance(sequence_gradients(torch.randn(2, 4, 16), torch.randn(2, 4, 16)), SequenceGradients)
    assert isinstance(sequence_gradients(torch.randn(2, 64, 16), torch.randn(2, 64, 16)), DenseGradients)
