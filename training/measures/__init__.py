"""The full set of figures of a model, with 95 % intervals: for the end of a run, not each round."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpeer.training.measures.classification import Numbers, Whole, auroc_of, measure_classes
from dpeer.training.measures.regression import measure_values

Figures = dict[str, Any]
"""Plain JSON values; see `measure`."""


def measure(outputs: Any, targets: Any, classes: tuple[str, ...] = (), *, values: bool = False) -> Figures | None:
    """Measure predictions of a classifier or of a regression.

    Args:
        outputs: Class scores, shape (rows, classes), or predicted values, shape (rows, 1).
        targets: Class numbers, an integer type, shape (rows,), or values, shape (rows, 1).
        classes: The classes' names in the order of their numbers; their numbers stand for those without a name.
        values: Whether numbers are predicted.

    Returns:
        ``{"kind", "rows", "values": {name: {"value", "low", "high"}}, ...}``, for a classification also "positive",
        "classes", "confusion" and "calibration"; see docs/models.md. A value of None is undefined; see "why".
        None where the outputs are neither class scores for class numbers nor values.
    """
    if not isinstance(outputs, Tensor) or not isinstance(targets, Tensor) or not len(outputs):
        return None
    outputs, targets = outputs.detach().cpu(), targets.detach().cpu()
    if values:
        if outputs.shape != targets.shape or outputs.numel() != len(outputs):
            return None
        return measure_values(outputs.double().numpy().reshape(-1), targets.double().numpy().reshape(-1))
    found = _classified(outputs, targets)
    if found is None:
        return None
    names = tuple(classes[number] if number < len(classes) else str(number) for number in range(outputs.shape[1]))
    return measure_classes(*found, names)


def auroc(outputs: Tensor, targets: Tensor) -> float | None:
    """The AUROC alone, without its interval, as `measure` has it; None where there is none."""
    found = _classified(outputs.detach().cpu(), targets.detach().cpu())
    return None if found is None or not np.isfinite(found[0]).all() else auroc_of(*found)


def _classified(outputs: Tensor, targets: Tensor) -> tuple[Numbers, Whole, Whole] | None:
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


def plain(figures: Figures | None) -> dict[str, float | None]:
    """The values alone, by name."""
    return {name: value["value"] for name, value in (figures or {"values": {}})["values"].items()}


__all__ = ["Figures", "auroc", "measure", "plain"]
