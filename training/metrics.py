"""Metrics of classification and regression, for tasks that bring none of their own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

_LOSSES = (functional.mse_loss, functional.l1_loss, functional.smooth_l1_loss, functional.huber_loss)
_LOSS_MODULES = (nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss)


def predicts_values(loss: Any) -> bool:
    """Whether a task's loss is one of torch's for numbers, not classes."""
    return loss in _LOSSES or isinstance(loss, _LOSS_MODULES)


def classification_metrics(outputs: Any, targets: Any) -> dict[str, float]:
    """Accuracy and balanced accuracy of a classifier.

    Balanced accuracy is the mean recall over the classes that occur in `targets`, as in scikit-learn.

    Args:
        outputs: Scores, shape (samples, classes, ...).
        targets: Class numbers, shape (samples, ...), of an integer type.

    Returns:
        ``{"accuracy": ..., "balanced_accuracy": ...}``, shares in 0..1; nothing where this is no classification by the
        largest score (a regression, one score per sample, scores in another order). Negative targets do not count:
        cross-entropy ignores -100.
    """
    if not isinstance(outputs, Tensor) or not isinstance(targets, Tensor):
        return {}
    if targets.is_floating_point() or targets.is_complex() or outputs.ndim < 2 or outputs.shape[1] < 2:
        return {}
    if targets.shape != outputs.shape[:1] + outputs.shape[2:]:
        return {}
    truth, guess = targets.reshape(-1).long(), outputs.argmax(dim=1).reshape(-1)
    truth, guess = truth[truth >= 0], guess[truth >= 0]
    if not truth.numel() or truth.max() >= outputs.shape[1]:
        return {}
    right = (guess == truth).double()
    per_class = torch.zeros(int(truth.max()) + 1, dtype=torch.float64).index_add_(0, truth, right)
    count = torch.bincount(truth)
    present = count > 0
    recall = per_class[present] / count[present]
    return {"accuracy": right.mean().item(), "balanced_accuracy": recall.mean().item()}


def regression_metrics(outputs: Any, targets: Any) -> dict[str, float]:
    """Errors of a regression: mean absolute (MAE), root of the mean squared (RMSE), and R2.

    Args:
        outputs: Predicted values, shape (samples, 1).
        targets: Values, the same shape.

    Returns:
        ``{"mae": ..., "rmse": ..., "r2": ...}``; without R2, the share of the variance that is predicted, where all
        targets are the same, so that they have none.
    """
    errors, truth = (outputs - targets).double(), targets.double()
    squares, spread = errors.square().sum().item(), (truth - truth.mean()).square().sum().item()
    found = {"mae": errors.abs().mean().item(), "rmse": errors.square().mean().sqrt().item()}
    return found | ({"r2": 1.0 - squares / spread} if spread > 0 else {})
