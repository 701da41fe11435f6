"""Which way of computing per-example gradients suits a model, and which models have none.

Sampling and clipping by example promise nothing where one example can change what is computed from another. So the
start looks at a few examples, each alone, then among others, and refuses what differs. Of the ways that give the same
gradients the quickest is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from dpeer.exceptions import TaskError
from dpeer.training.augmentation import augmented
from dpeer.training.flat import Flat
from dpeer.training.per_example.examples import chunks, piece_of
from dpeer.training.per_example.layers import by_layers
from dpeer.training.per_example.moving import moves_examples
from dpeer.training.per_example.parts import Computed
from dpeer.training.per_example.refusals import (
    CLOSE,
    changed,
    check_batch,
    check_memory,
    check_model,
    check_read_again,
    check_settings,
    check_still,
    cut,
    evaluate,
)
from dpeer.training.per_example.state import remembered
from dpeer.training.per_example.stirred import stirred
from dpeer.training.per_example.ways import Way, one_by_one, vectorized
from dpeer.training.randomness import LOCK, generator_states, undisturbed

if TYPE_CHECKING:
    from dpeer.training.trainer import Trainer

_LOOKED_AT = 8
"""Examples that the start looks at."""

_EXTREME = 4
"""How many of the examples that are farthest from zero are looked at besides."""

_APART = 1e-6
"""By how much an example's clipped gradient may depend on its place in a batch and on who else is there, relative to
the clip norm: a thousandth of what `dpeer.privacy.clipped_sum` leaves for it. Matrix products of some shapes add up in
another order at another place; where that matters, because huge values nearly cancel, each is computed alone."""

_ROUNDING = 1e-5
"""By how much a parameter's gradient may differ from the one that an example has alone, relative to the longest whole
gradient: what is zero but for rounding has no size of its own."""

WAYS: Mapping[str, Way] = {"layers": by_layers, "vectorized": vectorized, "one-by-one": one_by_one}
"""By what tests and benchmarks call them; the quickest first."""


def choose(peer: Trainer, part: Flat, rows: int, clip_norm: float) -> Way:
    """The quickest way that suits the task, for these parameters; to be called within `Trainer.training`.

    It is judged at the weights that there are, and at random ones of usual size: a sure model, or a gate that is almost
    closed, has no gradients to see. Each time that takes a forward and a backward pass for each of at most twelve
    examples, and about five of `rows` together.

    Args:
        peer: Whose task it is.
        part: What is trained.
        rows: How many examples are always computed together.
        clip_norm: What gradients are clipped to; differences count by it.

    Raises:
        TaskError: The model, its loss or its data couple examples, or draw random numbers.
        ConfigurationError: The precision is too low.
    """
    check_settings(peer)
    check_model(peer.module)
    total = len(peer.data)
    # From all over the data: the first ones are often of one class. And those that are like no others.
    known = torch.unique(torch.cat([_spread(total, _LOOKED_AT), peer.data.longest(_EXTREME)]))
    with LOCK, undisturbed():  # or another peer's draws would be taken for this one's
        before, buffers = generator_states(part.data.device), peer.untrained.copies()
        kept_by_data = remembered(None, _read(peer))

        def check_nothing_kept(kept: Mapping[str, Any]) -> None:
            check_still(peer, before, buffers)
            check_memory(changed(kept, remembered(peer.module, _functions(peer))))
            # Data may keep what they have read, to have it at hand.
            check_memory(changed(kept_by_data, remembered(None, _read(peer)), growing=True))

        singles = [_read_one(peer, int(number)) for number in known]
        found = []
        for all_of_it in (False, True):
            with stirred(peer, all_of_it=all_of_it):
                kept = remembered(peer.module, _functions(peer))
                alone = [one_by_one(peer, part, *single, 1) for single in singles]
                evaluate(peer, singles[0][0])
                if peer.task.augment is not None:
                    augmented(peer.task.augment, singles[0][0], np.random.default_rng(0))
                peer.reattach()
                check_nothing_kept(kept)
                found.append(_suiting(peer, part, known, alone, rows, clip_norm))
                check_nothing_kept(kept)
        check_read_again(singles, [_read_one(peer, int(number)) for number in known])
    return max(found, key=[*WAYS.values()].index)  # the slower one


def _suiting(peer: Trainer, part: Flat, known: Tensor, alone: list[Computed], rows: int, clip_norm: float) -> Way:
    """The quickest way that suits the task at the weights that there are, given what examples have alone."""
    losses = torch.cat([one.losses for one in alone])
    gradients = torch.cat([one.sums(torch.ones(1, 1, device=losses.device)) for one in alone])
    if not losses.isfinite().all() or not gradients.isfinite().all():
        raise TaskError(
            f"the loss of one of {len(known)} training examples, or its gradient, is not finite: privacy at "
            "sample level needs the loss of each example alone (targets that a loss ignores have none)"
        )
    # As many as there are; and as many as are ever computed together, of which some then stand there repeatedly.
    for places in (torch.arange(len(known)), torch.arange(rows) % len(known)):
        check_batch(peer, *cut(peer, peer.data.located(known[places])), losses[places.to(losses.device)])
    return _quickest(peer, part, _Alone(known, losses, gradients), rows, clip_norm)


def _quickest(peer: Trainer, part: Flat, alone: _Alone, rows: int, clip_norm: float) -> Way:
    """The first way in which an example's gradient is the one that it has alone, whoever is computed beside it."""
    some = len(alone.numbers)
    others = _spread(len(peer.data), max(0, rows - some))
    others = others[~torch.isin(others, alone.numbers)]
    nobody = torch.full((len(others),), -1)
    among, who = torch.cat([others, alone.numbers]), torch.cat([nobody, torch.arange(some)])
    # Without others, and copies of one example: what couples examples of a kind (as a limit to how many of them a part
    # of the model takes does) may show in no batch in which all are mixed.
    crowds = [torch.arange(rows) % some, torch.zeros(rows, dtype=torch.int64), torch.full((rows,), some - 1)]

    def agrees(way: Way) -> bool:
        comparison = _Comparison(peer, part, way, alone, rows, clip_norm)
        try:
            lengths, back = comparison.lengths(among, who), comparison.lengths(among.flip(0), who.flip(0)).flip(0)
            for crowd in crowds:
                comparison.lengths(alone.numbers[crowd], crowd)
        except Exception:  # gradients that are others, or what torch, or the task's code in an unusual place, cannot do
            return False
        return bool((abs(lengths - back) <= _APART * back.clamp(min=clip_norm)).all())

    tried = list(WAYS.values())
    if moves_examples(peer, cut(peer, peer.data.located(alone.numbers))[0]):
        tried.remove(by_layers)
    return next((way for way in tried if way is one_by_one or agrees(way)), one_by_one)


