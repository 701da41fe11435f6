"""A canary attack on each level of privacy, as a neighbor makes it, with a lower bound on the privacy loss.

The attacked peer is the product's own learner: clipping, sampling, noise, ledger, release and mixing are a run's.
Its two neighboring data sets are as far apart as the claim allows. At client level an update lies far beyond the clip
norm in one direction. At sample level one data set has one record more, the canary, with such a gradient. The
neighbor knows all else.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from dpeer.exceptions import ConfigurationError
from dpeer.privacy import (
    Charge,
    ClientSession,
    Guarantee,
    Ledger,
    PeerData,
    PrivacyConfig,
    SampleGuarantee,
    SampleSession,
)
from dpeer.privacy.audit import MuBound, StepBound, bound_mu, bound_steps, planned_tests
from dpeer.privacy.gaussian import epsilon as epsilon_of
from dpeer.privacy.gaussian import mu as mu_of
from dpeer.privacy.plan import finite
from dpeer.privacy.settings import PrivacySettings
from dpeer.privacy.tradeoff import statistic
from dpeer.training import Algorithm, Hyperparameters, Task, TorchLearner, build_learner
from dpeer.training.flat import Flat
from dpeer.training.minibatches import Batch
from dpeer.training.mixing.weighted_sum import weighted_sum
from dpeer.training.payload import encode, views
from dpeer.training.split import Split
from dpeer.training.trainer import Trainer

CONFIDENCE = 0.95

_WIDTH = 16
"""Inputs of the body, and of the head."""

_RECORDS = 4
"""Records at sample level, the canary included."""

_FAR = 1000.0
"""Length of the canary's update or gradient, in clip norms."""

_ROW = {0: 0.5, 1: 0.5}
_RUNS_OF_A_PEER = 20
"""Runs that one peer makes, one after the other: to build a peer takes as long as several steps."""

_MEMORY = "/dev/shm"  # noqa: S108 - a fresh folder is made in it
"""A ledger in memory is flushed a hundred times faster than one on a disk."""

Array = NDArray[np.float64]
Progress = Callable[[int], None]
"""Called with the number of releases or steps that were made."""


@dataclass(frozen=True)
class ClientReport:
    """The result at client level.

    Attributes:
        claimed: Mu, by the peer's own ledger.
        bound: The mu that the neighbor's errors prove.
    """

    claimed: float
    bound: MuBound

    @property
    def held(self) -> bool:
        """Whether the errors are compatible with the claim."""
        return self.bound.mu <= self.claimed

    def described(self, guarantee: Guarantee, rounds: int) -> dict[str, Any]:
        """The result in plain JSON values, of a claim over so many rounds a run."""
        bound = {key: value for key, value in asdict(self.bound).items() if key != "mu"}
        return {
            "mode": "client", "mu_claimed": self.claimed, "mu_lower_bound": self.bound.mu, "held": self.held,
            "confidence": CONFIDENCE, "epsilon_claimed": epsilon_of(self.claimed, guarantee.delta),
            "epsilon_lower_bound": epsilon_of(self.bound.mu, guarantee.delta), "delta": guarantee.delta,
            "noise_multiplier": guarantee.noise_multiplier, "rounds": rounds, "adjacency": guarantee.adjacency, **bound,
        }  # fmt: skip


@dataclass(frozen=True)
class SampleReport:
    """The result at sample level.

    Attributes:
        claimed: Epsilon, as the peer reports it.
        bound: What the neighbor's errors prove.
    """

    claimed: float
    bound: StepBound

    @property
    def held(self) -> bool:
        """Whether the errors are compatible with the claim."""
        return not self.bound.refuted and self.bound.epsilon <= self.claimed

    def described(self, guarantee: SampleGuarantee, rounds: int) -> dict[str, Any]:
        """The result in plain JSON values, of a claim over so many rounds a run."""
        bound = self.bound
        return {
            "mode": "sample", "epsilon_claimed": self.claimed, "epsilon_lower_bound": bound.epsilon, "held": self.held,
            "confidence": CONFIDENCE, "delta": guarantee.delta, "noise_multiplier": guarantee.noise_multiplier,
            "noise_multiplier_upper_bound": finite(bound.strength * guarantee.noise_multiplier),
            "sampling_rate": guarantee.sampling_rate, "dp_head": guarantee.head, "rounds": rounds,
            "steps": guarantee.compositions(rounds), "adjacency": "add-or-remove",
            "false_positives": bound.false_positives, "false_negatives": bound.false_negatives, "runs": bound.runs,
        }  # fmt: skip


# -- client level ------------------------------------------------------------------------------------------------


