"""Coordinate search of learning rates and SAM radius for one peer, on its own validation data.

One setting after the other, each at the best of those before: with three of them a dozen short trainings, where the
whole grid would take ten times as many.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpeer.exceptions import ConfigurationError, Interrupted
from dpeer.experiments.grid_search import Axis, at_edge, check_grid
from dpeer.experiments.variants import Variant
from dpeer.federation.build import isolated
from dpeer.federation.config import resolve, with_defaults
from dpeer.federation.settings import Settings, shared
from dpeer.training import BUILTIN_TASKS, TorchLearner
from dpeer.training.settings import OptionSettings, StepSettings

HELD_OUT = 0.2
"""Share of a built-in task's training samples that is held out for the choice, by default."""

CHOSEN = tuple(name for name in (*shared(StepSettings), *shared(OptionSettings)) if name != "rounds")
"""Settings that can be chosen: they steer training, and must be equal on all peers."""

_RATES: Mapping[str, tuple[float, ...]] = {
    "sgd": (0.003, 0.01, 0.03, 0.1),
    "adamw": (0.0003, 0.001, 0.003, 0.01),
}
_RADII = (0.01, 0.05, 0.2)

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Tried:
    """Values of settings, and loss and accuracy after a few rounds with them.

    Attributes:
        values: The settings that are chosen, by name.
        loss: Mean loss on the validation data; infinity where training diverged.
        accuracy: Share of correct predictions on them; None where the task has no such metric, or training diverged.
    """

    values: Values
    loss: float
    accuracy: float | None

    @property
    def diverged(self) -> bool:
        """Whether the training loss stopped being a number."""
        return math.isinf(self.loss)


@dataclass
class Found:
    """The trials of a search.

    Attributes:
        tried: In the order in which it was tried; the first are the settings as they are.
        training_samples: How many samples the trainings were on.
        validation_samples: How many samples the losses are of.
        complete: Whether all was tried.
    """

    tried: list[Tried] = field(default_factory=list)
    training_samples: int = 0
    validation_samples: int = 0
    complete: bool = False

    @property
    def best(self) -> Tried | None:
        """The values with the lowest loss, of equals the first; None where training diverged with all."""
        usable = [one for one in self.tried if not one.diverged]
        return min(usable, key=lambda one: one.loss, default=None)

    @property
    def at_edge(self) -> list[str]:
        """The numbers whose best value is the smallest or largest that was tried, beyond which better ones may lie."""
        best = self.best
        if best is None:
            return []
        axes = [Axis((name,), (*{one.values[name] for one in self.tried},)) for name in best.values]
        return at_edge(best.values, axes)

    @property
    def resolution(self) -> float | None:
        """The difference of two accuracies on these data that chance alone often makes: twice the standard error."""
        best = self.best
        if best is None or best.accuracy is None or not self.validation_samples:
            return None
        return 2 * math.sqrt(best.accuracy * (1 - best.accuracy) / self.validation_samples)

    def described(self) -> dict[str, Any]:
        """Trials and choice, in plain JSON values."""
        best = self.best
        return {
            "training_samples": self.training_samples,
            "validation_samples": self.validation_samples,
            "complete": self.complete,
            "tried": [
                {"values": dict(one.values), "loss": None if one.diverged else one.loss, "accuracy": one.accuracy}
                for one in self.tried
            ],
            "chosen": dict(best.values) if best is not None and self.complete else None,
            "at_edge": self.at_edge,
        }


def default_axes(settings: Settings) -> list[Axis]:
    """Both rates together, then the head's alone, then SAM's radius."""
    rates = _RATES[with_defaults(settings).optimizer]  # an algorithm may have its own
    return [Axis(("body_lr", "head_lr"), rates), Axis(("head_lr",), rates), Axis(("rho",), _RADII)]


