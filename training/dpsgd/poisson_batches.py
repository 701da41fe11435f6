"""Poisson-sampled batches, which DP-SGD trains on in place of shuffled minibatches."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dpeer.exceptions import Interrupted, TaskError
from dpeer.privacy.randomness import Keystream
from dpeer.privacy.sampling import Poisson
from dpeer.training.batch_loader import Batches
from dpeer.training.dpsgd.examples import check_examples, copied, joined, take
from dpeer.training.flat import Phase
from dpeer.training.minibatches import Batch, Minibatches, More, always, augmented
from dpeer.training.settings import Hyperparameters
from dpeer.training.task import Augment

Pay = Callable[[int], int]
"""Called before batches are drawn, with the number still to come; gives for how many of them has been paid."""


def _nothing_to_pay(left: int) -> int:
    return left


class PoissonBatches(Minibatches):
    """Poisson samples of the training data in place of shuffled passes; the draws are secret and cannot be repeated.

    Each unit is in a batch with probability `rate`, independently of all others and of earlier batches. So batches have
    different sizes, and one of which nothing was drawn is a batch, too. A pass over the data is 1 / rate batches.

    Args:
        data: The training data.
        augment: How the task changes inputs at random; None where it does not. It is called for each example by itself,
            with secret numbers: from those of the public seed, and from a whole batch, others' inputs would
            depend on who else is drawn.
        hyperparameters: The number of batches.
        rank: The peer.
        seed: The federation's seed.
        rate: q, above 0 and at most 1.
        groups: Whose each example is, shape (examples,): then groups are drawn, each with all of its examples. None
            where each example is a unit.

    Attributes:
        units: The number of units.
        loss: Mean of the losses noted in the last 1 / rate batches, weighted by examples; None before the first.

    Raises:
        ConfigurationError: The rate is beyond its limits.
        TaskError: `groups` has not one entry for each example.
    """

    def __init__(
        self,
        data: Batches,
        augment: Augment | None,
        hyperparameters: Hyperparameters,
        *,
        rank: int,
        seed: int,
        rate: float,
        groups: NDArray[Any] | None = None,
    ) -> None:
        super().__init__(data, augment, hyperparameters, rank=rank, seed=seed)
        if groups is not None and len(groups) != len(data):
            raise TaskError(
                f"the task's groups are of {len(groups)} examples, its training data have {len(data)}; it "
                "must be one entry for each"
            )
        self._members = None if groups is None else _members(groups)
        self.units = len(data) if self._members is None else len(self._members)
        self._poisson = Poisson(self.units, rate)

    def steps(self, epochs: int) -> int:
        """How many batches `epochs` passes are, or what `local_steps` says; it does not depend on the data."""
        h = self._hyperparameters
        if h.local_steps is not None:
            return math.ceil(h.local_steps * epochs / h.body_epochs)
        return max(1, round(epochs / self._poisson.rate)) if epochs else 0

    def of(
        self, number: int, phase: Phase, epochs: int, more: More = always, pay: Pay = _nothing_to_pay
    ) -> Iterator[Batch]:
        """The batches of a round; neither its number nor the phase decides about what is drawn.

        Args:
            number: The round.
            phase: Which part of it.
            epochs: Passes over the data.
            more: Counts the batches, and ends none: how long they take depends on what was drawn.
            pay: Called before batches are drawn, with the number still to come; gives how many of them may be drawn
                now. None ends the batches.

        Raises:
            Interrupted: `interrupt` was called.
            TaskError: The data cannot be read or augmented.
        """
        self._noted = deque(maxlen=math.ceil(1 / self._poisson.rate))
        left, paid = self.steps(epochs), 0
        while left:
            if self._stop.is_set():
                raise Interrupted("training was asked to stop")
            paid = paid or pay(left)
            if not paid:
                break
            more()
            yield self._drawn()
            left, paid = left - 1, paid - 1
        self._settle()

    def _drawn(self) -> Batch:
        drawn, units = self._poisson.draw(), None
        rows = drawn
        if self._members is not None and len(drawn):
            members = [self._members[unit] for unit in drawn]
            rows = np.concatenate(members)
            units = torch.from_numpy(np.repeat(np.arange(len(members)), [len(own) for own in members]))
        if not len(rows):
            return Batch(None, None, 0)
        inputs, targets = self._data.each(self._data.located(torch.from_numpy(rows)))
        if self._augment is not None:
            inputs = self._data.compute.lay_out(_each_augmented(self._augment, inputs, len(rows)))
        return Batch(inputs, targets, len(rows), units)


def _members(groups: NDArray[Any]) -> list[NDArray[np.int64]]:
    """The examples of each group, groups and examples in ascending order."""
    own = np.unique(groups, return_inverse=True)[1].reshape(-1)
    order = np.argsort(own, kind="stable").astype(np.int64)
    return np.split(order, np.cumsum(np.bincount(own))[:-1])


def _each_augmented(augment: Augment, inputs: Any, count: int) -> Any:
    """Inputs changed at random, each example by itself."""
    check_examples(inputs, count, "inputs")
    stream = Keystream()
    generator = np.random.default_rng(stream.words(0, 4))
    stream.forget()
    rows = torch.arange(count)[:, None]
    # A function may give back the same memory each time, with the next example's values.
    changed = [copied(augmented(augment, take(inputs, row), generator)) for row in rows]
    return joined(changed, "augmented inputs")
