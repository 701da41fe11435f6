"""Step budget: counts each training phase's minibatches, and caps them at the share that the round budget gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class StepBudget:
    """The steps of one peer's rounds, phase by phase, each call of `Trainer.fit` or `Trainer.minibatches` being one.

    Attributes:
        taken: The steps of each phase of the round, in their order.
        asked: How many those phases have without a limit; an algorithm may take fewer than its epochs have.
    """

    def __init__(self) -> None:
        self._share: float | None = None
        self.begin()

    def begin(self) -> None:
        """Begin a round, in which no phase has been trained so far."""
        self.taken: list[int] = []
        self.asked: list[int] = []

    @contextmanager
    def limiting(self, share: float) -> Iterator[None]:
        """Context of a round's training: its phases are counted, and take this share of their steps, one at least."""
        self._share = share
        try:
            yield
        finally:
            self._share = None

    def phase(self, steps: int) -> Callable[[], bool]:
        """Begin a phase of so many steps; returns what to ask before each minibatch: whether it takes one more."""
        if self._share is None:  # such as that of `finish`
            return lambda: True
        taken, asked, here = self.taken, self.asked, len(self.taken)
        allowed = max(1, math.floor(steps * self._share + 1e-9))
        taken.append(0)
        asked.append(0)

        def more() -> bool:
            cut = taken[here] >= allowed
            taken[here] += not cut
            asked[here] = steps if cut else taken[here]
            return not cut

        return more
