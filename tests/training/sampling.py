"""Learners whose local steps are private at sample level, for tests."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dpeer.privacy import StepLedger
from dpeer.privacy.step_protection import StepProtection
from dpeer.privacy.steps import Mechanism, Phase
from dpeer.training import Hyperparameters, Task, TorchLearner
from dpeer.training.dpsgd_trainer import Sampling


def sampled(
    task: Task,
    folder: Path,
    algorithm: Any = "dfedmdc",
    *,
    rate: float = 0.5,
    noise: float = 1.0,
    clip_norm: float = 1.0,
    units: int = 32,
    delta: float = 1e-5,
    budget: float | None = None,
    rounds: int = 3,
    resume: bool = False,
    rank: int = 0,
    options: Any = None,
    hyper: dict[str, Any] | None = None,
    training_accuracy: bool = False,
    **sampling: Any,
) -> TorchLearner:
    """A learner; what it takes besides is `Sampling`'s."""

    def protect(phases: Sequence[Phase]) -> StepProtection:
        unit = "record" if sampling.get("groups") is None else "group"
        mechanism = Mechanism(rate, noise, clip_norm, delta, sampling.get("head", "joint"), unit, units)
        ledger = StepLedger(folder, asdict(mechanism), resume=resume)
        return StepProtection(mechanism, ledger, phases, budget=budget, rounds=rounds)

    h = Hyperparameters(
        **{"body_epochs": 1, "head_epochs": 1, "grad_clip": None, "finish": "none", "rounds": rounds, **(hyper or {})}
    )
    return TorchLearner(
        task,
        algorithm,
        h,
        rank=rank,
        seed=0,
        options=options,
        training_accuracy=training_accuracy,
        sampling=Sampling(rate, protect, **sampling),
    )
