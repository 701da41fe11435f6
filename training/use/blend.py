"""Blend of the federated and the local-only model: the mean of their probabilities, weighted by validation loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dpeer.training.batch_loader import Batches
from dpeer.training.device import Compute
from dpeer.training.evaluation import predictions
from dpeer.training.measures import classified
from dpeer.training.objective import predicts_values
from dpeer.training.task import Loss, Task

STEPS = 20
"""Intervals in the grid of weights that are tried, from 0 to 1."""


class Blend(nn.Module):
    """Gives the logarithm of the weighted mean of its members' probabilities, so its softmax is that mean.

    Args:
        members: Models of the same inputs, which give class scores, shape (rows, classes).
        weights: One for each, from 0 to 1; their sum is 1.
    """

    def __init__(self, members: Sequence[nn.Module], weights: Sequence[float]) -> None:
        super().__init__()
        self.members, self.weights = nn.ModuleList(members), tuple(weights)

    def forward(self, *inputs: Any, **named: Any) -> Tensor:
        """Log-probabilities, shape (rows, classes)."""
        return log_mean([member(*inputs, **named) for member in self.members], self.weights)


def log_mean(scores: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    """The logarithm of the weighted mean of several softmaxes, of class scores of shape (rows, classes) each.

    Without a detour over probabilities, which underflow.
    """
    logs = [math.log(weight) if weight else -math.inf for weight in weights]
    parts = [torch.log_softmax(one, dim=1) + log for one, log in zip(scores, logs, strict=True)]
    return torch.logsumexp(torch.stack(parts), dim=0)


@dataclass(frozen=True)
class BlendFit:
    """What validation data say of two models."""

    weight: float
    """The first one's share of the blend, 0 to 1; the second has the rest."""
    losses: tuple[float, float, float]
    """The mean loss of the first model, of the second, and of the blend."""


def fit_weight(first: Tensor, second: Tensor, targets: Tensor, loss: Loss = cross_entropy) -> BlendFit | None:
    """The weight of the first of two models in their blend.

    It is the mean of w = 0, 1 / `STEPS`, ..., 1, each weighted by the likelihood exp(-n L(w)) of the n rows, L(w) being
    the blend's mean loss: the posterior mean of a mixture's weight under a uniform prior. Few rows leave it near one
    half, where the w of the lowest loss would follow each of them.

    Args:
        first: Its class scores, shape (rows, classes).
        second: The other one's.
        targets: Class numbers, shape (rows,); negative ones do not count.
        loss: The mean over the rows; of class scores.

    Returns:
        None where no w has a finite loss, or a loss is not a number.
    """
    scores, rows = (first.double(), second.double()), int((targets >= 0).sum())

    def mean_loss(weight: float) -> float:
        return float(loss(log_mean(scores, (weight, 1 - weight)), targets))

    tried = torch.arange(STEPS + 1, dtype=torch.float64) / STEPS
    losses = [mean_loss(weight) for weight in tried.tolist()]
    likelihood = torch.softmax(-rows * torch.tensor(losses, dtype=torch.float64), dim=0)
    if not rows or not likelihood.isfinite().all():
        return None
    weight = min(1.0, float(likelihood @ tried))  # sums are rounded
    return BlendFit(weight, (losses[-1], losses[0], mean_loss(weight)))


def why_unsuited(task: Task) -> str | None:
    """Why the models of a task cannot be blended, whatever they are like; None if they may be."""
    if predicts_values(task.loss):
        return "values are predicted, not classes"
    if task.loss not in (None, cross_entropy):
        return "the task has a loss of its own, in which log-probabilities need not make sense"
    return None


def fit_on_validation(first: nn.Module, second: nn.Module, task: Task, loss: Loss, compute: Compute) -> BlendFit | str:
    """Weigh the federated and the local-only model on the task's validation data; the reason where they do not blend.

    Raises:
        TaskError: The task's model or data raised.
    """
    if (why := why_unsuited(task)) is not None:
        return why
    data = Batches("validation", task.validation, task.collate, compute)
    found = [predictions(model, data) for model in (first, second)]
    if found[0] is None or found[1] is None or any(classified(*one) is None for one in found if one):
        return "the models' outputs are not class scores of shape (rows, classes) for class numbers"
    (scores, targets), (others, _) = found[0], found[1]
    weighed = fit_weight(scores, others, targets, loss)
    return "their validation loss is not finite" if weighed is None else weighed
