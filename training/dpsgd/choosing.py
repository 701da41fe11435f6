"""Which way of computing per-example gradients suits a model, and which models have none.

Sampling and clipping by example promise nothing where one example can change what is computed from another. So the
start looks at a few examples, each alone, then among others, and refuses what differs. Of the ways that give the same
gradients the quickest is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from dpeer.exceptions import TaskError
from dpeer.training.augmentation import augmented
from dpeer.training.dpsgd.backends import Way, one_by_one, vectorized
from dpeer.training.dpsgd.drawn import drawn_like
from dpeer.training.dpsgd.examples import examples_of, piece_of
from dpeer.training.dpsgd.gradient_factors import Computed
from dpeer.training.dpsgd.layers import by_layers
from dpeer.training.dpsgd.sentinel import Sentinel
from dpeer.training.dpsgd.state import remembered
from dpeer.training.dpsgd.stirred import stirred
from dpeer.training.dpsgd.supported_layers import computes_alone, keeps_examples_apart
from dpeer.training.dpsgd.validation import (
    CLOSE,
    changed,
    check_batch,
    check_memory,
    check_model,
    check_read_again,
    check_settings,
    check_still,
    check_unwritten,
    cut,
    evaluate,
)
from dpeer.training.flat import Flat
from dpeer.training.randomness import LOCK, generator_states, undisturbed

if TYPE_CHECKING:
    from dpeer.training.trainer import Trainer

_LOOKED_AT = 8
"""Examples that the start looks at."""

_EXTREME = 4
"""How many of the examples that are farthest from zero are looked at besides."""

_COMPARED = 4
"""Drawn examples that are computed in each way, and alone."""

_ROUNDING = 1e-5
"""By how much a parameter's gradient may differ from the one that an example has alone, relative to the longest whole
gradient: what is zero but for rounding has no size of its own."""

WAYS: Mapping[str, Way] = {"layers": by_layers, "vectorized": vectorized, "one-by-one": one_by_one}
"""By what tests and benchmarks call them; the quickest first."""


def choose(peer: Trainer, part: Flat, rows: int, *, together: bool = True, sentinel: Sentinel | None = None) -> Way:
    """The quickest way that suits the task, for these parameters; to be called within `Trainer.training`.

    It is judged at the weights that there are, and at random ones of usual size: a sure model, or a gate that is almost
    closed, has no gradients to see. Each time that takes a forward and a backward pass for each of at most sixteen
    examples, and about seven of `rows` together.

    Args:
        peer: Whose task it is.
        part: What is trained.
        rows: How many examples are always computed together.
        together: Whether another way than `one_by_one` may be taken.
        sentinel: Begins before any example is looked at, and is asked at the end; None for one of this call's own.

    Raises:
        TaskError: The model, its loss or its data couple examples, or draw random numbers.
        ConfigurationError: The precision is too low.
    """
    check_settings(peer)
    check_model(peer.module)
    sentinel = sentinel or Sentinel(peer, part)
    total = len(peer.data)
    # From all over the data: the first ones are often of one class. And those that are like no others.
    known = torch.unique(torch.cat([_spread(total, _LOOKED_AT), peer.data.longest(_EXTREME)]))
    with LOCK, undisturbed():  # or another peer's draws would be taken for this one's
        before, buffers = generator_states(part.data.device), peer.untrained.copies()
        kept_by_data = remembered(None, _read(peer))

        def check_nothing_kept(kept: Mapping[str, Any], values: Tensor) -> None:
            check_unwritten(peer, values)
            check_still(peer, before, buffers)
            check_memory(changed(kept, remembered(peer.module, _functions(peer))))
            # Data may keep what they have read, to have it at hand.
            check_memory(changed(kept_by_data, remembered(None, _read(peer)), growing=True))

        kept, values = remembered(peer.module, _functions(peer)), peer.model.data.clone()
        sentinel.begin()
        check_nothing_kept(kept, values)
        singles = [_read_one(peer, int(number)) for number in known]
        found = []
        for all_of_it in (False, True):
            with stirred(peer, all_of_it=all_of_it):
                kept, values = remembered(peer.module, _functions(peer)), peer.model.data.clone()
                alone = [one_by_one(peer, part, *single, 1) for single in singles]
                evaluate(peer, singles[0][0])
                if peer.task.augment is not None:
                    augmented(peer.task.augment, singles[0][0], np.random.default_rng(0))
                check_nothing_kept(kept, values)
                _check_alone(peer, known, alone, rows)
                found.append(_quickest(peer, part, rows) if together else one_by_one)
                check_nothing_kept(kept, values)
        check_read_again(singles, [_read_one(peer, int(number)) for number in known])
        sentinel.check()
    return max(found, key=[*WAYS.values()].index)  # the slower one


def _check_alone(peer: Trainer, known: Tensor, alone: list[Computed], rows: int) -> None:
    """Look at the losses and gradients that examples have alone, and at those of batches of them.

    Raises:
        TaskError: They are not finite, or the loss of a batch is no mean of its examples'.
    """
    losses = torch.cat([one.losses for one in alone])
    finite = losses.isfinite().all() and all(bool(one.norms().isfinite().all()) for one in alone)
    if not finite:
        raise TaskError(
            f"the loss of one of {len(known)} training examples, or its gradient, is not finite: privacy at "
            "sample level needs the loss of each example alone (targets that a loss ignores have none)"
        )
    # As many as there are; and as many as are ever computed together, of which some then stand there repeatedly.
    for places in (torch.arange(len(known)), torch.arange(rows) % len(known)):
        check_batch(peer, *cut(peer, peer.data.located(known[places])), losses[places.to(losses.device)])


def _quickest(peer: Trainer, part: Flat, rows: int) -> Way:
    """The first way that gives an example the gradient that it has alone, to the last bit the same in any company.

    Last bits show which code a product of matrices takes at a place; and weights that a neighbor sends can make last
    bits as large as gradients. Where they are equal for some examples and any weights, the code is the same.

    Which way is taken must not follow from a record, or the last bits of all others would: so no value of the data is
    looked at.
    """
    tried = _answered_for(peer)
    if not tried:
        return one_by_one
    like = cut(peer, peer.data.located(torch.arange(rows) % len(peer.data)))
    some = torch.arange(min(_COMPARED, rows))
    for below in (2, 1):
        inputs, targets = drawn_like(peer, *like, below)
        with suppress(TaskError):  # whole numbers that mean nothing to the model
            alone = one_by_one(peer, part, examples_of(inputs, some), examples_of(targets, some), len(some))
            break
    else:
        return one_by_one
    every = torch.arange(rows)
    orders = [every, every.flip(0), torch.randperm(rows, generator=torch.Generator().manual_seed(0))]
    # Without others, and copies of one example, which stands at every place then: what couples examples of a kind (as a
    # limit to how many of them a part of the model takes does) may show in no batch in which all are mixed.
    orders += [every % len(some), torch.zeros(rows, dtype=torch.int64), torch.full((rows,), len(some) - 1)]

    def suits(way: Way) -> bool:
        comparison = _Comparison(alone, part)
        try:
            for order in orders:
                comparison.check(order, way(peer, part, *piece_of(peer.compute, inputs, targets, order), rows))
        except Exception:  # gradients that are others, or what torch, or the task's code in an unusual place, cannot do
            return False
        return True

    return next((way for way in tried if suits(way)), one_by_one)


def _answered_for(peer: Trainer) -> list[Way]:
    """The ways to compute several examples at once that are safe for a model and a loss, the quickest first."""
    if not keeps_examples_apart(peer.module):
        return [vectorized] if peer.task.vmap else []
    return [by_layers, vectorized] if peer.task.vmap or computes_alone(peer.loss_function) else [by_layers]


class _Comparison:
    """Compares what a way gives for examples with what they have alone, and with what it gave for them before.

    Gradients are looked at one by one: no more of them are in memory than in a step.

    Args:
        alone: What the first examples have alone.
        part: What is trained.
    """

    def __init__(self, alone: Computed, part: Flat) -> None:
        self._alone, self._part = alone, part
        self._before: dict[int, tuple[Tensor, Tensor, Tensor]] = {}
        self._largest = float(alone.norms().max())

    def check(self, order: Tensor, found: Computed) -> None:
        """Compare the gradients of those examples that were also computed alone.

        Args:
            order: Which example each is.
            found: What the way gave.

        Raises:
            ValueError: A gradient is another one than alone, or than before.
        """
        lengths = found.norms()
        for row, name in enumerate(order.tolist()):
            if name < self._alone.examples:
                self._check(name, found.row(row), lengths[row], found.losses[row])

    def _check(self, name: int, gradient: Tensor, length: Tensor, loss: Tensor) -> None:
        if name not in self._before:
            self._before[name] = gradient.clone(), length, loss
            if not self._right(name, gradient, float(length), loss):
                raise ValueError("another gradient than alone")
        if not all(map(torch.equal, self._before[name], (gradient, length, loss))):
            raise ValueError("a gradient that depends on its place or company")

    def _right(self, name: int, gradient: Tensor, length: float, loss: Tensor) -> bool:
        alone = self._alone.row(name)
        rounding = _ROUNDING * self._largest
        # Losses and lengths are computed in ways of their own.
        return (
            torch.allclose(loss, self._alone.losses[name], rtol=CLOSE, atol=CLOSE)
            and abs(length - _length(gradient)) <= CLOSE * _length(alone) + rounding
            and all(
                _length((gradient - alone)[place]) <= CLOSE * _length(alone[place]) + rounding
                for _, _, place in self._part.layout
            )
        )


def _length(vector: Tensor) -> float:
    return float(torch.linalg.vector_norm(vector, dtype=torch.float64))


def _spread(total: int, count: int) -> Tensor:
    """At most so many numbers from 0 to total - 1, evenly."""
    count = min(count, total)
    return torch.arange(count, device="cpu") * total // count


def _read_one(peer: Trainer, number: int) -> tuple[Any, Any]:
    """The minibatch of one example."""
    return cut(peer, peer.data.located(torch.tensor([number], device="cpu")))


def _functions(peer: Trainer) -> list[Any]:
    """What of a task may remember something besides its model."""
    task = peer.task
    return [task.loss, task.augment, task.collate, task.metrics]


def _read(peer: Trainer) -> list[Any]:
    """The training data, if code of theirs runs when they are read."""
    return [] if peer.data.in_memory else [peer.task.train]
