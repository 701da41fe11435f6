"""What a peer's data are made of."""

from __future__ import annotations

from typing import Literal

import torch

from dpeer.training.batches import Batches
from dpeer.training.task import Task


def class_counts(task: Task, part: Literal["train", "validation", "test"]) -> list[int] | None:
    """How many samples of a part there are of each class; None where that cannot be told without reading them all."""
    targets = Batches(part, getattr(task, part), task.collate).targets()
    if targets is None or targets.dtype != torch.int64 or targets.ndim != 1 or not len(targets):
        return None
    counts: list[int] = torch.bincount(targets.clamp_min(0)).tolist()
    return counts if int(targets.min()) >= 0 else None
