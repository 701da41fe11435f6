"""What a peer's training is watched by: the losses and accuracies that say it goes wrong, and what to try then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpeer.federation.settings import Settings
from dpeer.results.signs import Watch, guessing_loss
from dpeer.results.worth import majority
from dpeer.training import Algorithm, Task


def watch_of(task: Task, algorithm: type[Algorithm], facts: Mapping[str, Any], settings: Settings) -> Watch:
    """The watch over a peer.

    Args:
        task: The peer's.
        algorithm: The peer's.
        facts: What summary.json says of the peer's samples.
        settings: All values as they are used.
    """
    train, evaluated = facts["class_counts"], facts["evaluated_class_counts"]
    return Watch(
        chance=guessing_loss(train) if task.loss is None else None,
        majority=majority(train, evaluated),
        classes=sum(count > 0 for count in evaluated or ()),
        advice=_advice(algorithm, settings),
    )


def _advice(algorithm: type[Algorithm], settings: Settings) -> list[str]:
    rates = f"--body-lr {settings.body_lr / 5:g}"
    if "head_lr" in algorithm.settings():
        rates += f" --head-lr {settings.head_lr / 5:g}"
    found = [rates]
    if not settings.standardize:
        found.append("--standardize")
    if settings.grad_clip is None:
        found.append("--grad-clip 10")
    if "rho" in algorithm.settings() and settings.rho > 0:
        found.append(f"--rho {settings.rho / 5:g}")
    return [*found, "or `dpeer tune`"]
