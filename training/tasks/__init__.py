"""The built-in tasks, by the name that ``--task`` takes; each is imported when it is first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ConfigDict

from dpeer.training.settings import DataSettings
from dpeer.training.task import Task


class Choices(DataSettings):
    """Settings of a built-in task: how its data are divided, and what is trained on them; frozen.

    `DataSettings` has each value's type, default, limits and meaning. None stands for the task's own default.
    """

    model_config = ConfigDict(frozen=True)

    apart: bool = False
    """Whether samples are held out one by one, as record-level DP requires; their number is random then."""

    only_if_enough: bool = False
    """Whether nothing is held out for validation where that would be too few samples, or far more than asked for."""

    @property
    def head_prefixes(self) -> tuple[str, ...] | None:
        """The name prefixes of the parameters that stay at home; None for the last linear layer."""
        return None if self.head is None else tuple(name for name in self.head.split(",") if name)


@dataclass(frozen=True)
class BuiltinTask:
    """A built-in task.

    Attributes:
        name: What ``--task`` calls it.
        summary: One line about it.
        where: ``module:function`` of its ``task(rank, size, seed, *, choices, **options)``.
        partition: The default of ``--partition``.
        standardize: The default of ``--standardize``: inputs are scaled by the peer's own training rows.
    """

    name: str
    summary: str
    where: str
    partition: str = "dirichlet:0.3"
    standardize: bool = False

    def factory(self) -> Callable[..., Task]:
        """Import the task's factory."""
        module, _, function = self.where.partition(":")
        factory: Callable[..., Task] = getattr(importlib.import_module(f"dpeer.training.tasks.{module}"), function)
        return factory


_OWN = "csv_and_images"
_SCALED: dict[str, Any] = {"standardize": True}

BUILTIN_TASKS: Mapping[str, BuiltinTask] = {
    task.name: task
    for task in (
        BuiltinTask(
            name="digits",
            summary="scikit-learn's 1797 handwritten digits (8x8), a small CNN; nothing to download",
            where="digits:task",
        ),
        BuiltinTask("cifar10", "60,000 photographs (3x32x32) of 10 classes", "published:cifar10"),
        BuiltinTask("cifar100", "60,000 photographs (3x32x32) of 100 classes", "published:cifar100"),
        BuiltinTask("tiny-imagenet", "110,000 photographs (3x64x64) of 200 classes", "published:tiny_imagenet"),
        BuiltinTask("mnist", "70,000 handwritten digits (1x28x28)", "published:mnist"),
        BuiltinTask("emnist", "814,255 characters (1x28x28) of 62 classes, or a split of them", "published:emnist"),
        BuiltinTask("femnist", "62 characters (1x28x28) by 3,550 writers, from LEAF", "published:femnist", "writer"),
        BuiltinTask("har", "six activities of 30 persons, from a phone's sensors", "published:har", "subject"),
        BuiltinTask("glue", "sentences of GLUE: name=sst2, qqp, qnli or mnli", "texts:glue"),
        BuiltinTask("csv", "your own table: path=FILE, and --schema or target=COLUMN", f"{_OWN}:csv", "own", **_SCALED),
        BuiltinTask("image-folder", "your own images: path=DIR/<class>/*", f"{_OWN}:image_folder", "own", **_SCALED),
    )
}
"""Every built-in task by its name."""

__all__ = ["BUILTIN_TASKS", "BuiltinTask", "Choices"]
