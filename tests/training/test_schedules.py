"""Learning rates by round against torch's own schedulers, and phases against the numbers of their streams."""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from dpeer.exceptions import CheckpointError
from dpeer.training import Hyperparameters, TorchLearner, build_learner
from dpeer.training.batch_loader import augmenting, batch_order
from dpeer.training.setting_texts import SCHEDULE, factor
from tests.training.small import small_task

ROUNDS = 12
Scheduler = torch.optim.lr_scheduler
THEIRS: dict[str, Callable[[torch.optim.Optimizer], Scheduler.LRScheduler]] = {
    "exponential": lambda o: Scheduler.ExponentialLR(o, 0.8),
    "step:1": lambda o: Scheduler.ExponentialLR(o, 0.8),
    "step:5": lambda o: Scheduler.StepLR(o, 5, 0.8),
    "cosine": lambda o: Scheduler.CosineAnnealingLR(o, ROUNDS),
}


@pytest.mark.parametrize("schedule", THEIRS)
def test_rates_are_those_of_torchs_schedulers(schedule: str) -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.3)
    theirs = THEIRS[schedule](optimizer)
    h = Hyperparameters(lr_schedule=schedule, lr_decay=0.8, rounds=ROUNDS, body_lr=0.3, head_lr=0.6)
    ours = build_learner(small_task(), "dfedavgm", h, rank=0, seed=0)
    for number in range(ROUNDS):
        ours.trainer.begin(number)
        rate = optimizer.param_groups[0]["lr"]
        assert ours.trainer.rates == pytest.approx((rate, 2 * rate, rate / 0.3), rel=1e-9)
        optimizer.step()
        theirs.step()


def test_the_default_is_what_it_was_to_the_bit() -> None:
    assert Hyperparameters().lr_schedule == "exponential"
    for number in range(100):
        assert 0.05 * factor("exponential", number, decay=0.995, rounds=7) == 0.05 * 0.995**number


@pytest.mark.parametrize("text", ["linear", "step", "step:0", "step:-1", "step:2.5", "cosine:3", "", "Cosine"])
def test_what_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        Hyperparameters(lr_schedule=text)
    assert not re.match(SCHEDULE, text)


def test_a_cosine_ends_with_its_rounds_and_others_do_not(tmp_path: Path) -> None:
    def learner(schedule: str, rounds: int) -> TorchLearner:
        return build_learner(
            small_task(), "dfedmdc", Hyperparameters(lr_schedule=schedule, rounds=rounds), rank=0, seed=0
        )

    for schedule in ("exponential", "step:3", "cosine"):
        (tmp_path / schedule).mkdir()
        learner(schedule, 4).save(tmp_path / schedule)
        learner(schedule, 4).load(tmp_path / schedule)
    learner("exponential", 5).load(tmp_path / "exponential")
    learner("step:3", 5).load(tmp_path / "step:3")
    with pytest.raises(CheckpointError):
        learner("cosine", 5).load(tmp_path / "cosine")


# Warm-up.


def test_a_warm_up_by_hand() -> None:
    """Three rounds below the full rate, a quarter more each time, under the schedule as it is without them."""
    for schedule in ("exponential", "step:2", "cosine"):
        plain = [factor(schedule, t, decay=0.8, rounds=8) for t in range(8)]
        warmed = [factor(f"{schedule}+warmup:3", t, decay=0.8, rounds=8) for t in range(8)]
        assert warmed == pytest.approx([plain[0] / 4, plain[1] / 2, plain[2] * 3 / 4, *plain[3:]], rel=1e-12)
    assert factor("exponential+warmup:1", 0, decay=0.8, rounds=8) == 0.5


# Phases.


def stream(purpose: int, phase: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(3, spawn_key=(purpose, 1, 2, phase, 4)))


def test_known_phases_have_their_numbers_and_all_others_their_hashes() -> None:
    for phase, number in {"head": 0, "body": 1, "model": 2, "personal": 3, "screen": 5}.items():
        assert batch_order(50, 3, 1, 2, phase, 4).tolist() == stream(0, number).permutation(50).tolist()
        assert augmenting(3, 1, 2, phase, 4).random() == stream(8, number).random()
    for phase in ("warm up", "körper", ""):
        number = int.from_bytes(hashlib.sha256(phase.encode()).digest()[:8], "big") | 2**63
        assert batch_order(50, 3, 1, 2, phase, 4).tolist() == stream(0, number).permutation(50).tolist()
        assert augmenting(3, 1, 2, phase, 4).random() == stream(8, number).random()
