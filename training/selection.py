"""Selection of the kept model: evaluation on test or validation data, and the lowest validation loss so far."""

from __future__ import annotations

import math
from typing import Literal, get_args

from torch import Tensor
from torch.nn.functional import cross_entropy

from dpeer.training.batch_loader import Batches
from dpeer.training.device import Compute
from dpeer.training.evaluation import Evaluation, Rows, constant_loss, evaluate, find_rows, mean_loss, predictions
from dpeer.training.measures import Measured, measure
from dpeer.training.objective import classification_metrics, predicts_values
from dpeer.training.task import Loss, Task

Point = Literal["trained", "mixed", "finished"]
"""When in a run a model is as it is: after a round's local training, after its mixing, or finished in the end."""

POINTS: tuple[Point, ...] = get_args(Point)


class ModelSelection:
    """Measures the task's model as it is.

    The best model is the best by `objective`, by default the task's loss.

    Attributes:
        measured_on: Which of the task's data figures are of.
        keeps_best: Whether the best model is looked for.
        best: The best model so far, as `Net.snapshot` gives it.
        best_round: The round of the best model.
        best_point: When in that round it was as it is.
        best_loss: The best model's loss on the validation data.
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
