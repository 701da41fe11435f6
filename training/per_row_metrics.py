"""Accuracy or loss of a model on each row of its test data, for paired comparisons."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from dpeer.training.device import mapped
from dpeer.training.evaluation import Evaluation
from dpeer.training.measures import auroc
from dpeer.training.task import Loss

_ALIKE = 1e-4
"""How far the mean over the rows may be from the figure of the whole set, as a share of it: sums are rounded."""

_MOST = 20_000
"""Rows up to which a task's loss is called for each."""


@dataclass(frozen=True)
class Rows:
    """A figure of each row; its mean is that of the whole set.

    Attributes:
        measure: "accuracy": 1 where the row is predicted rightly, else 0; "test_loss": the row's loss.
        values: A number for each row, in the order of the data.
        auroc: The area under the ROC curve of all rows, the mean over the classes that occur; None without
            classes, as in a regression.
    """

    measure: Literal["accuracy", "test_loss"]
    values: tuple[float, ...]
    auroc: float | None = None


def find_rows(found: Evaluation, outputs: Sequence[Any], targets: Sequence[Any], loss: Loss) -> Rows | None:
    """The accuracy of each row, or its loss where rows are neither right nor wrong.

    Args:
        found: The figures of the whole set, which the mean over the rows must agree with.
        outputs: The model's outputs, a batch each.
        targets: The targets, a batch each.
        loss: As in `Task`.

    Returns:
        None where neither is a mean over rows, or one is not finite.
    """
    if found.accuracy is not None:
        for right in _rights(outputs, targets):
            if _agree(right, found.accuracy):
                return Rows("accuracy", tuple(right), _area(outputs, targets))
    losses = _losses(outputs, targets, loss)
    return Rows("test_loss", tuple(losses)) if losses and _agree(losses, found.test_loss) else None


def _area(outputs: Sequence[Any], targets: Sequence[Any]) -> float | None:
    if not all(isinstance(one, Tensor) for one in (*outputs, *targets)):
        return None
    return auroc(torch.cat(list(outputs)), torch.cat(list(targets)))


def _agree(values: Sequence[float], whole: float) -> bool:
    mean = math.fsum(values) / len(values) if values else math.nan
    return math.isfinite(mean) and math.isclose(mean, whole, rel_tol=_ALIKE, abs_tol=1e-6)


def _rights(outputs: Sequence[Any], targets: Sequence[Any]) -> Iterator[list[float]]:
    """Which rows are predicted rightly, in the ways in which classifiers give their answers."""
    if not all(isinstance(one, Tensor) for one in (*outputs, *targets)) or not targets[0].ndim:
        return
    answers, truth = torch.cat(list(outputs)).cpu(), torch.cat(list(targets)).cpu()
    if truth.ndim == 1 and answers.ndim == 2 and len(truth) == len(answers) and answers.shape[1] > 1:
        yield (answers.argmax(dim=1) == truth)[truth >= 0].double().tolist()  # cross-entropy ignores -100
    elif answers.numel() == truth.numel() == len(truth):  # one score a row: a logit, or a probability
        for threshold in (0.0, 0.5):
            yield ((answers.reshape(-1) > threshold) == (truth.reshape(-1) > 0.5)).double().tolist()


def _losses(outputs: Sequence[Any], targets: Sequence[Any], loss: Loss) -> list[float]:
    """The loss of each row; empty where the loss cannot be computed of one."""
    found: list[float] = []
    for output, target in zip(outputs, targets, strict=True):
        count = _length(target)
        if count is None or len(found) + count > _MOST:
            return []
        for row in range(count):
            try:
                with torch.no_grad():
                    found.append(float(loss(_cut(output, row), _cut(target, row))))
            except Exception:  # the user's code, which need not know single rows
                return []
    return found


def _length(value: Any) -> int | None:
    """The number of rows in a batch of targets."""
    if isinstance(value, Tensor):
        return len(value) if value.ndim else None
    if isinstance(value, dict):
        value = list(value.values())
    return _length(value[0]) if isinstance(value, tuple | list) and value else None


def _cut(value: Any, row: int) -> Any:
    return mapped(value, lambda tensor: tensor[row : row + 1])


def constant_loss(train: Tensor | None, test: Iterator[tuple[Any, Any, int]], loss: Loss) -> float | None:
    """The test loss of always answering the mean of the training targets.

    Args:
        train: The training targets; None where they do not lie in one tensor.
        test: The test data, a batch each: inputs, targets and the number of rows.
        loss: As in `Task`.

    Returns:
        None where targets are no floating-point numbers, or the loss cannot be computed of them alone.
    """
    if train is None or not train.is_floating_point():
        return None
    mean, found, count = train.mean(dim=0, keepdim=True), 0.0, 0
    for _, targets, size in test:
        try:
            found += float(loss(mean.expand_as(targets), targets)) * size
        except Exception:  # the user's code, whose outputs may be of another shape
            return None
        count += size
    return found / count if math.isfinite(found) else None
