"""Poisson-sampled batches, which DP-SGD trains on in place of shuffled minibatches."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpeer.exceptions import TaskError
from dpeer.privacy.randomness import Keystream
from dpeer.privacy.sampling import Poisson
from dpeer.training.batch_loader import Batch, Batches
from dpeer.training.dpsgd.examples import take
from dpeer.training.minibatches import augmented
from dpeer.training.task import Augment


class PoissonBatches:
    """Poisson samples of the training data; the draws are secret and cannot be repeated.

    Each unit is in a batch with probability `rate`, independently of all others and of earlier batches. So batches have
    different sizes, and one of which nothing was drawn is a batch, too.

    Args:
        data: The training data.
        augment: How the task changes inputs at random; None where it does not. It is called for each example by itself,
            with secret numbers: from those of the public seed, and from a whole batch, others' inputs would
            depend on who else is drawn.
        rate: q, above 0 and at most 1.
        groups: Whose each example is, shape (examples,): then groups are drawn, each with all of its examples. None
            where each example is a unit.

    Attributes:
        units: The number of units.

    Raises:
        ConfigurationError: The rate is beyond its limits.
        TaskError: `groups` has not one entry for each example.
    """

    def __init__(self, data: Batches, augment: Augment | None, rate: float, groups: NDArray[Any] | None = None) -> None:
        if groups is not None and len(groups) != len(data):
            raise TaskError(
                f"the task's groups are of {len(groups)} examples, its training data have {len(data)}; it "
                "must be one entry for each"
            )
        self._data, self._augment = data, augment
        self._members = None if groups is None else _members(groups)
        self.units = len(data) if self._members is None else len(self._members)
        self._poisson = Poisson(self.units, rate)

    def draw(self) -> Batch:
        """The next batch.

        Raises:
            TaskError: The data cannot be read or augmented.
        """
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
            inputs = self._data.compute.lay_out(_each_augmented(self._augment, inputs))
        return Batch(inputs, targets, len(rows), units)


def _members(groups: NDArray[Any]) -> list[NDArray[np.int64]]:
    """The examples of each group, groups and examples in ascending order."""
    own = np.unique(groups, return_inverse=True)[1].reshape(-1)
    order = np.argsort(own, kind="stable").astype(np.int64)
    return np.split(order, np.cumsum(np.bincount(own))[:-1])


def _each_augmented(augment: Augment, inputs: Tensor) -> Tensor:
    """Inputs changed at random, each example by itself."""
    stream = Keystream()
    generator = np.random.default_rng(stream.words(0, 4))
    stream.forget()
    rows = torch.arange(len(inputs), device="cpu")[:, None]
    # A function may give back the same memory each time, with the next example's values.
    return torch.cat([augmented(augment, take(inputs, row), generator).clone() for row in rows])
