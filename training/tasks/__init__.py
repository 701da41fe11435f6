"""The built-in tasks, by the name that ``--task`` takes; the reader of each is imported when it is first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ConfigDict

from dpeer.training.settings import DataSettings

if TYPE_CHECKING:
    from dpeer.training.data.pool import Data


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
        where: ``module:function`` of the reader of its data, whose keyword arguments are the task's options.
        model: The model where the user chooses none.
        partition: The default of ``--partition``.
        standardize: The default of ``--standardize``: inputs are scaled by the peer's own training rows.
        path: What the option ``path`` names, for messages; empty without that option.
    """

    where: str
    model: str
    partition: str = "dirichlet:0.3"
    standardize: bool = False
    path: str = ""

    def reader(self) -> Callable[..., Data]:
        """Import the reader."""
        module, _, function = self.where.partition(":")
        found: Callable[..., Data] = getattr(importlib.import_module(f"dpeer.training.data.{module}"), function)
        return found


_TABLE = "FILE.csv (site-{rank}.csv: a file a peer)"
_IMAGES = "DIR (site-{rank}: a folder a peer), with a folder for each class"

BUILTIN_TASKS: Mapping[str, BuiltinTask] = {
    "digits": BuiltinTask("published_images:digits", "digits"),
    "cifar10": BuiltinTask("published_images:cifar10", "cnn"),
    "cifar100": BuiltinTask("published_images:cifar100", "cnn"),
    "tiny-imagenet": BuiltinTask("published_images:tiny_imagenet", "cnn"),
    "mnist": BuiltinTask("published_images:mnist", "cnn"),
    "emnist": BuiltinTask("published_images:emnist", "cnn"),
    "femnist": BuiltinTask("published_images:femnist", "cnn", "writer"),
    "har": BuiltinTask("har:har", "cnn1d", "subject"),
    "glue": BuiltinTask("glue:glue", "roberta-tiny"),
    "csv": BuiltinTask("tables.table_data:table", "mlp", "own", standardize=True, path=_TABLE),
    "image-folder": BuiltinTask("image_folder:image_folder", "cnn", "own", standardize=True, path=_IMAGES),
}
"""Every built-in task by its name."""

__all__ = ["BUILTIN_TASKS", "BuiltinTask", "Choices"]
