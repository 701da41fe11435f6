"""Pace of local training on the CPU: the seconds of its steps, and the torch threads that suit them.

Threads that share a loop wait for each other several times a step. Short steps gain nothing by a second thread, and a
thread that waits for a core which another program uses holds up all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

SHORT = 0.005
"""Seconds of a step with one gradient below which one thread trains."""

_LONG = 20 * SHORT
"""Seconds of a first step, which also loads what later steps find ready, from which on steps are long for sure."""

_ENOUGH = 3
"""Steps of a phase of which the fastest shows whether its steps are short."""


@dataclass
class Timed:
    """The steps of one phase of a round.

    Attributes:
        gradients: How many a step computes, one after the other: SAM two.
        taken: Their number.
        seconds: How long they took together.
        largest: The size of the largest minibatch.
        fastest: The seconds of the fastest step on a minibatch of that size.
    """

    gradients: int = 1
    taken: int = 0
    seconds: float = 0.0
    largest: int = -1
    fastest: float = 0.0

    def add(self, size: int, seconds: float) -> None:
        """Add a step on a minibatch of this size."""
        if size != self.largest:
            if size > self.largest:
                self.largest, self.fastest = size, seconds
        else:
            self.fastest = min(self.fastest, seconds)
        self.taken += 1
        self.seconds += seconds


@dataclass(frozen=True)
class RoundPace:
    """The steps of a round's local training.

    Attributes:
        number: The round, from 0.
        steps: Their number.
        seconds: How long they took.
        quiet_seconds: How long they take if each is as fast as the fastest of its phase.
        threads: The torch threads at the round's end.
    """

    number: int
    steps: int
    seconds: float
    quiet_seconds: float
    threads: int


class StepPace:
    """Times the steps of one peer, and chooses how many torch threads train.

    The choice is made once: one thread takes the first steps, and goes on where they are short.

    Args:
        most: The torch threads of a model whose steps are long; None leaves the threads as they are.
        clock: Seconds that never go back.
        set_threads: Sets the torch threads of the calling thread.

    Attributes:
        last: The last round that was trained whole; None before the first.
    """

    def __init__(
        self,
        most: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
        set_threads: Callable[[int], None] = torch.set_num_threads,
    ) -> None:
        self._most, self.clock, self._set_threads = most, clock, set_threads
        self._phases: list[Timed] = []
        self._looked: list[Timed] = []
        self._first = True
        self.last: RoundPace | None = None

    def begin(self) -> None:
        """Begin a round's training."""
        self._phases = []
        if self._most is not None:
            self._set_threads(1)

    def phase(self, gradients: int = 1) -> Timed:
        """Begin a phase whose steps compute so many gradients each."""
        self._phases.append(Timed(gradients))
        return self._phases[-1]

    def stepped(self, phase: Timed, size: int, began: float) -> None:
        """Note the end of a step on a minibatch of this size that began at this time of the clock."""
        seconds, first, self._first = self.clock() - began, self._first, False
        if self._most is not None:
            self._look(size, seconds / phase.gradients, first=first)
        if not first:
            phase.add(size, seconds)

    def end(self, number: int) -> None:
        """End the training of round `number`."""
        if not self._phases:  # the algorithm has loops of its own: its steps count as long
            self._use_all()
        elif all(looked.taken >= _ENOUGH for looked in self._looked):
            self._most = None  # no phase has long steps
        phases = [phase for phase in self._phases if phase.taken]
        if phases:
            self.last = RoundPace(
                number,
                sum(phase.taken for phase in phases),
                sum(phase.seconds for phase in phases),
                sum(phase.taken * phase.fastest for phase in phases),
                torch.get_num_threads(),
            )

    def _look(self, size: int, seconds: float, *, first: bool) -> None:
        """Use all threads once the steps of a phase have turned out to be long; a phase may have one step a round."""
        if first:
            if seconds >= _LONG:
                self._use_all()
            return
        while len(self._looked) < len(self._phases):
            self._looked.append(Timed())
        looked = self._looked[len(self._phases) - 1]
        looked.add(size, seconds)
        if looked.taken >= _ENOUGH and looked.fastest >= SHORT:
            self._use_all()

    def _use_all(self) -> None:
        if self._most is not None:
            self._set_threads(self._most)
            self._most = None
