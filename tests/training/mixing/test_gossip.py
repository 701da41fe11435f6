"""Bodies that are mixed without having been looked at before, against a computation of its own; halves on the wire."""

from collections.abc import Callable, Collection, Mapping

import numpy as np
import pytest
import torch

from dpeer.training.codecs import Dense
from dpeer.training.flat import Flat
from dpeer.training.mixing.gossip import Gossip
from dpeer.training.settings import WireDtype
from tests.training.small import DTYPES, left_out, normal

COUNT = 700
ROW = {0: 0.2, 1: 0.5, 2: 0.3}
every_dtype = pytest.mark.parametrize("dtype", DTYPES)


def values(seed: int) -> torch.Tensor:
    return normal(COUNT, seed)


def rounded(vector: torch.Tensor, dtype: WireDtype) -> torch.Tensor:
    return vector.to(DTYPES[dtype]).float()


def sent(vector: torch.Tensor, dtype: WireDtype) -> list[bytes]:
    return [vector.to(DTYPES[dtype]).view(torch.uint8).numpy().tobytes()]


def dense(dtype: WireDtype, start: torch.Tensor) -> tuple[Gossip, Flat]:
    body = Flat("body", [("w", torch.nn.Parameter(start.clone()))])
    return Gossip(body, 1, Dense(body.data, 1, dtype)), body


def weigh(row: Mapping[int, float]) -> Callable[[Collection[int]], Mapping[int, float]]:
    """The weights of those who are left out go to the own rank, which is 1."""

    def restricted(ranks: Collection[int]) -> Mapping[int, float]:
        left = {rank: row[rank] for rank in sorted(row) if rank in ranks and rank != 1}
        return dict(sorted({**left, 1: 1 - sum(left.values())}.items()))

    return restricted


def spoiled(vector: torch.Tensor, bad: float) -> torch.Tensor:
    found = vector.clone()
    found[COUNT // 2] = bad
    return found


CASES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[torch.Tensor], torch.Tensor], set[int]]] = {
    "all finite": (lambda x: x, lambda x: x, set()),
    "one NaN": (lambda x: spoiled(x, np.nan), lambda x: x, {0}),
    "one infinite": (lambda x: x, lambda x: spoiled(x, -np.inf), {2}),
    "both infinite, against each other": (lambda x: spoiled(x, np.inf), lambda x: spoiled(x, -np.inf), {0, 2}),
    "all refused": (lambda x: spoiled(x, np.nan), lambda x: x * np.inf, {0, 2}),
    "large": (lambda x: torch.full_like(x, 60_000.0), lambda x: torch.full_like(x, 60_000.0), set()),
}


@every_dtype
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("zero", [False, True], ids=["", "zero weight"])
def test_mixed_is_what_is_finite(case: str, zero: bool, dtype: WireDtype) -> None:
    row = {0: 0.0, 1: 0.5, 2: 0.5} if zero else ROW
    first, second, refused = CASES[case]
    step, body = dense(dtype, values(1))
    step.release(0)
    received = {0: sent(first(values(0)), dtype), 2: sent(second(values(2)), dtype)}
    assert step.mix(received, weigh(row)) == dict.fromkeys(refused, "not-finite")
    used = {0: rounded(first(values(0)), dtype), 1: rounded(values(1), dtype), 2: rounded(second(values(2)), dtype)}
    left = weigh(row)({0, 2} - refused)
    expected = sum(used[rank].double().numpy() * weight for rank, weight in left.items())
    np.testing.assert_allclose(body.data.numpy(), expected, rtol=1e-5, atol=1e-6)
    # To the bit what looking first and mixing then gives.
    other, its_body = dense(dtype, values(1))
    other.release(0)
    reasons = {rank: left_out(other, rank, payload) for rank, payload in received.items()}
    assert {rank for rank, why in reasons.items() if why} == refused
    other.mix({rank: payload for rank, payload in received.items() if rank not in refused}, lambda ranks: left)
    assert torch.equal(body.data, its_body.data)


def test_finite_bodies_whose_sum_overflows_are_all_mixed() -> None:
    step, body = dense("float32", torch.full((COUNT,), 3e38))
    step.release(0)
    huge = sent(torch.full((COUNT,), 3e38), "float32")
    assert step.mix({0: huge, 2: huge}, weigh(ROW)) == {}
    np.testing.assert_allclose(body.data.numpy(), np.full(COUNT, 3e38), rtol=1e-6)


@every_dtype
def test_the_own_part_of_the_sum_is_what_was_released(dtype: WireDtype) -> None:
    step, body = dense(dtype, values(1))
    (buffer,) = step.release(0) or []
    assert memoryview(buffer).readonly
    assert bytes(buffer) == sent(values(1), dtype)[0]
    assert step.codec.payload_bytes == len(bytes(buffer))
    assert torch.equal(body.data, values(1)), "it trains on, and is evaluated, as it was"
    assert step.mix({}, weigh({1: 1.0})) == {}
    assert torch.equal(body.data, rounded(values(1), dtype))
    assert torch.equal(body.data, values(1)) == (dtype == "float32")
