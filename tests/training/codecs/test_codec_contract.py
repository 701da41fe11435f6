"""The contract of every codec: values within its error, its limits, hostile payloads; a payload stands alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dpeer.exceptions import ConfigurationError
from dpeer.training import Hyperparameters, build_learner
from dpeer.training.codecs import CODECS, Codec, Masked, Undecodable, new_codec
from dpeer.training.flat import Flat
from dpeer.training.mixing.gossip import Gossip, SparseGossip
from tests.training.small import left_out, small_task

COUNT = 3001
EXAMPLE = f"{Path(__file__).parents[3] / 'examples' / 'own_codec.py'}:OneByte"
HELD = torch.arange(COUNT) % 3 != 0
ERROR = {
    "float32": 0.0, "bfloat16": 2.0**-8, "float16": 2.0**-11, "int4": 0.5 / 7, "int8": 0.5 / 127, "int16": 0.5 / 32767,
    "masked": 0.0, EXAMPLE: 0.5 / 127,
}  # fmt: skip
"""The largest error of a value, as a share of the largest value."""

every_codec = pytest.mark.parametrize("name", ERROR, ids=lambda name: name.rpartition("/")[2])
ROW = {0: 0.5, 1: 0.3, 2: 0.2}


def values(seed: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(COUNT, dtype=np.float32))


def made(name: str, rank: int = 0) -> Codec:
    start = torch.zeros(COUNT)
    if name == "masked":
        return Masked(start, rank, HELD)
    return new_codec(name, start, rank)


def step(name: str, rank: int, start: Tensor) -> tuple[Gossip, Flat]:
    """A gossip step whose body begins at zero, as everyone's, and then is what was asked for."""
    body = Flat("body", [("w", torch.nn.Parameter(torch.zeros(COUNT)))])
    found = (SparseGossip if name == "masked" else Gossip)(body, rank, made(name, rank))
    body.data.copy_(start * HELD if name == "masked" else start)
    return found, body


def whole(name: str, vectors: Any) -> Tensor:
    """What was decoded, as one vector."""
    if name == "masked":
        found = torch.zeros(COUNT)
        found[vectors[1]] = vectors[0]
        return found
    return torch.cat([torch.zeros(0), *(vector.float() for vector in vectors)])


def sent(payload: Any) -> list[bytes]:
    return [bytes(buffer) for buffer in payload or []]


def test_every_built_in_codec_is_here() -> None:
    assert {*CODECS, "masked", EXAMPLE} == {*ERROR}


@every_codec
def test_values_come_back_within_the_error_and_alike_for_all(name: str) -> None:
    one, other, x = made(name), made(name, 1), values(1)
    payload = sent(one.encode(x, 0))
    assert sum(map(len, payload)) <= one.payload_bytes == other.payload_bytes
    expected = x * HELD if name == "masked" else x
    found = whole(name, other.decode(payload))
    assert (found - expected).abs().max() <= ERROR[name] * x.abs().max() * 1.001
    assert torch.equal(found, whole(name, one.decode(payload))), "the own release is what neighbors read"
    assert payload == sent(made(name).encode(x, 0)), "the same bytes for the same values"


@every_codec
def test_a_payload_never_changes_again(name: str) -> None:
    codec, x = made(name), values(1)
    payload = codec.encode(x, 0)
    assert all(memoryview(buffer).readonly for buffer in payload)
    before = sent(payload)
    x.zero_()
    later = codec.encode(values(2), 1)
    assert sent(payload) == before != sent(later)


@every_codec
def test_nothing_at_all_is_encoded_too(name: str) -> None:
    if name != "masked":
        codec = new_codec(name, torch.zeros(0), 0)
        assert whole(name, codec.decode(sent(codec.encode(torch.zeros(0), 0)))).shape == (0,)


@every_codec
@pytest.mark.parametrize("bad", [float("nan"), -float("inf")])
def test_what_is_not_finite_is_refused(name: str, bad: float) -> None:
    x = values(1)
    x[1501] = bad
    payload = sent(made(name, 1).encode(x, 0))
    ours, body = step(name, 0, values(0))
    ours.release(0)
    assert left_out(ours, 1, payload) == "not-finite"
    assert ours.mix({1: payload}, lambda ranks: {0: 1.0} if not ranks else {0: 0.5, 1: 0.5}) == {1: "not-finite"}
    assert body.data.isfinite().all()


