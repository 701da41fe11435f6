"""Thresholds and advice of a peer's training alerts, from its task, algorithm and settings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from dpeer.privacy.settings import PrivacySettings
from dpeer.results.effect import majority_accuracy
from dpeer.results.training_alerts import AlertMonitor, guessing_loss
from dpeer.training import BUILTIN_TASKS, Algorithm, Task
from dpeer.training.settings import DataPart, TrainingPart


def alert_monitor(
    task: Task,
    algorithm: type[Algorithm],
    facts: Mapping[str, Any],
    training: TrainingPart,
    data: DataPart,
    privacy: PrivacySettings,
) -> AlertMonitor:
    """The watch over a peer.

    Args:
        task: The peer's.
        algorithm: The peer's.
        facts: What summary.json says of the peer's samples.
        training: How it trains.
        data: Its task.
        privacy: Its privacy.
    """
    advice = partial(_advice, algorithm, training, data, privacy.privacy)
    train, evaluated = facts["class_counts"], facts["evaluated_class_counts"]
    return AlertMonitor(
        chance=guessing_loss(train) if task.loss is None else None,
        majority=majority_accuracy(train, evaluated),
        classes=sum(count > 0 for count in evaluated or ()),
        slower=advice("{:g}", 1 / 5),
        other=advice("{:g} or {:g}", 1 / 5, 5),
        steadier=["--grad-clip 1"] if training.grad_clip is None else advice("{:g}", 1 / 5),
        private=privacy.privacy != "none",
    )


def _advice(
    algorithm: type[Algorithm], training: TrainingPart, data: DataPart, privacy: str, rates: str, *factors: float
) -> list[str]:
    """What to try, in the words of the command line: rates that are so many times those that are used, first of all."""
    found = [f"--body-lr {rates.format(*(training.body_lr * factor for factor in factors))}"]
    if "head_lr" in algorithm.settings():
        found.append(f"--head-lr {rates.format(*(training.head_lr * factor for factor in factors))}")
    if data.task in BUILTIN_TASKS and not data.standardize and privacy != "sample":
        found.append("--standardize")
    if training.grad_clip is None:
        found.append("--grad-clip 1")
    if "rho" in algorithm.settings() and training.rho > 0:
        found.append(f"--rho {training.rho / 5:g}")
    # What is chosen by data without noise, and told to others, is no advice to a private peer.
    return found if privacy != "none" else [*found, "or `dpeer tune`"]
