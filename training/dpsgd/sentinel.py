"""Examples that are read and computed again after every step, to see that code keeps nothing of the others.

What Python code may keep, and where, has no end: in a cache, a generator, an argument that is bound to a function, a
variable of another file. `state.py` finds the usual places. Wherever it is kept, it changes what the code gives; so the
same examples, at the same weights, must have the same gradients, to the last bit, for as long as training goes on.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from dpeer.exceptions import TaskError
from dpeer.training.augmentation import augmented
from dpeer.training.device import tensors_of
from dpeer.training.dpsgd.backends import one_by_one
from dpeer.training.dpsgd.drawn import drawn_like
from dpeer.training.dpsgd.stirred import stirred
from dpeer.training.dpsgd.supported_layers import computes_alone, keeps_examples_apart
from dpeer.training.dpsgd.validation import cut, same_bits
from dpeer.training.flat import Flat

if TYPE_CHECKING:
    from dpeer.training.trainer import Trainer

_WARMING = 5
"""How often the examples are computed at first, at most, until they are the same twice: code that is compiled while it
runs may have other last bits the first times."""

_CLOSE = 1e-4
"""How much values may differ on a GPU, where some sums are made in no fixed order, relative to the largest."""


class Sentinel:
    """Examples that are read and computed again and again.

    Of the data the first and the last example are read. Computed are examples that are drawn: what code keeps of the
    first it sees would else be part of what is compared with. They are augmented with numbers that are always the same,
    and differentiated at weights that are always the same (`stirred`), so that no body that a neighbor sends decides
    what shows. Code that is known to keep nothing is left out; with built-in models and losses and data in memory there
    is nothing to look at.

    Args:
        peer: Whose task it is.
        part: What is trained.
    """

    def __init__(self, peer: Trainer, part: Flat) -> None:
        self._peer, self._part = peer, part
        self._differentiates = not (keeps_examples_apart(peer.module) and computes_alone(peer.loss_function))
        self._examples: list[tuple[Any, Any]] = []
        self._first: list[Tensor] = []

    def begin(self) -> None:
        """Note what the examples give; to be called within `Trainer.training`, before others are looked at.

        Raises:
            TaskError: The task's code cannot read, augment or compute them.
        """
        if self._differentiates or self._peer.task.augment is not None:
            self._examples = self._chosen()
        self._first = self._found()
        for _ in range(_WARMING - 1):
            before, self._first = self._first, self._found()
            if self._same(before, self._first):
                return

    def check(self) -> None:
        """Refuse code that gives for an example what it did not give at first; within `Trainer.training`.

        Raises:
            TaskError: It does.
        """
        if not self._same(self._first, self._found()):
            raise TaskError(
                "an example has another gradient, at the same weights, than before others were computed: the task's "
                "model, loss, augment, collate or data keep something of examples, which would be in the gradients of "
                "others, without noise; privacy at sample level needs code that keeps nothing"
            )

    def _chosen(self) -> list[tuple[Any, Any]]:
        """Drawn examples; or those of the data, for code that can compute no drawn ones."""
        ends = [self._read(number) for number in self._ends()]
        for below in (2, 1):
            drawn = [drawn_like(self._peer, *one, below, seed) for seed, one in enumerate(ends)]
            with suppress(TaskError):  # whole numbers that mean nothing to the model
                for one in drawn:
                    self._computed(*one)
                return drawn
        return ends

    def _ends(self) -> list[int]:
        return sorted({0, len(self._peer.data) - 1})

    def _read(self, number: int) -> tuple[Any, Any]:
        """The minibatch of one example."""
        return cut(self._peer, self._peer.data.located(torch.tensor([number], device="cpu")))

    def _found(self) -> list[Tensor]:
        """What there is to compare: values of the examples that are read, and of those that are computed."""
        found: list[Tensor] = []
        if not self._peer.data.in_memory:
            for number in self._ends():
                found += [tensor.clone() for tensor in tensors_of(self._read(number))]
        for inputs, targets in self._examples:
            found += self._computed(inputs, targets)
        return found

    def _computed(self, inputs: Any, targets: Any) -> list[Tensor]:
        """An example's inputs after augmentation, its loss and its gradient."""
        peer, found = self._peer, list[Tensor]()
        if peer.task.augment is not None:
            inputs = peer.compute.lay_out(augmented(peer.task.augment, inputs, np.random.default_rng(0)))
            found += [tensor.clone() for tensor in tensors_of(inputs)]
        if self._differentiates:
            with stirred(peer, all_of_it=True):
                computed = one_by_one(peer, self._part, inputs, targets, 1)
            found += [computed.losses, computed.row(0)]
        return found

    def _same(self, one: list[Tensor], other: list[Tensor]) -> bool:
        return len(one) == len(other) and all(map(self._alike, one, other))

    def _alike(self, one: Tensor, other: Tensor) -> bool:
        if same_bits(one, other):
            return True
        if self._peer.compute.on_host or one.shape != other.shape or not one.is_floating_point():
            return False
        return bool((one - other).abs().max() <= _CLOSE * one.abs().max())
