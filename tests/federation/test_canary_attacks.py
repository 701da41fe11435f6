"""A canary attack at each level of privacy, as a neighbor makes it on the product's own learner.

Clipping, sampling, noise, ledger, release and mixing are a run's. The two data sets are as far apart as the claim
allows, and the neighbor knows all else. The claim forces errors on every test between them. Rarer errors, at 95 %
confidence, refute it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import beta, binom, norm
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from dpeer.privacy import (
    Charge,
    ClientSession,
    Guarantee,
    Ledger,
    PeerData,
    PrivacyConfig,
    SampleGuarantee,
    SampleTerms,
    accounting,
    mechanism,
    noise,
)
from dpeer.privacy.guarantee import phases_of
from dpeer.privacy.settings import PrivacySettings
from dpeer.training import Hyperparameters, Task, TorchLearner, build_learner
from dpeer.training.payload import encode, views
from tests.training.small import mix

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread", "fixed_private_bits")]

WIDTH = 16
"""Inputs of the body, and of the head."""

CLIP_NORM = 0.7
RUNS = 100
"""Runs on each of the two data sets."""

ROUNDS, STEPS, RATE, RECORDS = 2, 4, 0.5, 4
CANARY = torch.zeros(2 * WIDTH)
CANARY[:WIDTH] = 1000.0 * CLIP_NORM * WIDTH**-0.5
"""Inputs whose gradient is a thousand clip norms long, and in the body alone."""

Seen = tuple[np.ndarray, np.ndarray, float]
"""What the neighbor sees of each run on the first data set, and on the second; above which value it says the second."""


class Linear(nn.Module):
    """A linear body beside a linear head: the gradient of a record's output is its inputs, whatever was trained."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = (nn.Linear(WIDTH, 1, bias=False) for _ in range(2))
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x[:, :WIDTH]) + self.head(x[:, WIDTH:])


def task(inputs: Tensor) -> Task:
    """A task whose gradient is minus the mean of its inputs, shape (records, 2 * WIDTH)."""
    data = TensorDataset(inputs, torch.ones(len(inputs), 1))
    return Task(
        model=Linear(),
        head=("head",),
        train=data,
        test=data,
        draws=False,
        loss=lambda outputs, targets: -(outputs * targets).mean(),
        metrics=lambda outputs, targets: {},
    )


def seen(peer: TorchLearner, rounds: int) -> tuple[np.ndarray, float]:
    """How far each run's messages move along the canary, in clip norms; the epsilon that the peer states after one."""
    moved, claimed, base = [], 0.0, torch.zeros(WIDTH)
    for run in range(RUNS):
        for number in range(run * rounds, (run + 1) * rounds):
            peer.train(number)
            (vector,) = views(peer.release(number), WIDTH)
            released = vector.clone()
            mix(peer, {1: [encode(released)]}, {0: 0.5, 1: 0.5})  # the neighbor sends the same, so the mix is that
        along = CANARY[:WIDTH].double() / CANARY.double().norm()
        moved.append(float((released - base).double() @ along) / CLIP_NORM)
        base = released
        if run == 0:
            claimed = peer.privacy["epsilon"]
    return np.array(moved), claimed


def refuted(test: Seen, least_missed: Callable[[float], float]) -> bool:
    """Whether the errors are rarer than any test's can be that misses at least so many at a rate of false positives."""
    first, second, threshold = test
    errors = [int((first > threshold).sum()), int((second <= threshold).sum())]
    most_wrong, most_missed = (float(beta.isf(0.025, count + 1, RUNS - count)) for count in errors)
    return most_missed < least_missed(most_wrong)


def weakened(factor: float) -> Callable[..., None]:
    """The noise, times a factor."""

    def changed(size: int, std: float, values: Any, give: Any, threads: int = 1) -> None:
        def altered(here: slice, noisy: np.ndarray) -> None:
            plain = values(here)
            give(here, np.rint(plain + factor * (noisy - plain)))

        noise.noised(size, std, values, altered, threads)

    return changed


