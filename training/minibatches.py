"""Minibatches: the source of plain gradients, shuffled passes over the training data with augmentation.

A trainer is given a source, which says what a step is made of. `dpeer.training.dpsgd.private_minibatches` is the other.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dpeer.exceptions import Interrupted, TaskError
from dpeer.privacy.guarantee import Ascent
from dpeer.privacy.guarantee import Phase as PlannedPhase
from dpeer.training.batch_loader import Batch, augmenting, batch_order
from dpeer.training.errors import blame, kind_of
from dpeer.training.flat import Flat, Phase
from dpeer.training.net import Net
from dpeer.training.task import Augment


def augmented(augment: Augment, inputs: Any, generator: np.random.Generator) -> Any:
    """A minibatch's inputs, changed at random.

    Raises:
        TaskError: The task's function raised, or gave something of another shape or type.
    """
    before = kind_of(inputs)
    with blame("the task's augment failed on a training batch"):
        changed = augment(inputs, generator)
    if (after := kind_of(changed)) != before:
        raise TaskError(f"the task's augment turned {before} into {after}; shape, type and device must stay")
    return changed


More = Callable[[], bool]
"""Asked before each minibatch: whether one more is taken; see `StepBudget.phase`."""


class Stepped(NamedTuple):
    """What a call of `Trainer.fit` steps.

    Attributes:
        part: What gets gradients.
        rates: The vectors that are stepped, each with its learning rate.
        source: Where minibatches and gradients come from.
    """

    part: Flat
    rates: Sequence[tuple[Flat, float]]
    source: Minibatches


class Minibatches:
    """Shuffled passes over the training data; the order depends on seed, rank, round, phase and pass alone.

    Attributes:
        an_epoch: How many minibatches a pass has.
        units: How many units of protection the data have: samples.
        noise_std: The standard deviation of the noise in each coordinate of a gradient, before `grad_clip`.
        ascent: Along which gradient SAM climbs; see `dpeer.training.gradients.sam`.
        one_by_one: Whether each example is computed by itself because of what the model or the loss is.
        planned: The phases of a round whose steps are paid for.
        state: The tensors that a resumed run needs, by name.
    """

    noise_std, one_by_one = 0.0, False
    ascent: Ascent = "same-batch"

    def __init__(self, net: Net, *, rank: int, seed: int) -> None:
        self.net, self.rank, self.seed = net, rank, seed
        self.units, self.an_epoch = len(net.data), math.ceil(len(net.data) / net.hyperparameters.batch_size)
        self.planned: Sequence[PlannedPhase] = ()
        self.state: dict[str, Tensor] = {}
        self._stop = threading.Event()

    def interrupt(self) -> None:
        """Give no more minibatches. Any thread may call this."""
        self._stop.set()

    def begin(self) -> None:
        """Begin a round."""

    def steps(self, epochs: int) -> int:
        """How many minibatches `epochs` passes are, or what `local_steps` says."""
        h = self.net.hyperparameters
        if h.local_steps is not None:
            return math.ceil(h.local_steps * epochs / h.body_epochs)
        return self._passes(epochs)

    def _passes(self, epochs: int) -> int:
        return epochs * self.an_epoch

    def stepped(self, part: Flat, lr: float, number: int) -> Stepped | None:
        """What is stepped where an algorithm asks for this part at this rate in round `number`; None for nothing."""
        return Stepped(part, [(part, lr)], self)

    def of(self, number: int, phase: Phase, epochs: int, more: More, *, part: str, looks: int = 1) -> Iterator[Batch]:
        """The data of a round, `epochs` times, each time in another order; or as many as `local_steps` says.

        The inputs are augmented where the task says how. The phase decides about the order, `more` ends the minibatches
        before their end, and `looks` gradients are taken of each.

        Raises:
            Interrupted: `interrupt` was called.
            TaskError: The data cannot be read or augmented.
        """
        data, augment = self.net.data, self.net.task.augment
        for step in range(self.steps(epochs)):
            epoch, index = divmod(step, self.an_epoch)
            if not index:
                order = batch_order(len(data), self.seed, self.rank, number, phase, epoch)
                chunks = torch.split(data.located(order), self.net.hyperparameters.batch_size)
                if augment is not None:
                    generator = augmenting(self.seed, self.rank, number, phase, epoch)
            self._check()
            if not more():
                break
            inputs, targets = data.take(chunks[index])
            if augment is not None:
                inputs = data.compute.lay_out(augmented(augment, inputs, generator))
            yield Batch(inputs, targets, len(chunks[index]))

    def _check(self) -> None:
        if self._stop.is_set():
            raise Interrupted("training was asked to stop")

    def gradient(self, part: Flat, batch: Batch) -> Tensor:
        """Compute the minibatch's gradient into ``part.grad``; return its loss, a scalar."""
        return self.net.plain_gradient(part, batch)

    def weighed(self, loss: Tensor, batch: Batch) -> tuple[Tensor, int]:
        """The true loss of a step, for the peer's own files, and of how many examples it is the mean."""
        return loss, batch.size

    def unchanged(self) -> AbstractContextManager[None]:
        """Context of an evaluation, which must leave no trace in what is sent."""
        return nullcontext()

    def before_release(self) -> None:
        """Look at what is about to be released."""

    def spent(self) -> dict[str, Any] | None:
        """The cost of privacy so far, JSON values; None where steps cost nothing."""
        return None
