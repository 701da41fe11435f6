"""Training loss: the task's own, or cross-entropy with optional class weights."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from dpeer.exceptions import TaskError
from dpeer.training.batch_loader import Batches
from dpeer.training.settings import ClassWeights
from dpeer.training.task import Loss, Task

_AT_ONCE = 256


def objective(task: Task, class_weights: ClassWeights, data: Batches) -> Loss:
    """The loss that a peer trains with.

    Args:
        task: The task; its own loss, if it has one, is taken as it is.
        class_weights: How the classes of cross-entropy are weighted.
        data: The training data, in which the classes are counted.

    Raises:
        TaskError: Weights were asked for where the loss is not cross-entropy, or targets are no class numbers.
    """
    if class_weights == "none":
        return task.loss or cross_entropy
    if task.loss is not None:
        raise TaskError(
            "--class-weights balanced weights the classes of cross-entropy, and this task has another loss: leave it "
            "out (your own loss can weight classes itself; kind=regression has none)"
        )
    weights = balanced(counted(data, "--class-weights balanced"))

    def weighted(outputs: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy, the mean over the batch by the weights of its samples' classes."""
        more = max(0, outputs.shape[1] - len(weights))  # classes beyond those that occur have no sample to weight
        own = torch.nn.functional.pad(weights, (0, more), value=1.0)[: outputs.shape[1]]
        return cross_entropy(outputs, targets, weight=own.to(outputs))

    return weighted


def balanced(counts: Tensor) -> Tensor:
    """Weights with which every class that occurs counts the same in all, and a sample counts 1 on average.

    As ``compute_class_weight("balanced", ...)`` of scikit-learn has them (King, Zeng: Logistic Regression in Rare
    Events Data, 2001): the number of samples, divided by the number of classes and by the class's own number.

    Args:
        counts: Samples by class, shape (classes,).

    Returns:
        Shape (classes,), float32; 1 for a class without samples.
    """
    present = counts > 0
    share = counts.sum() / (present.sum() * counts.clamp(min=1))
    return torch.where(present, share, torch.ones_like(share)).to(torch.float32)


def counted(data: Batches, who: str) -> Tensor:
    """How many samples there are of each class that occurs, shape (largest class number + 1,), int64, on the host.

    Args:
        data: The samples; targets below 0, which cross-entropy ignores, do not count.
        who: What needs the counts, for the message.

    Raises:
        TaskError: The targets are no class numbers.
    """
    counts = torch.zeros(0, dtype=torch.int64, device="cpu")
    for _, targets, _ in data.in_order(_AT_ONCE):
        if not isinstance(targets, Tensor) or targets.dtype != torch.int64 or targets.ndim != 1:
            raise TaskError(f"{who} counts classes: the task's targets must be one class number (int64) per sample")
        found = torch.bincount(targets.cpu()[targets.cpu() >= 0], minlength=len(counts))
        found[: len(counts)] += counts
        counts = found
    return counts
