"""Training loss with class weights, class counts, and a check for losses that broadcast outputs on targets."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dpeer.exceptions import TaskError
from dpeer.training.batch_loader import Batches
from dpeer.training.metrics import predicts_values
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
        TaskError: Weights were asked for, and targets are no class numbers.
    """
    if task.loss is not None or class_weights == "none":
        return task.loss or cross_entropy
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
    """The number of samples of each class that occurs, shape (largest class number + 1,), int64, on the host.

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


def check_broadcast(loss: Loss, outputs: Any, targets: Any) -> None:
    """Refuse a loss that compares each output with the targets of all examples.

    Whether a loss brings the two into one shape itself is seen from made-up values, since a batch's may be all alike.

    Args:
        loss: The task's.
        outputs: A batch's outputs.
        targets: Its targets.

    Raises:
        TaskError: It does.
    """
    if not isinstance(outputs, Tensor) or not isinstance(targets, Tensor) or outputs.numel() != targets.numel():
        return
    try:
        together = torch.broadcast_shapes(outputs.shape, targets.shape)  # type: ignore[no-untyped-call]
        mixed = together.numel() > outputs.numel()
        if mixed and not predicts_values(loss):
            made = torch.linspace(0.25, 0.75, outputs.numel(), dtype=torch.float32, device=outputs.device)
            wanted = made.flip(0).reshape(targets.shape)
            with torch.no_grad():
                mixed = not torch.allclose(
                    loss(made.reshape(outputs.shape), wanted), loss(made.reshape(targets.shape), wanted)
                )
    except Exception:  # the task's code, which need not know such shapes
        return
    if mixed:
        advice = "targets as .unsqueeze(1)" if outputs.ndim > targets.ndim else "targets as .squeeze(1)"
        raise TaskError(
            f"the task's loss compares each output with all targets: the outputs have shape {tuple(outputs.shape)} and "
            f"the targets {tuple(targets.shape)}, which torch broadcasts to one table: give {advice}"
        )


Part = Literal["train", "validation", "test"]


def class_counts(task: Task, part: Part) -> list[int] | None:
    """The number of a part's samples of each class; None where counting would need to read them all.

    Lists of peers with the same model are equally long, whichever classes a peer has.
    """
    targets = _class_numbers(task, part)
    if targets is None:
        return None
    counts: list[int] = torch.bincount(targets, minlength=_classes(task)).tolist()
    return counts


def _classes(task: Task) -> int:
    """The outputs of the model's last linear layer, or as many as this peer's numbers need, if that is more."""
    outputs = [module.out_features for module in task.model.modules() if isinstance(module, nn.Linear)][-1:]
    parts: tuple[Part, ...] = ("train", "validation", "test")
    numbers = [found for part in parts if (found := _class_numbers(task, part)) is not None]
    return max([*outputs, *(int(found.max()) + 1 for found in numbers)])


def _class_numbers(task: Task, part: Part) -> Tensor | None:
    """The part's targets, where they are class numbers that lie in one tensor."""
    dataset = getattr(task, part)
    targets = None if dataset is None else Batches(part, dataset, task.collate).targets()
    if targets is None or targets.dtype != torch.int64 or targets.ndim != 1 or not len(targets):
        return None
    return targets if int(targets.min()) >= 0 else None
