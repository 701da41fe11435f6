"""The model that predicts now and the model kept at the end: evaluation, safetensors file and card entries."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import dpeer
from dpeer.training.evaluation import Evaluation
from dpeer.training.fine_tuning import Finishing
from dpeer.training.lora.adapting import merged
from dpeer.training.measures import Measured
from dpeer.training.selection import ModelSelection, Point
from dpeer.training.state import store
from dpeer.training.state.store import Origin
from dpeer.training.task import Task
from dpeer.training.trainer import Trainer


def class_names(task: Task) -> tuple[str, ...]:
    """The classes by number, where the task names them."""
    return tuple(task.names.get("classes", ())) or (task.preparation.schema.target.classes if task.preparation else ())


def input_shape(task: Task) -> list[int] | None:
    """The shape of one input; None where an input is not one tensor."""
    if task.collate is not None:
        return None
    first = task.train[0][0]
    return list(first.shape) if isinstance(first, torch.Tensor) else None


def about(task: Task, shape: list[int] | None, measured_on: str, figures: Measured | None) -> dict[str, Any]:
    """The card's entries that follow from the task, as JSON values."""
    schema = None if task.preparation is None else task.preparation.schema
    return {
        "model": None if task.built is None else dict(task.built),
        "init_from": None if task.initial is None else task.initial.to_json(),
        "lora": task.lora,
        "input_shape": shape,
        "head": list(task.head),
        "target": None if schema is None else schema.target.column,
        "columns": list(schema.inputs if schema else task.names.get("input columns", ())) or None,
        "classes": list(class_names(task)) or None,
        "preparation": None if task.preparation is None else task.preparation.to_json(),
        "samples": {
            name: 0 if (data := getattr(task, name)) is None else len(data) for name in ("train", "validation", "test")
        },
        "measured_on": measured_on,
        "metrics": figures,
        "versions": {
            "dpeer": dpeer.__version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }


@dataclass(frozen=True, eq=False)
class Keeping:
    """The model that predicts, and the one that is kept.

    The trainer's model trains on; outside of the methods here it is as it was. `origin` is what the file says of the
    records that it was trained on.
    """

    trainer: Trainer
    finishing: Finishing
    selection: ModelSelection
    _: KW_ONLY
    shares: bool
    origin: Origin | None
    training: bool = False

    def point(self, *, mixed: bool) -> Point:
        """When in the run the model that predicts is as it is now."""
        if self.finishing.state:
            return "finished"
        return "mixed" if mixed and self.shares else "trained"

    @contextmanager
    def predicting(self) -> Iterator[None]:
        """Context in which the model has the values that predict."""
        with self.trainer.holding(self.finishing.predicting()):
            yield
            self.trainer.reattach()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Context in which the model has the values that are kept: the best ones so far, if they are looked for."""
        best = self.selection.best
        with self.trainer.holding(self.finishing.predicting() if best is None else best):
            yield
            self.trainer.reattach()

    def evaluate(self, point: Point) -> Evaluation:
        """Evaluate what predicts; a copy of it becomes the best model if it is the best.

        Raises:
            TaskError: The task's model, loss, metrics or data raised.
        """
        with self.predicting():
            found = self.selection.test()
        if self.training:
            with self.predicting():
                found = replace(found, training_accuracy=self.selection.accuracy_on(self.trainer.data))
        if self.selection.keeps_best:
            with self.predicting():
                if self.selection.is_best(self.trainer.number, point):
                    self.trainer.reattach()
                    self.selection.best = self.trainer.snapshot()
        return found

    def write(self, path: Path, blend: nn.Module | None = None) -> None:
        """Write the kept model, or a blend to which it belongs, under its own state names; adapters are merged into it.

        Raises:
            OSError: The file cannot be written.
        """
        with self.kept():
            module = self.trainer.module if blend is None else blend
            values = module.state_dict() if self.trainer.task.lora is None else merged(module)
            store.write_model(values, path, self.origin, blend=blend is not None)

    def about(self, found: tuple[Tensor, Tensor] | None, shape: list[int] | None) -> dict[str, Any]:
        """Entries of the model card for the kept model, its `ModelSelection.predictions` and the shape of an input."""
        task, selection = self.trainer.task, self.selection
        return about(task, shape, selection.measured_on, selection.figures(found, class_names(task)))