@every_codec
def test_hostile_payloads_are_refused_and_change_nothing(name: str) -> None:
    honest = sent(made(name, 1).encode(values(1), 0))
    wrong: list[Any] = [
        [], [b""], None, 5, [None], ["x"], [b"x" * 9], [*honest, b""] if len(honest) > 1 else [*honest, b"x"],
        [memoryview(honest[0])[::-1], *honest[1:]], [honest[0][:7], honest[0][7:], *honest[1:]],
        honest[:-1], [*honest[:-1], honest[-1][:-1]], [*honest[:-1], honest[-1] + b"x"], [b"\xff" * 7, *honest[1:]],
        [memoryview(honest[0] * 2)[::2], *honest[1:]] if len(honest) == 1 else honest[::-1],
    ]  # fmt: skip
    alone, its_body = step(name, 0, values(0))
    alone.release(0)
    alone.mix({}, lambda ranks: {0: 1.0})
    for payload in wrong:
        ours, body = step(name, 0, values(0))
        ours.release(0)
        assert left_out(ours, 1, payload) in ("wrong-size", "not-finite"), payload
        assert set(ours.mix({1: payload}, lambda ranks: {0: 1.0})) == {1}
        assert torch.equal(body.data, its_body.data)


@every_codec
def test_random_bytes_are_never_an_error(name: str) -> None:
    random = np.random.default_rng(0)
    shape = [len(buffer) for buffer in sent(made(name, 1).encode(values(1), 0))]
    ours, _ = step(name, 0, values(0))
    for _ in range(50):
        payload = [random.bytes(max(0, size + int(random.integers(-1, 2)))) for size in shape]
        assert left_out(ours, 1, payload) in (None, "wrong-size", "not-finite")


@every_codec
def test_a_mix_is_the_weighted_sum_of_what_is_decoded(name: str) -> None:
    steps = [step(name, rank, values(rank)) for rank in range(3)]
    before = [body.data.clone() for _, body in steps]
    payloads = {rank: sent(one.release(0)) for rank, (one, _) in enumerate(steps)}
    reader = made(name, 9)
    decoded = {rank: whole(name, reader.decode(payload)) for rank, payload in payloads.items()}
    for rank, (one, body) in enumerate(steps):
        one.mix({other: payload for other, payload in payloads.items() if other != rank}, lambda ranks: ROW)
        expected = sum(weight * decoded[other].double() for other, weight in ROW.items())
        if one.codec.error_feedback:
            expected = expected + (before[rank] - decoded[rank]).double()
        np.testing.assert_allclose(body.data.numpy(), np.asarray(expected), rtol=1e-5, atol=1e-6)


@every_codec
def test_a_payload_is_read_alike_whatever_was_sent_before(name: str) -> None:
    """No state of an edge: neither the sender's earlier releases nor those that the receiver has read count."""
    sender, reader = made(name), made(name, 1)
    for number in range(3):
        reader.decode(sent(sender.encode(values(number), number)))
    payload = sent(sender.encode(values(9), 3))
    assert payload == sent(made(name).encode(values(9), 3))
    assert torch.equal(whole(name, reader.decode(payload)), whole(name, made(name, 2).decode(payload)))


# -- codecs of a user's own ----------------------------------------


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="OneByte, --robust none"):
        build_learner(small_task(), "dis-pfl", Hyperparameters(compress=EXAMPLE), rank=0, seed=0)


def test_a_codec_that_raises_leaves_the_payload_out() -> None:
    class Raising(Codec):
        payload_bytes = 4

        def encode(self, values: Tensor, number: int) -> list[bytes]:
            return [values.numpy().tobytes()]

        def decode(self, payload: Any) -> list[Tensor]:
            if payload[0] == b"refused":
                raise Undecodable("too-odd")
            return [torch.zeros(2)] if payload[0] == b"two" else [torch.tensor([4 / len(payload[0])])]

    body = Flat("body", [("w", torch.nn.Parameter(torch.ones(1)))])
    one = Gossip(body, 0, Raising(body.data, 0))
    one.release(0)
    refused = one.mix({1: [b""], 2: [b"refused"], 3: [b"two"]}, lambda ranks: {0: 1.0})
    assert refused == {1: "wrong-size", 2: "too-odd", 3: "wrong-size"}