class Rates:
    """A choice for one peer. Nothing is sent, and nothing is written.

    Args:
        settings: As this rank uses them.
        rank: Which peer.
        rounds: How many of the run's first rounds are tried.
        grid: Directions, tried one after the other; `default_axes` if None.
        given: Settings that the user has fixed.

    Raises:
        ConfigurationError: A direction of the grid means nothing to the algorithm, or nothing is left to choose.
    """

    def __init__(
        self, settings: Settings, rank: int, rounds: int, grid: Sequence[Axis] | None, given: Mapping[str, Any]
    ) -> None:
        fixed = {**given, **given.get("algorithm_options", {})}
        self._variant = Variant(settings.algorithm, settings.algorithm, fixed)
        for axis in grid or ():  # one at a time: a setting may be on several
            if strange := next((name for name in axis.names if name not in CHOSEN), None):
                raise ConfigurationError(
                    f"--grid: {strange.replace('_', '-')!r} cannot be chosen here, only settings that all peers train "
                    f"with: {', '.join(name.replace('_', '-') for name in CHOSEN)}"
                )
            check_grid([axis], [self._variant])
        axes = default_axes(settings) if grid is None else grid
        self._axes = [Axis(names, axis.values) for axis in axes if (names := axis.of(self._variant))]
        self._settings = _measured(settings)
        self._rank, self._rounds = rank, min(rounds, settings.rounds)
        self._stopped, self._learner = False, None

    _learner: TorchLearner | None

    @property
    def most(self) -> int:
        """The largest number of trainings."""
        return 1 + sum(len(axis.values) for axis in self._axes)

    def stop(self) -> None:
        """End `run` after the current minibatch; may be called from a signal's handler."""
        self._stopped = True
        if self._learner is not None:
            self._learner.interrupt()

    def run(self, tell: Callable[[Tried], None]) -> Found:
        """Try everything.

        Args:
            tell: Called after each training.

        Raises:
            ConfigurationError: The task, its data or the settings cannot be used.
        """
        found = Found()
        names = [*dict.fromkeys(name for axis in self._axes for name in axis.names)]
        now = resolve(self._settings, self._rank).values()
        try:
            self._try({name: now[name] for name in names}, found, tell)
            for axis in self._axes:
                start = found.best or found.tried[0]
                for values in self._along(axis, start.values, found):
                    self._try(values, found, tell)
        except Interrupted:
            return found
        found.complete = True
        return found

    def _along(self, axis: Axis, start: Values, found: Found) -> Iterator[Values]:
        for value in axis.values:
            values = {**start, **dict.fromkeys(axis.names, value)}
            if all(values != one.values for one in found.tried):
                yield values

    def _try(self, values: Values, found: Found, tell: Callable[[Tried], None]) -> None:
        """Train with some values.

        Raises:
            Interrupted: `stop` was called.
        """
        if self._stopped:
            raise Interrupted("asked to stop")
        task, learner = isolated(resolve(self._settings.model_copy(update=dict(values)), self._rank))
        self._learner = learner
        if self._stopped:  # while the data were read
            raise Interrupted("asked to stop")
        found.training_samples, found.validation_samples = learner.num_samples, len(task.validation or ())
        found.tried.append(Tried(values, *_trained(learner, self._rank, self._rounds)))
        tell(found.tried[-1])


def _measured(settings: Settings) -> Settings:
    """The settings with validation data."""
    share = HELD_OUT if settings.task in BUILTIN_TASKS and not settings.validation else settings.validation
    return settings.model_copy(update={"validation": share, "keep": "last"})


def _trained(learner: TorchLearner, rank: int, rounds: int) -> tuple[float, float | None]:
    """Train some rounds in which no neighbor is heard; returns loss and accuracy on the validation data."""
    for number in range(rounds):
        loss = learner.train(number)
        if loss is not None and not math.isfinite(loss):
            return math.inf, None
        if learner.shares:
            learner.release(number)
            learner.mix({}, {rank: 1.0})
    learner.finish(rounds - 1)
    result = learner.evaluate()
    return (result.test_loss, result.accuracy) if math.isfinite(result.test_loss) else (math.inf, None)
