"""Minibatch iterator of local training: shuffled passes, augmentation, interruption and the mean loss of a pass."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dpeer.exceptions import Interrupted, TaskError
from dpeer.training.batch_loader import Batches, augmenting, batch_order
from dpeer.training.device import mapped
from dpeer.training.errors import blame
from dpeer.training.flat import Phase
from dpeer.training.settings import Hyperparameters
from dpeer.training.task import Augment


def augmented(augment: Augment, inputs: Any, generator: np.random.Generator) -> Any:
    """A minibatch's inputs, changed at random.

    Raises:
        TaskError: The task's function raised, or gave something of another shape or type.
    """
    before = _kinds(inputs)
    with blame("the task's augment failed on a training batch"):
        changed = augment(inputs, generator)
    after = _kinds(changed)
    if after != before:
        raise TaskError(
            f"the task's augment turned inputs of {_words(before)} into {_words(after)}; shape, type and device must "
            "stay"
        )
    return changed


def _kinds(inputs: Any) -> list[tuple[object, ...]]:
    """Shape, type and device of every tensor in order; of any other value its type."""
    found: list[tuple[object, ...]] = []

    def note(tensor: Tensor) -> Tensor:
        found.append((tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), str(tensor.device)))
        return tensor

    mapped(inputs, note, lambda value: found.append((type(value).__name__,)))
    return found


def _words(kinds: list[tuple[object, ...]]) -> str:
    return "; ".join(" ".join(str(part) for part in kind) for kind in kinds) or "nothing"


class Batch(NamedTuple):
    """A minibatch of the peer's training data.

    Attributes:
        inputs: The model's inputs; None in a sampled batch of which nothing was drawn.
        targets: What the loss compares outputs with; None likewise.
        size: How many examples it has.
        units: In a sampled batch of groups, whose each example is: 0 for the first group's, then 1, ..., shape (size,),
            int64, on the host; None where each example is a unit.
    """

    inputs: Any
    targets: Any
    size: int
    units: Tensor | None = None


More = Callable[[], bool]
"""Asked before each minibatch: whether one more is taken; see `StepBudget.phase`."""


def always() -> bool:
    """All minibatches are taken."""
    return True


class Minibatches:
    """Shuffled passes over the training data; the order depends on seed, rank, round, phase and pass alone.

    Args:
        data: The training data.
        augment: How the task changes inputs at random; None where it does not.
        hyperparameters: The size and the number of minibatches.
        rank: The peer.
        seed: The federation's seed.

    Attributes:
        loss: Sample-weighted mean of the losses noted in the last pass; None before the first.
    """

    def __init__(
        self, data: Batches, augment: Augment | None, hyperparameters: Hyperparameters, *, rank: int, seed: int
    ) -> None:
        self._data, self._augment, self._hyperparameters = data, augment, hyperparameters
        self._rank, self._seed = rank, seed
        self._an_epoch = math.ceil(len(data) / hyperparameters.batch_size)
        self._noted: deque[tuple[Tensor, int]] = deque()
        self._stop = threading.Event()
        self.loss: float | None = None

    def interrupt(self) -> None:
        """Give no more minibatches. Any thread may call this."""
        self._stop.set()

    def steps(self, epochs: int) -> int:
        """How many minibatches `epochs` passes are, or what `local_steps` says."""
        h = self._hyperparameters
        if h.local_steps is not None:
            return math.ceil(h.local_steps * epochs / h.body_epochs)
        return epochs * self._an_epoch

    def of(self, number: int, phase: Phase, epochs: int, more: More = always) -> Iterator[Batch]:
        """The data of a round, `epochs` times, each time in another order; or as many as `local_steps` says.

        The inputs are augmented where the task says how.

        Args:
            number: The round.
            phase: Which part of it.
            epochs: Passes over the data.
            more: Ends the minibatches before that.

        Raises:
            Interrupted: `interrupt` was called.
            TaskError: The data cannot be read or augmented.
        """
        self._noted = deque(maxlen=self._an_epoch)
        for step in range(self.steps(epochs)):
            epoch, index = divmod(step, self._an_epoch)
            if not index:
                order = batch_order(len(self._data), self._seed, self._rank, number, phase, epoch)
                chunks = torch.split(self._data.located(order), self._hyperparameters.batch_size)
                if self._augment is not None:
                    generator = augmenting(self._seed, self._rank, number, phase, epoch)
            if self._stop.is_set():
                raise Interrupted("training was asked to stop")
            if not more():
                break
            inputs, targets = self._data.take(chunks[index])
            if self._augment is not None:
                inputs = self._data.compute.lay_out(augmented(self._augment, inputs, generator))
            yield Batch(inputs, targets, len(chunks[index]))
        self._settle()

    def _settle(self) -> None:
        """Make `loss` of what was noted."""
        if any(size for _, size in self._noted):
            weights = torch.tensor([size for _, size in self._noted], dtype=torch.float64, device="cpu")
            losses = torch.stack([loss for loss, _ in self._noted]).cpu().double()
            self.loss = (losses @ weights / weights.sum()).item()

    def note(self, loss: Tensor, batch: Batch) -> None:
        """Remember the loss on a minibatch, a scalar: `loss` becomes the mean over the last pass's."""
        self._noted.append((loss, batch.size))
