"""Rounds in which a sample trains and all take its mean: algorithms are their servers', written down in numpy."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dpeer.topology import ServerSampling, build
from dpeer.training import Hyperparameters, TorchLearner, build_learner
from tests.training.dp_learners import client
from tests.training.linear import COUNT, DECAY, SIZE, STEPS, Vector, begin, task
from tests.training.small import small_task
from tests.training.test_tracking_and_server_optimizers import (
    descended,
    fedadamw,
    fedavg_ls,
    fedopt,
    scaffold,
)

ROUNDS, LR = 6, 0.1
H = Hyperparameters(batch_size=16, body_epochs=1, grad_clip=None)
DRAWN = ServerSampling(build("full", SIZE, weights="uniform"), 0.5, 5)
SAMPLES = [sorted(DRAWN.participants(number)) for number in range(ROUNDS)]


def run(learners: list[TorchLearner], rounds: int = ROUNDS, drawn: ServerSampling = DRAWN) -> None:
    """The round loop, by hand."""
    for number in range(rounds):
        sent: dict[int, Any] = {}
        for rank, ours in enumerate(learners):
            if drawn.at(number, rank).active:
                ours.train(number)
                sent[rank] = ours.release(number)
            else:
                ours.sit_out(number)
        for rank, ours in enumerate(learners):
            row = drawn.at(number, rank).row
            ours.mix_sound({other: sent[other] for other in sent if other != rank}, row.restricted_to)


def learners(algorithm: str, **more: Any) -> list[TorchLearner]:
    options = more.pop("options", {})
    values: dict[str, Any] = {
        "body_lr": LR, "momentum": 0.0, "lr_decay": DECAY, "local_steps": STEPS, "batch_size": 20, "grad_clip": None,
        "rounds": ROUNDS,
    }  # fmt: skip
    h = Hyperparameters(**values | more)
    return [
        build_learner(task(r, ()), algorithm, h, rank=r, seed=0, options=options, sampled_share=DRAWN.share)
        for r in range(SIZE)
    ]


ROWS = [np.tile(np.isin(range(SIZE), sample) / len(sample), (SIZE, 1)) for sample in SAMPLES]


def fedavg() -> Vector:
    x = begin()
    for number, sample in enumerate(SAMPLES):
        x = np.mean([descended(x, rank, LR * DECAY**number) for rank in sample], axis=0)
    return x


CASES: dict[str, tuple[Callable[[], Vector], dict[str, Any]]] = {
    "fedavg": (fedavg, {}),
    # The paper's line 17: c changes by the sample's sum over the number of all clients.
    "scaffold": (lambda: scaffold(ROWS, SAMPLES, COUNT, LR, DRAWN.share)[0], {}),
    "fedopt": (lambda: fedopt(ROWS, SAMPLES, COUNT, LR)[0], {}),
    "fedavg-ls": (lambda: fedavg_ls(ROWS, SAMPLES, COUNT, LR)[0], {}),
    "fedadamw": (lambda: fedadamw(ROWS, SAMPLES, COUNT, 0.02, decay=0)[0], {"body_lr": 0.02, "momentum": 0.9}),
}


def test_everybody_is_drawn_and_nobody_always() -> None:
    counts = [sum(rank in sample for sample in SAMPLES) for rank in range(SIZE)]
    assert 0 < min(counts) <= max(counts) < ROUNDS
    assert len({rank for rank in range(SIZE) if rank not in SAMPLES[0]}) == 2, "some first hear, then train"


@pytest.mark.parametrize("algorithm", CASES)
def test_each_algorithm_is_its_servers(algorithm: str) -> None:
    reference, more = CASES[algorithm]
    ours = learners(algorithm, **more)
    run(ours)
    expected = reference()
    for one in ours:
        np.testing.assert_allclose(one.trainer.model.data.double().numpy(), expected, rtol=0, atol=2e-5)
    assert np.abs(expected - fedavg()).max() > 1e-3 or algorithm == "fedavg"


@pytest.mark.parametrize("algorithm", ["fafed", "fedlada", "fedsam", "localadamw"])
def test_all_peers_have_one_model_and_one_of_each_extra(algorithm: str) -> None:
    ours = learners(algorithm)
    run(ours)
    for one in ours[1:]:
        torch.testing.assert_close(one.trainer.shared.data, ours[0].trainer.shared.data, rtol=0, atol=0)


@pytest.mark.parametrize(("algorithm", "sigma"), [("fedsam", 0.95), ("dfedsmdc", 2.5)])
def test_the_noise_of_a_mean_is_that_of_the_papers_server(algorithm: str, sigma: float, tmp_path: Path) -> None:
    """DP-FedSAM's equation 11, DP2-FedSAM's Algorithm 2: sigma C / sqrt(m) in each of m messages, sigma C / m in all.

    What is mixed less the noise is computed from peers without privacy that train to the same bits, and clipped here.
    """
    clip, m = 0.05, len(SAMPLES[0])
    plain = [build_learner(small_task(rank), algorithm, H, rank=rank, seed=0) for rank in range(SIZE)]
    begun, updates = plain[0].body.clone().double(), []
    for rank in SAMPLES[0]:
        plain[rank].train(0)
        update = plain[rank].body.double() - begun
        assert update.norm() > clip
        updates.append(update * clip / update.norm())
    expected = begun + torch.stack(updates).mean(dim=0)
    noise = []
    for repeated in range(6):
        ours = {}
        for rank in SAMPLES[0]:
            ours[rank] = private(rank, tmp_path / f"{repeated}-{rank}", sigma / m**0.5, clip, algorithm)
            ours[rank].train(0)
        sent = {rank: one.release(0) for rank, one in ours.items()}
        first = SAMPLES[0][0]
        heard = {rank: body for rank, body in sent.items() if rank != first}
        ours[first].mix_sound(heard, DRAWN.at(0, first).row.restricted_to)
        noise.append(ours[first].body.double() - expected)
    found = torch.cat(noise)
    assert found.square().mean().sqrt() == pytest.approx(sigma * clip / m, rel=5 / (2 * len(found)) ** 0.5)
    assert abs(found.mean()) < 5 * sigma * clip / m / len(found) ** 0.5


def private(rank: int, folder: Path, sigma: float = 2.0, clip: float = 0.1, algorithm: str = "fedavg") -> TorchLearner:
    session = client(folder, sigma, clip)
    return build_learner(small_task(rank), algorithm, H, rank=rank, seed=0, session=session)


def test_private_peers_take_releases_and_are_charged_for_their_own_alone(tmp_path: Path) -> None:
    ours = [private(rank, tmp_path / str(rank)) for rank in range(SIZE)]
    run(ours)
    for rank, one in enumerate(ours):
        drawn = [number for number in range(ROUNDS) if rank in SAMPLES[number]]
        assert one.session.ledger.releases == len(drawn)
        assert torch.equal(one.body, ours[0].body)
        np.testing.assert_array_equal(one.gossip.state["base"], one.body)


def test_where_a_private_body_is_missing_the_own_part_is_the_last_mix(tmp_path: Path) -> None:
    """Not the body, which may hold what was trained and never released."""
    ours = private(0, tmp_path)
    base = ours.body.clone()
    ours.train(0)
    assert not torch.equal(ours.body, base)
    sent = torch.full_like(base, 3.0).numpy().astype("<f4").tobytes()
    ours.mix_sound({1: [sent]}, lambda ranks: {0: 0.5, 1: 0.5})
    torch.testing.assert_close(ours.body, 0.5 * base + 1.5)