def attack_client(guarantee: Guarantee, rounds: int, runs: int, progress: Progress = lambda made: None) -> ClientReport:
    """Tell by a peer's releases on which of two data sets it has trained.

    Args:
        guarantee: What is claimed, against a neighbor.
        rounds: T of each run.
        runs: Runs on each data set.
        progress: Called as releases are made.
    """
    other = {"replace": -1.0, "zero-out": 0.0}[guarantee.adjacency]
    sums, epsilons = np.empty((2, runs)), []
    for which, side in enumerate((other, 1.0)):
        for run in range(runs):
            sums[which, run], epsilon = _client_run(guarantee, rounds, side)
            epsilons.append(epsilon)
            progress(rounds)
    exact = guarantee.mu(rounds)
    claimed = exact if guarantee.epsilon(rounds) == min(epsilons) else mu_of(min(epsilons), guarantee.delta)
    middle = guarantee.clip_norm * rounds * (1 + other) / 2  # between the two means, which the neighbor knows
    return ClientReport(claimed, bound_mu(sums[0], sums[1], middle, CONFIDENCE))


def _client_run(guarantee: Guarantee, rounds: int, side: float) -> tuple[float, float]:
    """One run: the sum of its releases along the update, and the epsilon that the peer reports.

    Each release less its base is the clipped update plus noise, so their sum is all that the releases tell.
    """
    direction = torch.full((_WIDTH,), _WIDTH**-0.5)
    inputs = torch.cat([side * _FAR * guarantee.clip_norm * direction, torch.zeros(_WIDTH)])
    total, base = 0.0, torch.zeros(_WIDTH)
    with _folder() as folder:
        session = ClientSession(guarantee, Ledger(folder, {}, resume=False))
        h = Hyperparameters(body_epochs=1, head_epochs=1, body_lr=1.0, momentum=0.0, lr_decay=1.0)
        peer = build_learner(_task(inputs.expand(2, -1)), "dfedmdc", h, rank=0, seed=0, session=session)
        for number in range(rounds):
            peer.train(number)
            released = _values(peer.release(number), _WIDTH)
            total += float((released.double() - base.double()) @ direction.double())
            base = _mixed(peer, base, released)
        spent = peer.privacy
        assert spent is not None
        return total, float(spent["epsilon"])


def check_client(guarantee: Guarantee, rounds: int, runs: int) -> None:
    """Refuse a claim about which so few runs can prove nothing.

    Raises:
        ConfigurationError: Mu is too small or too large; names a noise multiplier that is neither.
    """
    claimed = guarantee.mu(rounds)
    if not 0.05 <= claimed <= 4:
        raise ConfigurationError(
            f"--noise-multiplier {guarantee.noise_multiplier:g} over {rounds} rounds is mu {claimed:.3g}: {runs} runs "
            "can tell something about mu from 0.05 to 4 only, best between 1 and 2; for mu 1.5 take "
            f"--noise-multiplier {guarantee.noise_multiplier * claimed / 1.5:.3g}"
        )


# -- sample level ------------------------------------------------------------------------------------------------


def attack_sample(
    guarantee: SampleGuarantee, rounds: int, runs: int, progress: Progress = lambda made: None
) -> SampleReport:
    """Tell by the noised gradients of a peer's steps whether the canary is among its records.

    Args:
        guarantee: What is claimed.
        rounds: T of each run.
        runs: Runs without the canary, and as many with it.
        progress: Called as steps are made.
    """
    charges = guarantee.charges(rounds)
    tests = planned_tests(charges, runs, CONFIDENCE)
    statistics: list[list[float]] = [[], []]
    claims: list[float] = []
    for which in (0, 1):
        for first in range(0, runs, _RUNS_OF_A_PEER):
            count = min(_RUNS_OF_A_PEER, runs - first)
            found, epsilon = _sample_runs(guarantee, rounds, count, canary=which == 1)
            statistics[which] += found
            claims.append(epsilon)
            progress(count * guarantee.compositions(rounds))
    bound = bound_steps(statistics[0], statistics[1], tests.thresholds, charges, guarantee.delta, CONFIDENCE)
    return SampleReport(min(claims), bound)


class Revealing(Algorithm):
    """DFedMDC whose message holds every private gradient of the round: no more than the claim covers."""

    shares = "body"

    @dataclass(frozen=True)
    class Options:
        """How many steps a round has."""

        steps: int = 1

    def extras(self, split: Split) -> Mapping[str, int]:
        """See `Algorithm.extras`."""
        return {"gradients": self.options.steps * 2 * _WIDTH}

    def train(self, peer: Trainer) -> None:
        """See `Algorithm.train`."""
        h, rows = peer.hyperparameters, iter(peer.extras["gradients"].zero_().view(-1, 2 * _WIDTH))

        def revealed(peer: Trainer, part: Flat, batch: Batch) -> Tensor:
            loss = peer.gradient(part, batch)
            start = _WIDTH if part is peer.head else 0
            next(rows)[start : start + len(part.grad)] = part.grad
            return loss

        peer.fit(peer.head, epochs=h.head_epochs, lr=h.head_lr, gradient=revealed)
        peer.fit(peer.body, epochs=h.body_epochs, lr=h.body_lr, gradient=revealed)


