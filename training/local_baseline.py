"""The local-only baseline: a copy of a peer's model that is trained on the same data without neighbors."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, Literal

from torch import nn

from dpeer.exceptions import TaskError, describe
from dpeer.training import build_learner
from dpeer.training.device import HOST, Compute
from dpeer.training.evaluation import Evaluation, Rows
from dpeer.training.settings import Hyperparameters
from dpeer.training.step_pace import StepPace
from dpeer.training.task import Task

Enough = Callable[[], bool]
"""Called after every minibatch: whether to give up."""


class _GivenUp(Exception):  # noqa: N818 - it is no error
    """A round was given up."""


class _Stoppable(StepPace):
    """Counts steps, and may give up a round after each.

    Attributes:
        enough: Says whether to give up.
        made: The number of steps so far.
    """

    def __init__(self, compute: Compute) -> None:
        super().__init__()
        self._compute, self.made = compute, 0
        self.enough: Enough = lambda: False

    def stepped(self, size: int, began: float) -> None:
        """See `StepPace.stepped`.

        Raises:
            _GivenUp: It is enough.
        """
        self.made += 1
        self._compute.drain()  # what only waits in the device's queue has taken no time yet
        if self.enough():
            raise _GivenUp


class LocalBaseline:
    """A second learner with the same data and first weights, which trains all rounds by `local` and shares nothing.

    In a round it computes as many gradients as the peer's algorithm does, rounded to whole epochs. It equals, to the
    bit, what ``--algorithm local --body-epochs E`` trains, E being `epochs`.

    Args:
        task: A task that no other learner trains; see `independent_copy`.
        hyperparameters: Those of the peer; other arguments are as in `build_learner`.
        gradients: How many gradients of a sample the peer's algorithm computes in a round (`Algorithm.gradients`).
        takes_part: Whether the peer takes part in a round; in others this one does not train either.
        evaluate_every: In which rounds the best model is looked for.

    Attributes:
        learner: The model, the card of that, and with ``keep="best"`` the loss that has chosen it.
        epochs: Passes over the data in a round.
        completed: The number of rounds that it has completed, of `rounds` in all.
    """

    def __init__(
        self,
        task: Task,
        hyperparameters: Hyperparameters,
        gradients: float,
        takes_part: Callable[[int], bool],
        *,
        rank: int,
        seed: int,
        keep: Literal["last", "best"] = "last",
        evaluate_on: Literal["test", "validation"] = "test",
        evaluate_every: int = 1,
        compute: Compute = HOST,
    ) -> None:
        h = hyperparameters
        self.epochs, self.completed = max(1, round(gradients)), 0
        steps = None if h.local_steps is None else math.ceil(h.local_steps * self.epochs / h.body_epochs)
        self.rounds, self._takes_part = h.rounds, takes_part
        self._to_finish = True
        self._keeps_best, self._every = keep == "best", evaluate_every
        self._steps = _Stoppable(compute)
        own = h.model_copy(update={"body_epochs": self.epochs, "local_steps": steps})
        self.learner = build_learner(
            task, "local", own, rank=rank, seed=seed, keep=keep, evaluate_on=evaluate_on, compute=compute,
            pace=self._steps,
        )  # fmt: skip
        an_epoch = math.ceil(self.learner.about.samples / h.batch_size)
        self._a_round = steps or self.epochs * an_epoch

    def plan(self, rounds: int, *, finish: bool) -> None:
        """Train so many rounds in all, as the run has had more or fewer than planned; `finish` as the peer's model."""
        self.rounds, self._to_finish = rounds, finish

    @property
    def steps(self) -> int:
        """The number of steps of all rounds."""
        return self._a_round * sum(map(self._takes_part, range(self.rounds)))

    @property
    def made(self) -> int:
        """The number of steps so far."""
        return self._steps.made

    @property
    def done(self) -> bool:
        """Whether all rounds are trained."""
        return self.completed == self.rounds

    def train_round(self, enough: Enough = lambda: False) -> bool:
        """Train the next round; False if it was given up, after which nothing can be trained any more.

        Raises:
            TaskError: The task's model, loss or data raised.
        """
        self._steps.enough = enough
        number = self.completed
        if not self._takes_part(number):
            self.learner.sit_out(number)
        else:
            try:
                self.learner.train(number)
            except _GivenUp:
                return False
        if self._keeps_best and ((number + 1) % self._every == 0 or number == self.rounds - 1):
            self.learner.evaluate()
        self.completed += 1
        return True

    def save(self, directory: Path) -> None:
        """Write the state after the last completed round into an existing, empty folder.

        Raises:
            OSError: The folder cannot be written.
        """
        self.learner.save(directory)

    def load(self, directory: Path, completed: int) -> None:
        """Go on from the state that `save` left after so many rounds.

        Raises:
            CheckpointError: The files are missing, damaged, or of another run, task or algorithm.
        """
        self.learner.load(directory)
        self.completed = completed
        self._steps.made = self._a_round * sum(map(self._takes_part, range(completed)))

    def rows(self) -> tuple[Evaluation, Rows | None]:
        """See `TorchLearner.rows`; of the rounds so far, and finished as the peer's own model is after the last.

        Raises:
            TaskError: The task's model, loss, metrics or data raised.
        """
        self.finish()
        return self.learner.rows()

    def finish(self) -> None:
        """Finish the model as the peer's own is, if all rounds are trained; a second call does nothing.

        Raises:
            TaskError: The task's model, loss, metrics or data raised.
        """
        if self.done and self._to_finish:
            self.learner.fine_tune(self.rounds - 1)
            self._to_finish = False


def independent_copy(task: Task) -> Task:
    """A task with a model of its own and the same data, to be made before any learner has the first.

    Raises:
        TaskError: The model cannot be copied, or the task's functions refer to it.
    """
    functions = {name: getattr(task, name) for name in ("loss", "metrics", "collate", "augment")}
    parts = {id(part) for part in (*task.model.modules(), *task.model.parameters(), *task.model.buffers())}
    for name, function in functions.items():
        if _refers(function, parts):
            raise TaskError(f"the task's {name} refers to its model, and cannot be used with a copy of it")
    data = {name: getattr(task, name) for name in ("train", "test", "validation")}
    kept = {id(part): part for part in data.values() if part is not None}
    try:
        model, built, copied = copy.deepcopy((task.model, task.built, functions), kept)
    except Exception as error:  # whatever the model is made of
        raise TaskError(f"the task's model cannot be copied: {describe(error)}") from error
    return replace(task, model=model, built=built, **copied)


def _refers(function: Any, parts: set[int], seen: frozenset[int] = frozenset()) -> bool:
    """Whether a function has a part of a model in its closure or defaults, which a copy of it would have, too."""
    if id(function) in seen:
        return False
    seen |= {id(function)}
    if isinstance(function, partial):
        given = (function.func, *function.args, *function.keywords.values())
        return any(id(one) in parts or _refers(one, parts, seen) for one in given)
    if isinstance(function, MethodType):
        return _refers(function.__func__, parts, seen)
    if not isinstance(function, FunctionType):
        return False
    held: list[Any] = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for cell in function.__closure__ or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # not filled yet
            continue
    names = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    held += [value for value in names.values() if isinstance(value, nn.Module)]
    return any(id(one) in parts or _refers(one, parts, seen) for one in held)
