"""Disagreement of one peer, against numpy in double precision, and what may not have one."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dpeer.training import Hyperparameters, build_learner
from dpeer.training.codecs import Dense
from dpeer.training.flat import Flat
from dpeer.training.mixing.gossip import COMPARED, Gossip, disagreement
from tests.training.dp_learners import client
from tests.training.small import normal, small_task


def expected(own: torch.Tensor, mix: torch.Tensor) -> float:
    own, mix = own.double().numpy(), mix.double().numpy()
    return float(np.linalg.norm(own - mix) / np.linalg.norm(mix))


CLOSE = normal(5000) + 100.0
BODIES: dict[str, tuple[torch.Tensor, torch.Tensor, float]] = {
    **{f"all of {count} values": (normal(count, 1), normal(count, 2), 1e-5) for count in (1, 2, 700, COMPARED)},
    "close ones do not cancel": (CLOSE + 1e-4 * normal(5000, 1), CLOSE, 1e-5),
    "halves as they are": (normal(700, 1).bfloat16(), normal(700, 2), 1e-5),
    **{f"runs stand for {n}": (normal(n, 1), normal(n, 2), 0.02) for n in (COMPARED + 1, 3 * COMPARED + 77)},
}


@pytest.mark.parametrize("case", BODIES)
def test_it_is_the_distance_over_the_length_of_the_mix(case: str) -> None:
    own, mix, within = BODIES[case]
    assert disagreement([own], mix) == pytest.approx(expected(own, mix), rel=within)


@pytest.mark.parametrize(("own", "mix"), [(1.0, 0.0), (np.nan, 1.0), (np.inf, 1.0), (1.0, np.nan), (1.0, np.inf)])
def test_what_is_no_number_is_none(own: float, mix: float) -> None:
    assert disagreement([torch.full((4,), own)], torch.full((4,), mix)) is None


def test_a_difference_in_any_tenth_of_a_large_body_shows() -> None:
    count = 4 * COMPARED
    mix = normal(count)
    for part in range(10):
        own = mix.clone()
        own[part * count // 10 : (part + 1) * count // 10] += 1.0
        assert disagreement([own], mix) == pytest.approx(expected(own, mix), rel=0.05)


def halves(ranks: Collection[int]) -> Mapping[int, float]:
    return {1: 0.5, 2: 0.5} if 2 in ranks else {1: 1.0}


def gossip(start: torch.Tensor) -> tuple[Gossip, Any]:
    body = Flat("body", [("w", torch.nn.Parameter(start.clone()))])
    return Gossip(body, 1, Dense(body.data, 1, "float32")), body


def test_a_peer_compares_what_it_has_released_with_the_mix() -> None:
    step, body = gossip(normal(700, 1))
    step.release(0)
    released = body.data.clone()
    step.mix({2: [normal(700, 2).numpy().tobytes()]}, halves)
    assert step.disagreement == pytest.approx(expected(released, body.data), rel=1e-5)


def test_without_a_release_or_another_body_nothing_is_measured() -> None:
    step, _ = gossip(normal(700, 1))
    step.release(0)
    step.mix({2: [normal(700, 2).numpy().tobytes()]}, halves)
    step.release(1)
    step.mix({}, halves)
    assert step.disagreement is None, "alone"
    step.mix({2: [normal(700, 2).numpy().tobytes()]}, halves)
    assert step.disagreement is None, "nothing was released in this round"
    step.release(2)
    step.mix({2: [normal(700, 2).numpy().tobytes()]}, halves)
    assert step.disagreement is not None
    step.adopt({2: [normal(700, 2).numpy().tobytes()]}, lambda ranks: {2: 1.0})
    assert step.disagreement is None, "its own body is no part of that mean"


def test_of_a_private_peer_it_is_measured_of_what_it_has_released(tmp_path: Path) -> None:
    h = Hyperparameters(body_epochs=1, batch_size=16)
    learner = build_learner(small_task(0), "dfedmdc", h, rank=1, seed=0, session=client(tmp_path))
    learner.train(0)
    payload = learner.release(0)
    released = learner.gossip.codec.decode(payload)[0].clone()
    other = normal(released.numel())
    learner.mix_sound({2: [other.numpy().tobytes()]}, halves)
    assert learner.figures.disagreement == pytest.approx(expected(released, learner.body), rel=1e-4)
