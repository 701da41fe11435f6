"""Thresholds and advice of a peer's training alerts, from its task, algorithm and settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpeer.federation.settings import Settings
from dpeer.results.effect import majority_accuracy
from dpeer.results.training_alerts import AlertMonitor, guessing_loss
from dpeer.training import BUILTIN_TASKS, Algorithm, Task


def alert_monitor(task: Task, algorithm: type[Algorithm], facts: Mapping[str, Any], settings: Settings) -> AlertMonitor:
    """The watch over a peer.

    Args:
        task: The peer's.
        algorithm: The peer's.
        facts: What summary.json says of the peer's samples.
        settings: All values as they are used.
    """
    train, evaluated = facts["class_counts"], facts["evaluated_class_counts"]
    return AlertMonitor(
        chance=guessing_loss(train) if task.loss is None else None,
        majority=majority_accuracy(train, evaluated),
        classes=sum(count > 0 for count in evaluated or ()),
        slower=_advice(algorithm, settings, "{:g}", 1 / 5),
        other=_advice(algorithm, settings, "{:g} or {:g}", 1 / 5, 5),
        steadier=["--grad-clip 1"] if settings.grad_clip is None else _advice(algorithm, settings, "{:g}", 1 / 5),
        private=settings.privacy != "none",
    )


def _advice(algorithm: type[Algorithm], settings: Settings, rates: str, *factors: float) -> list[str]:
    """What to try, in the words of the command line: rates that are so many times those that are used, first of all."""
    found = [f"--body-lr {rates.format(*(settings.body_lr * factor for factor in factors))}"]
    if "head_lr" in algorithm.settings():
        found.append(f"--head-lr {rates.format(*(settings.head_lr * factor for factor in factors))}")
    if settings.task in BUILTIN_TASKS and not settings.standardize and settings.privacy != "sample":
        found.append("--standardize")
    if settings.grad_clip is None:
        found.append("--grad-clip 1")
    if "rho" in algorithm.settings() and settings.rho > 0:
        found.append(f"--rho {settings.rho / 5:g}")
    # What is chosen by data without noise, and told to others, is no advice to a private peer.
    return found if settings.privacy != "none" else [*found, "or `dpeer tune`"]
