"""What a task is scored by when it brings no metrics of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def classification_metrics(outputs: Any, targets: Any) -> dict[str, float]:
    """Accuracy and balanced accuracy of a classifier.

    Balanced accuracy is the mean recall over the classes that occur in `targets`, as in scikit-learn.

    Args:
        outputs: Scores, shape (samples, classes, ...).
        targets: Class numbers, shape (samples, ...), of an integer type.

    Returns:
        ``{"accuracy": ..., "balanced_accuracy": ...}``, shares in 0..1; nothing where the targets are not class
        numbers (a regression, say).
    """
    if not isinstance(outputs, Tensor) or not isinstance(targets, Tensor):
        return {}
    if targets.is_floating_point() or targets.is_complex() or targets.ndim != outputs.ndim - 1:
        return {}
    truth = targets.reshape(-1).long()
    right = (outputs.argmax(dim=1).reshape(-1) == truth).double()
    per_class = torch.zeros(int(truth.max()) + 1, dtype=torch.float64).index_add_(0, truth, right)
    count = torch.bincount(truth)
    present = count > 0
    recall = per_class[present] / count[present]
    return {"accuracy": right.mean().item(), "balanced_accuracy": recall.mean().item()}
