"""Weighted sums in blocks, against whole vectors, and the search for values that are not finite."""

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from dpeer.training.mixing.weighted_sum import all_finite, weighted_sum
from dpeer.training.settings import WireDtype
from tests.training.small import DTYPES, normal

BLOCK = 2**18
COUNTS = [2, BLOCK, 2 * BLOCK + 5]

every_dtype = pytest.mark.parametrize("dtype", DTYPES)


def unblocked(terms: list[tuple[Tensor, float]]) -> Tensor:
    (first, weight), *rest = terms
    total = first.float().mul(weight)
    for vector, weight in rest:
        total.add_(vector.float(), alpha=weight)
    return total


def same_bits(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one.view(torch.int32), other.view(torch.int32))


def pieces(vector: Tensor, ends: list[int]) -> list[Tensor]:
    places = sorted({0, vector.numel(), *(end for end in ends if end < vector.numel())})
    return [vector[a:b] for a, b in itertools.pairwise(places)]


CUTS: dict[str, list[list[int]]] = {
    "whole": [[], [], []],
    "at blocks": [[], [BLOCK], [BLOCK, 2 * BLOCK]],
    "odd": [[1, 2, 3], [7, BLOCK - 1, BLOCK + 1], [13]],
    "one of three": [[], [5, 100_003], []],
    "many": [[*range(0, 2 * BLOCK, 9973)], [*range(0, 2 * BLOCK, 10007)], []],
}


@pytest.mark.slow
@every_dtype
@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("count", COUNTS)
def test_a_sum_in_blocks_is_that_of_whole_vectors_to_the_bit(count: int, cuts: str, dtype: WireDtype) -> None:
    weights = [0.3, 1 / 3, 1 - 0.3 - 1 / 3]
    vectors = [normal(count, seed).to(DTYPES[dtype]) for seed in range(3)]
    terms = [(pieces(vector, ends), weight) for vector, ends, weight in zip(vectors, CUTS[cuts], weights, strict=True)]
    total = torch.full((count,), float("nan"))
    assert weighted_sum(total, terms)
    expected = unblocked(list(zip(vectors, weights, strict=True)))
    assert same_bits(total, expected)
    exact = sum(vector.double() * weight for vector, weight in zip(vectors, weights, strict=True))
    np.testing.assert_allclose(total.numpy(), np.asarray(exact), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
@pytest.mark.parametrize("weight", [0.0, 0.5])
@pytest.mark.parametrize(("term", "where"), [(0, 0), (1, BLOCK - 1), (1, BLOCK + 6)])
def test_what_is_not_finite_shows_in_the_sum(bad: float, weight: float, term: int, where: int) -> None:
    vectors = [normal(BLOCK + 7, seed) for seed in range(2)]
    vectors[term][where] = bad
    weights = [0.5, 0.5]
    weights[term] = weight
    terms = [([v], w) for v, w in zip(vectors, weights, strict=True)]
    assert not weighted_sum(torch.zeros(BLOCK + 7), terms)


@every_dtype
@pytest.mark.parametrize(("bad", "where"), [(np.nan, 0), (np.inf, BLOCK), (-np.inf, 2 * BLOCK + 4)])
def test_what_is_not_finite_is_found(bad: float, where: int, dtype: WireDtype) -> None:
    vector = normal(2 * BLOCK + 5).to(DTYPES[dtype])
    assert all_finite([vector])
    vector[where] = bad
    assert not all_finite([vector])
    assert not all_finite([vector[:where], vector[where:]])
    assert all_finite([vector[:where], vector[where + 1 :]])


def test_large_numbers_whose_sum_overflows_are_finite() -> None:
    huge = torch.full((1000,), 3e38)
    assert all_finite([huge])
    assert all_finite([huge.to(torch.bfloat16), torch.full((BLOCK,), 65504.0, dtype=torch.float16)])
    both = torch.cat([huge, torch.tensor([float("inf")]), -huge, torch.tensor([-float("inf")])])
    assert not all_finite([both])
    assert all_finite([])
    assert all_finite([torch.zeros(0)])