def attack_client(guarantee: Guarantee, folder: Path) -> Seen:
    """Tell apart two data sets whose updates lie in opposite directions, far beyond the clip norm."""
    found = []
    for side in (-1.0, 1.0):
        session = ClientSession(guarantee, Ledger(folder / f"{side:g}", {}, resume=False))
        h = Hyperparameters(body_epochs=1, head_epochs=1, body_lr=1.0, momentum=0.0, lr_decay=1.0)
        inputs = task(side * CANARY.expand(2, -1))
        moved, claimed = seen(build_learner(inputs, "dfedmdc", h, rank=0, seed=0, session=session), ROUNDS)
        assert claimed == pytest.approx(guarantee.epsilon(ROUNDS))
        found.append(moved)
    return found[0], found[1], 0.0


def attack_sample(guarantee: SampleGuarantee, folder: Path) -> Seen:
    """Tell apart two data sets of which one has a record more, with a gradient far beyond the clip norm."""
    g, found = guarantee, []
    settings = PrivacySettings(
        privacy="sample",
        noise_multiplier=g.noise_multiplier,
        clip_norm=g.clip_norm,
        delta=g.delta,
        records=RECORDS,
    )
    h = Hyperparameters(
        body_epochs=STEPS,
        local_steps=STEPS,
        body_lr=1.0,
        momentum=0.0,
        optimizer="sgd",
        weight_decay=0.0,
        lr_decay=1.0,
        grad_clip=None,
        finish="none",
        rounds=RUNS,
    )
    for there in (0, 1):
        others = torch.zeros(RECORDS - 1, 2 * WIDTH)
        others[:, WIDTH:] = 1000.0 * g.clip_norm  # far too long as well, in the head
        config = PrivacyConfig(settings, rounds=RUNS, batch_size=g.sampling_rate * RECORDS)
        session = SampleTerms(config, folder / str(there), PeerData(records=RECORDS))
        inputs = task(torch.cat([others, CANARY.expand(there, -1)]))
        moved, claimed = seen(build_learner(inputs, "dfedmdc", h, rank=0, seed=0, session=session), 1)
        assert claimed == pytest.approx(g.epsilon(1))
        found.append(moved * RATE * RECORDS)  # sums, of which a step takes the mean
    return found[0], found[1], STEPS * RATE / 2


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_a_neighbor_learns_of_a_peers_data_set_what_is_claimed_and_more_with_half_the_noise(
    factor: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mechanism, "noised", weakened(factor))
    guarantee = Guarantee(2.0, CLIP_NORM, 1e-5)
    test, mu = attack_client(guarantee, tmp_path), 2 * ROUNDS**0.5 / guarantee.noise_multiplier
    assert refuted(test, lambda wrong: norm.cdf(norm.isf(wrong) - mu)) == (factor < 1.0)
    assert refuted(test, lambda wrong: norm.cdf(norm.isf(wrong) - mu / 2)), "the attack finds most of what is left"


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_a_neighbor_learns_of_a_record_what_is_claimed_and_more_with_half_the_noise(
    factor: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mechanism, "noised", weakened(factor))
    epsilon = vars(accounting)["_pld"]

    def first_alone(charges: tuple[Charge, ...], delta: float) -> float:
        """The epsilon after the first run, which alone is read."""
        return float(epsilon(charges, delta)) if charges[0].steps == STEPS else 0.0

    monkeypatch.setattr(accounting, "_pld", first_alone)
    guarantee = SampleGuarantee(1.0, CLIP_NORM, 1e-5, RATE, phases_of(STEPS))

    def least_missed(noise_multiplier: float) -> Callable[[float], float]:
        """A round's sums add up to normal noise, and to as many clip norms as steps have drawn the canary."""
        drawn = np.arange(STEPS + 1)
        shifts = drawn / (noise_multiplier * STEPS**0.5)
        return lambda wrong: float(binom.pmf(drawn, STEPS, RATE) @ norm.cdf(norm.isf(wrong) - shifts))

    test = attack_sample(guarantee, tmp_path)
    assert refuted(test, least_missed(1.0)) == (factor < 1.0)
    assert refuted(test, least_missed(4.0)), "the attack finds most of what is left"
