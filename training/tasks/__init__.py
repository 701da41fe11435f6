"""The built-in tasks, by the name that ``--task`` takes; each is imported when it is first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dpeer.training.task import Task


@dataclass(frozen=True)
class BuiltinTask:
    """A built-in task.

    Attributes:
        name: What ``--task`` calls it.
        summary: One line about it.
        module: Where its function ``task(rank, size, seed, *, partition, **options)`` is.
        hyperparameters: Its own defaults, by field of `Hyperparameters`, where the generic ones do not suit it.
    """

    name: str
    summary: str
    module: str
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)

    def factory(self) -> Callable[..., Task]:
        """Import the task's factory."""
        factory: Callable[..., Task] = importlib.import_module(self.module).task
        return factory


BUILTIN_TASKS: Mapping[str, BuiltinTask] = {
    task.name: task
    for task in (
        BuiltinTask(
            name="digits",
            summary="scikit-learn's 1797 handwritten digits (8x8), a small CNN; nothing to download",
            module="dpeer.training.tasks.digits",
        ),
    )
}
"""Every built-in task by its name."""

__all__ = ["BUILTIN_TASKS", "BuiltinTask"]
