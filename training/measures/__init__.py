"""End-of-run metrics of a model, with 95 % confidence intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpeer.training.measures.classification import auroc_of, measure_classes
from dpeer.training.measures.intervals import UNDEFINED, Numbers, Whole, bootstrap

Measured = dict[str, Any]
"""Plain JSON values; see `measure`."""


def measure(outputs: Any, targets: Any, classes: tuple[str, ...] = (), *, values: bool = False) -> Measured | None:
    """Measure predictions of a classifier or of a regression.

    Args:
        outputs: Class scores, shape (rows, classes), or predicted values, shape (rows, 1).
        targets: Class numbers, an integer type, shape (rows,), or values, shape (rows, 1).
        classes: The classes' names in the order of their numbers; their numbers stand for those without a name.
        values: Whether numbers are predicted.

    Returns:
        ``{"kind", "rows", "values": {name: {"value", "low", "high"}}, ...}``, for a classification also "positive",
        "classes" and "confusion"; see docs/models.md. A value of None is undefined.
        None where the outputs are neither class scores for class numbers nor values.
    """
    if not isinstance(outputs, Tensor) or not isinstance(targets, Tensor) or not len(outputs):
        return None
    outputs, targets = outputs.detach().cpu(), targets.detach().cpu()
    if values:
        if outputs.shape != targets.shape or outputs.numel() != len(outputs):
            return None
        return _measure_values(outputs.double().numpy().reshape(-1), targets.double().numpy().reshape(-1))
    found = classified(outputs, targets)
    if found is None:
        return None
    names = tuple(classes[number] if number < len(classes) else str(number) for number in range(outputs.shape[1]))
    return measure_classes(*found, names)


def auroc(outputs: Tensor, targets: Tensor) -> float | None:
    """The AUROC alone, without its interval, as `measure` has it; None if it is undefined."""
    found = classified(outputs.detach().cpu(), targets.detach().cpu())
    return None if found is None or not np.isfinite(found[0]).all() else auroc_of(*found)


def classified(outputs: Tensor, targets: Tensor) -> tuple[Numbers, Whole, Whole] | None:
    """Predicted probabilities, predicted classes and true ones; None where these are no scores of classes."""
    if outputs.ndim != 2 or outputs.shape[1] < 2 or not outputs.is_floating_point():
        return None
    if targets.ndim != 1 or targets.is_floating_point() or targets.is_complex() or len(targets) != len(outputs):
        return None
    counted = targets >= 0  # cross-entropy ignores -100
    outputs, targets = outputs[counted], targets[counted].long()
    if not len(targets) or int(targets.max()) >= outputs.shape[1]:
        return None
    shares = torch.softmax(outputs.double(), dim=1)
    # The class is what the model's own numbers say: rounding of shares must not decide about two that are close.
    return shares.numpy(), outputs.argmax(dim=1).numpy(), targets.numpy()


def plain(figures: Measured | None) -> dict[str, float | None]:
    """The values alone, by name."""
    return {name: value["value"] for name, value in (figures or {"values": {}})["values"].items()}


def _measure_values(predicted: Numbers, truth: Numbers) -> dict[str, Any]:
    figures: dict[str, Any] = {"kind": "regression", "rows": len(truth)}
    if not np.isfinite(predicted).all():
        return figures | {"values": dict.fromkeys(("mae", "rmse", "r2"), UNDEFINED)}
    ends = bootstrap(lambda weights: _errors(weights, predicted, truth), len(truth))
    found = {name: float(one) for name, (one,) in _errors(np.ones((1, len(truth))), predicted, truth).items()}
    if len(np.unique(truth)) == 1:
        del found["r2"]
    values = {name: {"value": value, "low": ends[name][0], "high": ends[name][1]} for name, value in found.items()}
    if "r2" not in values:
        values["r2"] = UNDEFINED
    return figures | {"values": values}


def _errors(weights: Numbers, predicted: Numbers, truth: Numbers) -> dict[str, Numbers]:
    count = weights.sum(axis=1)
    errors = predicted - truth
    squares = weights @ errors**2
    moved = truth - truth.mean()  # around the mean, or squares of large values leave no digits for their differences
    spread = weights @ moved**2 - (weights @ moved) ** 2 / count
    # A resample of one value has a spread of rounding errors.
    known = spread > 1e-12 * (moved**2).sum()
    r2 = np.where(known, 1 - squares / np.where(known, spread, 1.0), np.nan)
    return {"mae": weights @ np.abs(errors) / count, "rmse": np.sqrt(squares / count), "r2": r2}


__all__ = ["Measured", "auroc", "classified", "measure", "plain"]