def _sample_runs(guarantee: SampleGuarantee, rounds: int, runs: int, *, canary: bool) -> tuple[list[float], float]:
    """Runs of one peer: the log-likelihood ratio of each, and the epsilon that the peer reports after the first."""
    g = guarantee
    direction = torch.zeros(2 * _WIDTH)
    direction[[0, _WIDTH]] = 0.5**0.5
    records = torch.zeros(_RECORDS - 1 + canary, 2 * _WIDTH)
    for other in range(_RECORDS - 1):  # far too long as well, in coordinates of their own
        records[other, [1 + other, _WIDTH + 1 + other]] = _FAR * g.clip_norm
    if canary:
        records[-1] = _FAR * g.clip_norm * direction
    parts = [slice(_WIDTH, None)] * g.head_steps + [slice(0, None if g.head == "joint" else _WIDTH)] * g.steps
    charge = Charge(g.sampling_rate, g.noise_multiplier, 1)
    values = len(parts) * 2 * _WIDTH + _WIDTH
    found, claimed, base = [], 0.0, torch.zeros(values)
    with _folder() as folder:
        peer = _sample_peer(g, records, folder, rounds * runs, len(parts))
        for run in range(runs):
            along = []
            for number in range(run * rounds, (run + 1) * rounds):
                peer.train(number)
                released = _values(peer.release(number), values)
                gradients = released[:-_WIDTH].view(len(parts), -1).double()
                along += [
                    float(row[part] @ (own := direction[part].double())) / float(own.norm())
                    for row, part in zip(gradients, parts, strict=True)
                ]
                base = _mixed(peer, base, released)
            sums = -np.array(along) * (g.sampling_rate * _RECORDS / g.clip_norm)  # a gradient is minus the inputs
            found.append(float(statistic(sums, charge).sum()))
            if run == 0:
                spent = peer.privacy
                assert spent is not None
                claimed = float(spent["epsilon"])
    return found, claimed


def _sample_peer(g: SampleGuarantee, records: Tensor, folder: Path, rounds: int, steps: int) -> TorchLearner:
    h = Hyperparameters(
        body_epochs=g.steps, head_epochs=max(1, g.head_steps), local_steps=g.steps, body_lr=0.05, head_lr=0.05,
        momentum=0.0, optimizer="sgd", weight_decay=0.0, lr_decay=1.0, grad_clip=None, finish="none", rounds=rounds,
    )  # fmt: skip

    private = PrivacySettings(
        privacy="sample", noise_multiplier=g.noise_multiplier, clip_norm=g.clip_norm, delta=g.delta,
        sampling_rate=g.sampling_rate, records=_RECORDS, dp_head=g.head,
    )  # fmt: skip
    session = SampleSession(PrivacyConfig(private, rounds=rounds), folder, PeerData(records=_RECORDS))
    return build_learner(_task(records), Revealing, h, rank=0, seed=0, session=session, options={"steps": steps})


def check_sample(guarantee: SampleGuarantee, rounds: int, runs: int) -> None:
    """Refuse a claim of which so few runs could leave half the noise unnoticed.

    Raises:
        ConfigurationError: Names a noise multiplier with which they could not, if one is near.
    """

    def able(noise: float) -> bool:
        charges = replace(guarantee, noise_multiplier=noise).charges(rounds)
        return planned_tests(charges, runs, CONFIDENCE).margin > 0.0

    noise = guarantee.noise_multiplier
    if able(noise):
        return
    choices = (float(f"{noise * factor:.2g}") for factor in (0.7, 1.5, 0.5, 2.0, 0.35, 3.0, 0.25, 5.0, 10.0))
    better = next(filter(able, choices), None)
    raise ConfigurationError(
        f"--noise-multiplier {noise:g} with --sampling-rate {guarantee.sampling_rate:g} over "
        f"{guarantee.compositions(rounds)} steps: {runs} runs of each data set could not tell half the noise from all "
        "of it; take more --runs, more steps" + ("" if better is None else f", or --noise-multiplier {better:g}")
    )


# -- both --------------------------------------------------------------------------------------------------------


class _Linear(nn.Module):
    """A linear body beside a linear head: the gradient of a record's output is its inputs, whatever was trained."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = (nn.Linear(_WIDTH, 1, bias=False) for _ in range(2))
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.body(x[:, :_WIDTH]) + self.head(x[:, _WIDTH:])
        return outputs


def _task(inputs: Tensor) -> Task:
    """A task whose gradient is minus the mean of its inputs, shape (records, 2 * _WIDTH)."""
    data = TensorDataset(inputs.float(), torch.ones(len(inputs), 1))
    return Task(
        model=_Linear(), head=("head",), train=data, test=data, draws=False,
        loss=lambda outputs, targets: -(outputs * targets).mean(), metrics=lambda outputs, targets: {},
    )  # fmt: skip


def _mixed(peer: TorchLearner, base: Tensor, released: Tensor) -> Tensor:
    """Mix the neighbor's message, its base, into the peer; returns the base of the next release, as both know it."""
    peer.mix({1: [encode(base)]}, _ROW)
    mixed = torch.empty_like(base)
    weighted_sum(mixed, [([released], _ROW[0]), ([base], _ROW[1])])
    return mixed


def _values(payload: object, count: int) -> Tensor:
    vectors = views(payload, count)  # type: ignore[arg-type]
    assert vectors is not None
    return torch.cat(vectors).clone()


@contextmanager
def _folder() -> Iterator[Path]:
    place = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="dpeer-audit-", dir=place) as folder:
        yield Path(folder)