@dataclass(frozen=True)
class _Alone:
    """What examples' losses and gradients are when each is computed alone.

    Attributes:
        numbers: The examples, shape (examples,).
        losses: Shape (examples,).
        gradients: Shape (examples, values).
    """

    numbers: Tensor
    losses: Tensor
    gradients: Tensor


class _Comparison:
    """Compares what a way gives for examples with what they have alone, and with what it gave for them before.

    Gradients are looked at one by one: no more of them are in memory than in a step.

    Args:
        peer: Whose task it is.
        part: What is trained.
        way: The way.
        alone: The examples that are compared.
        rows: How many examples are always computed together.
        clip_norm: What gradients are clipped to.
    """

    def __init__(self, peer: Trainer, part: Flat, way: Way, alone: _Alone, rows: int, clip_norm: float) -> None:
        self._peer, self._part, self._way, self._alone, self._rows = peer, part, way, alone, rows
        self._clip_norm = clip_norm
        self._before: dict[int, Tensor] = {}
        self._largest = float(torch.linalg.vector_norm(alone.gradients, dim=1).max())

    def lengths(self, numbers: Tensor, who: Tensor) -> Tensor:
        """The lengths of examples' gradients as a step computes them, shape (examples,), float64.

        Args:
            numbers: The examples.
            who: Which of those in `alone` each is, from 0; -1 for others.

        Raises:
            ValueError: A gradient is another one than alone, or before.
        """
        peer = self._peer
        inputs, targets = cut(peer, peer.data.located(numbers))
        lengths, names = [], iter(who.tolist())
        for index, count in chunks(len(numbers), self._rows, self._part.data.device):
            found = self._way(peer, self._part, *piece_of(peer.compute, inputs, targets, index), self._rows)
            lengths.append(found.norms()[:count])
            for row in range(count):
                if (name := next(names)) >= 0 and not self._same(name, found, row, lengths[-1][row]):
                    raise ValueError("a gradient that depends on its company")
        return torch.cat(lengths).cpu()

    def _same(self, name: int, found: Computed, row: int, length: Tensor) -> bool:
        gradient, alone = found.row(row), self._alone.gradients[name]
        before = self._before.setdefault(name, gradient.clone())
        size = _length(alone)
        rounding = _ROUNDING * self._largest
        # Losses and lengths are computed in ways of their own.
        return (
            torch.allclose(found.losses[row], self._alone.losses[name], rtol=CLOSE, atol=CLOSE)
            and abs(float(length) - _length(gradient)) <= CLOSE * size + rounding
            and all(
                _length((gradient - alone)[place]) <= CLOSE * _length(alone[place]) + rounding
                for _, _, place in self._part.layout
            )
            and _length(gradient - before) <= _APART * max(size, self._clip_norm)
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
