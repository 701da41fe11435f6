"""Counting a peer's samples by class."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from dpeer.training.batch_loader import Batches
from dpeer.training.task import Task

Part = Literal["train", "validation", "test"]


def class_counts(task: Task, part: Part) -> list[int] | None:
    """The number of a part's samples of each class; None where that cannot be told without reading them all.

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
