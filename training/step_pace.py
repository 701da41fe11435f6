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
"""The first steps of a kind, of which the fastest shows whether its steps are short."""


@dataclass(frozen=True)
class RoundPace:
    """The steps of a round's local training.

    Attributes:
        number: The round, from 0.
        steps: Their number.
        seconds: How long they took.
        quiet_seconds: How long they take if each is as fast as the fastest of its phase and size.
        threads: The torch threads at the round's end.
    """

    number: int
    steps: int
    seconds: float
    quiet_seconds: float
    threads: int


class StepPace:
    """Times the steps of one peer, and chooses how many torch threads train.

    The choice is made once: one thread takes the first steps, and goes on where they are short. Steps are of one kind
    that are of the same phase of a round, on minibatches of the same size.

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
        self._phase, self._gradients, self._first = -1, 1, True
        self._round: dict[tuple[int, int], list[float]] = {}
        self._looked: dict[tuple[int, int], list[float]] = {}
        self.last: RoundPace | None = None

    def begin(self) -> None:
        """Begin a round's training."""
        self._phase, self._round = -1, {}
        if self._most is not None:
            self._set_threads(1)

    def phase(self, gradients: int = 1) -> None:
        """Begin a phase whose steps compute so many gradients each, one after the other: SAM two."""
        self._phase, self._gradients = self._phase + 1, gradients

    def stepped(self, size: int, began: float) -> None:
        """Note the end of a step on a minibatch of this size that began at this time of the clock."""
        seconds, first, self._first = self.clock() - began, self._first, False
        if first:  # it is not counted, for it loads what later steps find ready
            if seconds / self._gradients >= _LONG:
                self._use_all()
            return
        kind = self._phase, size
        self._round.setdefault(kind, []).append(seconds)
        looked = self._looked.setdefault(kind, [])
        if self._most is not None and len(looked) < _ENOUGH:
            looked.append(seconds / self._gradients)
            if len(looked) == _ENOUGH and min(looked) >= SHORT:
                self._use_all()

    def end(self, number: int) -> None:
        """End the training of round `number`."""
        if self._phase < 0:  # the algorithm has loops of its own: its steps count as long
            self._use_all()
        elif all(len(looked) == _ENOUGH for looked in self._looked.values()):
            self._most = None  # no kind has long steps
        if kinds := self._round.values():
            steps, seconds = sum(map(len, kinds)), sum(map(sum, kinds))
            quiet = sum(len(kind) * min(kind) for kind in kinds)
            self.last = RoundPace(number, steps, seconds, quiet, torch.get_num_threads())

    def _use_all(self) -> None:
        if self._most is not None:
            self._set_threads(self._most)
            self._most = None
