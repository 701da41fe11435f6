"""Step budget: counts each training phase's minibatches, and caps them at the share that the round budget gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class _Phase:
    """A phase of the round.

    Attributes:
        most: How many steps it has without a budget.
        allowed: How many it may take.
        taken: How many it has begun.
        cut: Whether the budget has ended it.
    """

    most: int
    allowed: int
    taken: int = 0
    cut: bool = False

    @property
    def asked(self) -> int:
        """How many steps the algorithm takes without a budget: it may take fewer than its epochs have."""
        return self.most if self.cut else self.taken

    def more(self) -> bool:
        """Whether the phase takes one more step; asked before each minibatch."""
        self.cut = self.taken >= self.allowed
        self.taken += not self.cut
        return not self.cut


class StepBudget:
    """The steps of one peer's rounds, phase by phase, each call of `Trainer.fit` or `Trainer.minibatches` being one."""

    def __init__(self) -> None:
        self._phases: list[_Phase] = []
        self._share: float | None = None

    def begin(self) -> None:
        """Begin a round, in which no phase has been trained so far."""
        self._phases = []

    @contextmanager
    def limiting(self, share: float) -> Iterator[None]:
        """Context of a round's training: its phases are counted, and take this share of their steps, one at least."""
        self._share = share
        try:
            yield
        finally:
            self._share = None

    @property
    def taken(self) -> list[int]:
        """The steps of each phase of the round, in their order."""
        return [phase.taken for phase in self._phases]

    @property
    def asked(self) -> list[int]:
        """How many those phases have without a limit."""
        return [phase.asked for phase in self._phases]

    def phase(self, steps: int) -> Callable[[], bool]:
        """Begin a phase of so many steps; returns what to ask before each minibatch: whether it takes one more."""
        if self._share is None:  # such as that of `finish`
            return lambda: True
        self._phases.append(_Phase(steps, max(1, math.floor(steps * self._share + 1e-9))))
        return self._phases[-1].more
