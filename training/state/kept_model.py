"""The model that predicts now and the one that is kept, the last or the best: measures, safetensors file, card."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import dpeer
from dpeer.training.batch_loader import Batches
from dpeer.training.device import Compute
from dpeer.training.evaluation import Evaluation, Rows, constant_loss, evaluate, find_rows, mean_loss, predictions
from dpeer.training.fine_tuning import Finishing
from dpeer.training.lora.adapting import merged
from dpeer.training.measures import Measured, measure
from dpeer.training.objective import classification_metrics, predicts_values
from dpeer.training.state import store
from dpeer.training.state.store import Origin
from dpeer.training.task import Loss, Task
from dpeer.training.trainer import Trainer

Point = Literal["trained", "mixed", "finished"]
"""When in a run a model is as it is: after a round's local training, after its mixing, or finished in the end."""

POINTS: tuple[Point, ...] = get_args(Point)


class ModelSelection:
    """Measures the task's model as it is.

    The best model is the best by `objective`, by default the task's loss.

    Attributes:
        best: The best model so far, as `Net.snapshot` gives it.
        best_point: When in its round it was as it is.
        best_loss: Its loss on the validation data.
    """

    def __init__(
        self,
        task: Task,
        keep: Literal["last", "best"],
        evaluate_on: Literal["test", "validation"],
        compute: Compute,
        objective: Loss | None = None,
    ) -> None:
        self._model, self._metrics = task.model, task.metrics or classification_metrics
        self._loss = compute.own(task.loss or cross_entropy, task.model)
        self._values = predicts_values(task.loss)
        self._objective = objective or self._loss
        self.measured_on = evaluate_on
        self._test = Batches(evaluate_on, getattr(task, evaluate_on), task.collate, compute)
        self._validation = Batches("validation", task.validation, task.collate, compute) if keep == "best" else None
        self.keeps_best = keep == "best"
        self.best: dict[str, Tensor] | None = None
        self.best_round: int | None = None
        self.best_point: Point | None = None
        self.best_loss = math.inf

    def test(self) -> Evaluation:
        """Evaluate the model on the test data; errors as of `evaluate`, here and below."""
        return evaluate(self._model, self._test, self._loss, self._metrics)[0]

    def accuracy_on(self, data: Batches) -> float | None:
        """The accuracy of the model on other data; None where the task has no metric of that name."""
        return evaluate(self._model, data, self._loss, self._metrics)[0].accuracy

    def predictions(self) -> tuple[Tensor, Tensor] | None:
        """Outputs and targets of the data that `test` measures on; None where they are not one tensor each."""
        return predictions(self._model, self._test)

    def figures(self, found: tuple[Tensor, Tensor] | None, classes: tuple[str, ...]) -> Measured | None:
        """The full set of figures of these `predictions`, by the classes' names; None where such a task has none."""
        return None if found is None else measure(*found, classes, values=self._values)

    def rows(self) -> tuple[Evaluation, Rows | None]:
        """Evaluate the model on the test data as a whole and row by row."""
        found, outputs, targets = evaluate(self._model, self._test, self._loss, self._metrics)
        return found, find_rows(found, outputs, targets, self._loss)

    def constant_loss(self, train: Batches) -> float | None:
        """See `dpeer.training.evaluation.constant_loss`."""
        return constant_loss(train.targets(), self._test.in_order(len(self._test)), self._loss)

    def is_best(self, number: int, point: Point) -> bool:
        """Whether the model, at that point of round `number`, is the best so far; if so, the caller gives a copy."""
        assert self._validation is not None, "only where the best model is looked for"
        loss = mean_loss(self._model, self._validation, self._objective)
        if not loss < self.best_loss:
            return False
        self.best_loss, self.best_round, self.best_point = loss, number, point
        return True


def input_shape(task: Task) -> list[int] | None:
    """The shape of one input; None where an input is not one tensor."""
    if task.collate is not None:
        return None
    first = task.train[0][0]
    return list(first.shape) if isinstance(first, torch.Tensor) else None


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
    def _holding(self, values: Tensor | Mapping[str, Tensor] | None) -> Iterator[None]:
        with self.trainer.holding(values):
            yield
            self.trainer.reattach()

    def predicting(self) -> AbstractContextManager[None]:
        """Context in which the model has the values that predict."""
        return self._holding(self.finishing.predicting())

    def kept(self) -> AbstractContextManager[None]:
        """Context in which the model has the values that are kept: the best ones so far, if they are looked for."""
        best = self.selection.best
        return self._holding(self.finishing.predicting() if best is None else best)

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
        """Entries of the model card, of the kept model's `ModelSelection.predictions` and the shape of an input."""
        task = self.trainer.task
        parts = {"train": task.train, "validation": task.validation, "test": task.test}
        schema = None if task.preparation is None else task.preparation.schema
        classes = tuple(task.names.get("classes", ())) or (() if schema is None else schema.target.classes)
        return {
            "model": None if task.built is None else dict(task.built),
            "init_from": None if task.initial is None else task.initial.to_json(),
            "lora": task.lora,
            "input_shape": shape,
            "head": list(task.head),
            "target": None if schema is None else schema.target.column,
            "columns": list(schema.inputs if schema else task.names.get("input columns", ())) or None,
            "classes": list(classes) or None,
            "preparation": None if task.preparation is None else task.preparation.to_json(),
            "samples": {name: 0 if data is None else len(data) for name, data in parts.items()},
            "measured_on": self.selection.measured_on,
            "metrics": self.selection.figures(found, classes),
            "versions": {
                "dpeer": dpeer.__version__,
                "torch": torch.__version__,
                "numpy": np.__version__,
                "python": platform.python_version(),
            },
        }
