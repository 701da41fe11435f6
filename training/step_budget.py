"""Step budget: how many minibatches each phase of a round's local training takes, by a clock or as recorded."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

from dpeer.exceptions import ConfigurationError


@dataclass
class _Phase:
    """A phase of the round.

    Attributes:
        most: How many steps it has without a budget.
        weight: The gradients of a sample that it computes, by which its part of the time is found in a first round.
        since: The clock's time at its begin.
        seconds: How long its steps have taken together.
        taken: How many steps it has begun.
        cut: Whether the budget has ended it.
    """

    most: int
    weight: float
    since: float
    seconds: float = 0.0
    taken: int = 0
    cut: bool = False

    @property
    def asked(self) -> int:
        """How many steps the algorithm takes without a budget: it may take fewer than its epochs have."""
        return self.most if self.cut else self.taken

    @property
    def whole(self) -> float:
        """The seconds that all of its steps would take."""
        return self.seconds / self.taken * self.asked if self.taken else 0.0


class StepBudget:
    """The steps of one peer's rounds, phase by phase, each call of `Trainer.fit` or `Trainer.minibatches` being one.

    Without a limit a phase takes all of its steps; with one at least its first. A budget in seconds shortens all phases
    alike: what is left of it is divided by the seconds that the whole phases would take, as the round before has shown,
    or in a first round by the gradients that they compute. A step begins only if it is likely to end in time.

    Args:
        drain: Waits until the device has done its work so far, so that time is that of the work.
        clock: Seconds that never go back.
    """

    def __init__(self, drain: Callable[[], None] = lambda: None, clock: Callable[[], float] = time.perf_counter):
        self._drain, self._clock = drain, clock
        self._phases: list[_Phase] = []
        self._seconds: float | None = None
        self._share: float | None = None
        self._recorded: Sequence[int] | None = None
        self._gradients = 0.0
        self._before: list[_Phase] = []
        self._training = False

    def begin(self) -> None:
        """Begin a round, in which no phase has been trained so far."""
        self._phases = []

    @contextmanager
    def limiting(
        self,
        gradients: float,
        *,
        seconds: float | None = None,
        share: float | None = None,
        recorded: Sequence[int] | None = None,
    ) -> Iterator[None]:
        """Context of a round's training, whose phases are counted and limited; of several limits the last counts.

        Args:
            gradients: How many gradients of a sample the round computes in all its phases.
            seconds: The time that the phases have together; None for no limit, as for those that follow.
            share: Of each phase's steps, 0 to 1.
            recorded: The steps of each phase.

        Raises:
            ConfigurationError: The round has other phases than the recorded one.
        """
        self._gradients, self._seconds, self._share, self._recorded = gradients, seconds, share, recorded
        self._training = True
        try:
            yield
            self._close()
            if recorded is not None and len(self._phases) < len(recorded):
                self._refuse_recorded()
            self._before = self._phases
        finally:
            self._training = False

    @property
    def taken(self) -> list[int]:
        """The steps of each phase of the round, in their order."""
        return [phase.taken for phase in self._phases]

    @property
    def asked(self) -> list[int]:
        """How many those phases have without a limit."""
        return [phase.asked for phase in self._phases]

    def phase(self, asked: int, gradients: float) -> Callable[[], bool]:
        """Begin a phase.

        Args:
            asked: How many steps it has without a limit.
            gradients: How many gradients of a sample it computes.

        Returns:
            To be asked before each minibatch: whether the phase takes one more.

        Raises:
            ConfigurationError: The recorded round has no such phase, or more steps in it.
        """
        if not self._training:  # such as that of `finish`
            return lambda: True
        self._close()
        number = len(self._phases)
        phase = _Phase(asked, gradients, self._clock())
        self._phases.append(phase)
        if self._recorded is not None and (number >= len(self._recorded) or self._recorded[number] > asked):
            self._refuse_recorded()
        if self._recorded is not None:
            return _up_to(phase, self._recorded[number])
        if self._share is not None:
            return _up_to(phase, max(1, math.floor(asked * self._share + 1e-9)))
        if self._seconds is not None:
            return self._in_time(phase, self._time_for(number))
        return _up_to(phase, asked)

    def _refuse_recorded(self) -> NoReturn:
        raise ConfigurationError(
            f"the round was recorded with steps {list(self._recorded or ())} by phase, and has "
            f"{[phase.most for phase in self._phases]} now: give the algorithm, epochs, --batch-size and data that it "
            "was recorded with"
        )

    def _time_for(self, number: int) -> float:
        """The seconds of a phase: its part of those that are left."""
        assert self._seconds is not None, "asked by the clock alone"
        left = self._seconds - sum(phase.seconds for phase in self._phases)
        coming = [phase.whole for phase in self._before[number:]]
        if (together := sum(coming)) > 0.0:
            return left * coming[0] / together
        done = sum(phase.weight for phase in self._phases[:number])
        rest, own = self._gradients - done, self._phases[number].weight
        return left * (own / rest if 0 < own < rest else 1.0)

    def _in_time(self, phase: _Phase, seconds: float) -> Callable[[], bool]:
        def more() -> bool:
            if phase.taken:
                self._drain()
                phase.seconds = self._clock() - phase.since
                if phase.seconds + phase.seconds / phase.taken > seconds:
                    phase.cut = True
                    return False
            phase.taken += 1
            return True

        return more

    def _close(self) -> None:
        """Note how long the last phase took: it need not have been asked for another step."""
        if self._phases:
            self._drain()
            self._phases[-1].seconds = self._clock() - self._phases[-1].since


def _up_to(phase: _Phase, most: int) -> Callable[[], bool]:
    def more() -> bool:
        if phase.taken >= most:
            phase.cut = True
            return False
        phase.taken += 1
        return True

    return more
