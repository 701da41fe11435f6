"""Evaluation: loss, metrics and binary AUROC on test or validation data, of a whole set and row by row."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from dpeer.exceptions import TaskError
from dpeer.training.batch_loader import Batches, predict
from dpeer.training.device import mapped
from dpeer.training.errors import blame, described
from dpeer.training.measures import auroc
from dpeer.training.objective import classification_metrics
from dpeer.training.task import Loss, Metrics

_BATCH = 256  # bounds memory; part of the results' last bits, so it does not follow --batch-size


@dataclass(frozen=True)
class Evaluation:
    """How well a model does on a peer's own test data.

    Attributes:
        accuracy: Share of correct predictions in 0..1; None where the task has no metric of that name.
        test_loss: Mean loss over the test data.
        metrics: Every metric of the task, by name.
        training_accuracy: The accuracy on the peer's own training data; None where that was not asked for.
        auroc: The area under the ROC curve of two classes; None for other data.
    """

    accuracy: float | None
    test_loss: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    training_accuracy: float | None = None
    auroc: float | None = None


def evaluate(model: nn.Module, data: Batches, loss: Loss, metrics: Metrics) -> tuple[Evaluation, list[Any], list[Any]]:
    """Evaluate the model as it is on test data; also returns outputs and targets, a list of batches each.

    Metrics get outputs and targets of the whole set, on the host.

    Raises:
        TaskError: The model, the loss, the metrics or the data raised, or gave what cannot be used.
    """
    outputs: list[Any] = []
    targets: list[Any] = []
    with _evaluating(model):
        mean = mean_loss(model, data, loss, outputs, targets)
        with blame("the task's metrics failed"):
            found = metrics(*joined) if (joined := _both(outputs, targets, metrics)) else {}
    if not isinstance(found, Mapping):
        raise TaskError(f"the task's metrics gave a {type(found).__name__}; they must give a dict of name to number")
    values: dict[str, float] = {}
    for name, value in found.items():
        with blame(f"the task's metric {name!r} is not a number"):
            values[str(name)] = float(value)
    return Evaluation(values.get("accuracy"), mean, values, auroc=_auroc(outputs, targets)), outputs, targets


def _auroc(outputs: list[Any], targets: list[Any]) -> float | None:
    """The AUROC of two classes. Of more it takes a sort for each, and their mean recall says as much."""
    if not outputs or not all(isinstance(one, Tensor) and one.ndim == 2 and one.shape[1] == 2 for one in outputs):
        return None
    return _area(outputs, targets)


def predictions(model: nn.Module, data: Batches) -> tuple[Tensor, Tensor] | None:
    """All outputs and targets, on the host; None where they are not one tensor each, with a row for each sample.

    Raises:
        TaskError: The model or the data raised.
    """
    outputs: list[Any] = []
    targets: list[Any] = []
    with _evaluating(model):
        for inputs, target, _ in data.in_order(_BATCH):
            with data.compute.autocast(), blame(f"the task's model failed on its {data.name} data"):
                output = data.compute.full(predict(model, inputs))
            for part in (output, target):
                if not isinstance(part, Tensor) or not 1 <= part.ndim <= 2:
                    return None
            outputs.append(output.cpu())
            targets.append(target.cpu())
    return torch.cat(outputs), torch.cat(targets)


def mean_loss(
    model: nn.Module,
    data: Batches,
    loss: Loss,
    outputs: list[Any] | None = None,
    targets: list[Any] | None = None,
) -> float:
    """The model's mean loss over the data; lists get the outputs and targets of each batch.

    Raises:
        TaskError: The model, the loss or the data raised.
    """
    losses: list[tuple[Any, Any, int]] = []
    with _evaluating(model):
        for inputs, target, count in data.in_order(_BATCH):
            with data.compute.autocast():
                with blame(f"the task's model failed on its {data.name} data", partial(described, inputs=inputs)):
                    output = data.compute.full(predict(model, inputs))
                given = partial(described, outputs=output, targets=target)
                with blame(f"the task's loss failed on its {data.name} data", given):
                    value = loss(output, target)
                    # Elsewhere a number is only waited for when all batches are under way.
                    number = float(value) if data.compute.on_host else value
            asked = not data.compute.on_host or math.isnan(number)
            losses.append((number, target if asked else None, count))
            if outputs is not None and targets is not None:
                outputs.append(output)
                targets.append(target)
    total, rows = 0.0, len(data)
    with blame(f"the task's loss failed on its {data.name} data"):
        for value, target, count in losses:
            if math.isnan(float(value)) and _is_unlabelled(target):
                rows -= count
            else:
                total += float(value) * count
    return total / rows if rows else math.nan


def _is_unlabelled(targets: Any) -> bool:
    """Whether a batch has class numbers that are all negative, of which cross-entropy has no mean."""
    return isinstance(targets, Tensor) and not targets.is_floating_point() and not (targets >= 0).any()


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    training = model.training
    model.eval()
    try:
        # Not inference mode: a module that keeps a tensor from here could never train with it again.
        with torch.no_grad():
            yield
    finally:
        model.train(training)


def _both(outputs: list[Any], targets: list[Any], metrics: Metrics) -> tuple[Any, Any] | None:
    """All outputs and all targets; None if they are such that the default metrics cannot be computed."""
    if metrics is classification_metrics and not (isinstance(outputs[0], Tensor) and isinstance(targets[0], Tensor)):
        return None
    # Metrics are mostly computed by numpy or scikit-learn, which know no other device.
    return mapped(_joined(outputs), Tensor.cpu), mapped(_joined(targets), Tensor.cpu)


def _joined(parts: list[Any]) -> Any:
    """Join batches into one: tensors along their first dimension; tuples, lists and dictionaries item by item."""
    first = parts[0]
    if isinstance(first, Tensor):
        return torch.cat(parts) if first.ndim else torch.stack(parts)
    if isinstance(first, dict):
        return {key: _joined([part[key] for part in parts]) for key in first}
    if isinstance(first, tuple | list):
        return tuple(_joined(list(items)) for items in zip(*parts, strict=True))
    raise TypeError(f"cannot join the batches' outputs or targets of type {type(first).__name__}")


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

    The mean over the rows must agree with the figures of the whole set. Outputs and targets are a batch each.

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

    Test data are a batch each: inputs, targets and the number of rows.

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
