"""Training loss with class weights, default metrics, class counts, and a check for losses that broadcast."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import cross_entropy

from dpeer.exceptions import TaskError
from dpeer.training.batch_loader import Batches
from dpeer.training.settings import ClassWeights
from dpeer.training.task import Loss, Task

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
    per_class = torch.zeros(int(truth.max()) + 1, dtype=torch.float64, device=truth.device).index_add_(0, truth, right)
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


_AT_ONCE = 256


def objective(task: Task, class_weights: ClassWeights, data: Batches) -> Loss:
    """The loss that a peer trains with.

    A task's own loss, if it has one, is taken as it is. The classes are counted in the data.

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

    Targets below 0, which cross-entropy ignores, do not count.

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
