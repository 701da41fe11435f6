"""Validation data for a task of one's own that brings none: some of its training samples, held out.

Whether a sample is held out follows from the seed, the rank and the sample alone, so it stays where it is whatever
samples come or go: from its values where they lie in memory, from its number where they are read by the user's code,
from its group where the task says groups. Equal samples, and those of a group, are never parted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from torch.utils.data import Subset, TensorDataset

from dpeer.exceptions import TaskError
from dpeer.training.data.holdout import Indices, enough, hold_out_apart
from dpeer.training.payload import little_endian
from dpeer.training.randomness import Purpose, stream
from dpeer.training.task import Task


def with_validation(task: Task, share: float, seed: int, rank: int, *, only_if_enough: bool) -> Task:
    """The task with validation data; the same where it brings some.

    Args:
        task: As its factory returned it.
        share: The probability with which a sample, or a group, is held out.
        seed: Decides which.
        rank: This peer.
        only_if_enough: Whether nothing is held out where that would be too few samples, or far too many.

    Raises:
        TaskError: Without `only_if_enough`: all samples would be held out, or none.
    """
    if task.validation is not None:
        return task
    count, key = len(task.train), stream(seed, Purpose.HOLD_OUT, rank, 1).bytes(16)
    held = hold_out_apart(_names(task), share, key)
    if only_if_enough and not enough(len(held), count, share):
        return task
    if not 0 < len(held) < count:
        raise TaskError(
            f"--validation {share:g} would hold out {len(held)} of the task's {count} training samples: give its "
            "Task(...) a data set `validation=`, or another share"
        )
    rest = np.delete(np.arange(count, dtype=np.int64), held)
    return replace(
        task, train=_rows(task.train, rest), validation=_rows(task.train, held), held_out=held,
        indices={"train": rest, "validation": held},
        groups=None if task.groups is None else task.groups[rest],
    )  # fmt: skip


def _names(task: Task) -> Sequence[bytes]:
    """The name of each training sample in the draw, in bytes; samples of one name are not parted."""
    if task.groups is not None:
        return [str(group).encode() for group in task.groups.tolist()]
    if _in_memory(task.train):
        return [blake2b(little_endian(row), digest_size=16).digest() for row in task.train.tensors[0]]
    return [place.to_bytes(8, "little") for place in range(len(task.train))]


def _in_memory(dataset: Any) -> bool:
    """Whether the samples are rows of tensors, and no code of the user's makes them."""
    return type(dataset) is TensorDataset and dataset.tensors[0].layout == torch.strided


def _rows(dataset: Any, index: Indices) -> Any:
    if not _in_memory(dataset):
        return Subset(dataset, index.tolist())
    rows = torch.from_numpy(index)
    return TensorDataset(*(tensor[rows] for tensor in dataset.tensors))
