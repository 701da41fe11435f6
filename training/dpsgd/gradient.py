"""The gradient rule of DP-SGD: gradients clipped for each unit, summed, noised, divided by a public number."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor

from dpeer.exceptions import TaskError
from dpeer.privacy.mechanism import LONGEST, ClippedSum
from dpeer.training.batch_loader import Batch
from dpeer.training.dpsgd.backend_choice import choose
from dpeer.training.dpsgd.backends import Backend, UnsupportedModel, chunks, one_by_one, take, take_pair
from dpeer.training.dpsgd.gradient_factors import ExampleGradients, row_norms
from dpeer.training.dpsgd.task_checks import check_task
from dpeer.training.flat import Flat
from dpeer.training.net import Net

TOGETHER = 64
"""Examples are computed together in so many rows, or a multiple. Functions such as the sigmoid are computed by other
code for the last values of a tensor, if their number is no multiple of what a processor takes at a time (of float32 at
most 64): then an example's last bits would follow from its place."""

_FEW = 16
"""Fewer examples than so many are computed one by one as quickly as among as many copies as it takes."""


class PrivateGradient:
    """A `Gradient` (`dpeer.training.gradients`) that protects each unit of a sampled batch.

    A unit is an example, or where the batch says so a group of examples, whose gradient is the mean of theirs. Clipping
    is by the length over all parameters that are trained together. What is left in ``part.grad`` is public; the
    loss that is returned is not.

    Memory: gradients are computed for at most `microbatch` examples at a time. So memory holds, beside the batch's
    inputs, at most these examples' activations, what the filters of one convolution see of them, and `microbatch`
    vectors as long as what is trained. In `by_layers` linear layers need none of the vectors. A batch may be of any
    size. With fewer than `TOGETHER` of them each is computed by itself.

    Attributes:
        steps: How many gradients have been made, those of empty batches included: the compositions to account for.
        met: What clipping has met since this was last cleared, for the peer's own files, never for others: "units" that
            were drawn, those that were "clipped", and those that were "not_finite" and counted as zero; of a group only
            such examples do.
        backends: What computes the gradients of each part, by its phase.
    """

    def __init__(self, mechanism: ClippedSum, microbatch: int = 64) -> None:
        self._mechanism, self._microbatch = mechanism, microbatch
        self.backends: dict[str, Backend] = {}
        self.steps, self.met = 0, Counter[str]()

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise in each coordinate of what is left in ``part.grad``: sigma C / (q N)."""
        return self._mechanism.noise_std / self._mechanism.expected

    @property
    def rows(self) -> int:
        """How many examples are always computed together, some of them repeatedly where a batch has fewer.

        It follows from numbers that are public: with the size of the batch the last bits of gradients would change.
        As few pieces as batches of the expected size need, of a multiple of `TOGETHER`; or fewer examples, which are
        then computed one by one.
        """
        expected = self._mechanism.expected
        pieces = max(1, math.ceil(expected / self._microbatch))
        few = math.ceil((expected + math.sqrt(expected)) / pieces)
        if few < _FEW or self._microbatch < TOGETHER:
            return min(self._microbatch, few)
        return min(self._microbatch // TOGETHER, math.ceil(few / TOGETHER)) * TOGETHER

    @property
    def one_by_one(self) -> bool:
        """Whether examples are computed one by one although as many are drawn as could be computed together."""
        return self.rows % TOGETHER == 0 and one_by_one in self.backends.values()

    def start(self, net: Net, part: Flat) -> None:
        """Validate the task, and choose how gradients of this part are computed; the first step does it, too.

        Raises:
            TaskError: The task cannot be protected.
        """
        with net.training(part):
            if not self.backends:
                check_task(net)
            self.backends[part.phase] = choose(net, part, self.rows) if self.rows % TOGETHER == 0 else one_by_one

    def __call__(self, net: Net, part: Flat, batch: Batch) -> Tensor:
        """Leave the noised gradient in ``part.grad``; return the mean loss of the batch's examples, 0 if it is empty.

        Raises:
            TaskError: The task cannot be protected, or raised.
        """
        if part.phase not in self.backends:
            self.start(net, part)
        # In float64, so that what is added first and what later makes no difference that counts.
        total = torch.zeros(part.count, dtype=torch.float64, device=part.data.device)
        loss = torch.zeros((), dtype=torch.float32, device=part.data.device)
        groups = None if batch.units is None else GroupSums(batch.units, total)
        # Whatever the task's code writes to parameters and buffers is undone: it would leave without noise.
        with net.untrained.kept(), net.holding(net.model.data):
            for index, count in chunks(batch.size, self.rows, part.data.device):
                found = self._computed(net, part, batch, index, count)
                loss += found.losses[:count].sum() / batch.size
                if groups is None:
                    self._add_examples(found, count, total)
                else:
                    groups.add(found, count, self._factors)
        noised = self._mechanism.released(total.cpu().numpy(), torch.get_num_threads())
        part.grad.copy_(torch.from_numpy(noised))
        net.computed(batch.size)
        self.steps += 1
        return loss

    def _computed(self, net: Net, part: Flat, batch: Batch, index: Tensor, count: int) -> ExampleGradients:
        """The gradients of a piece of the batch, of which the first `count` count."""
        backend, own = self.backends[part.phase], index[:count]
        if backend is one_by_one:
            return one_by_one(net, part, take(batch.inputs, own), take(batch.targets, own), count)
        try:
            return backend(net, part, *take_pair(net.compute, batch.inputs, batch.targets, index), len(index))
        except TaskError as error:
            # No other backend: last bits of all would be others, because of one. An example that fails alone says why.
            one_by_one(net, part, take(batch.inputs, own), take(batch.targets, own), count)
            if not isinstance(error, UnsupportedModel):
                raise
            raise TaskError(
                "the task's model or loss does something with a training example that it did not do with others: "
                "privacy at sample level needs the same operations for every example (leave out `vmap=True`, or give "
                "the task's model a forward that does not choose between several)"
            ) from error

    def _add_examples(self, found: ExampleGradients, count: int, total: Tensor) -> None:
        """Add the clipped gradients of the first examples."""
        norms = found.norms()
        weights = torch.zeros_like(norms)
        weights[:count] = self._factors(norms[:count])
        if (bad := ~norms.isfinite()).any():
            found.drop(bad)  # zero times infinity is no zero
        total += found.sums(weights[None])[0]

    def _factors(self, norms: Tensor) -> Tensor:
        """Factors that clip gradients of these lengths, shape (units,), float64."""
        lengths = norms.double().cpu().numpy()
        factors = self._mechanism.factors(lengths)
        clipped, not_finite = (lengths > self._mechanism.clip_norm).sum(), (factors == 0.0).sum()
        self.met.update(units=len(lengths), clipped=int(clipped), not_finite=int(not_finite))
        return torch.from_numpy(factors).to(norms.device)


_CANCELLING = 1e-3
"""A group's gradient is clipped as if it were at least this part of the mean length of its examples' gradients.

Where these are huge and nearly cancel, what is left of them is mostly their last bits, and these may depend on who is
computed beside them: on 1e-6 of their lengths, which is then less than `_MARGIN` leaves of the clip norm. It changes no
group whose examples' gradients are less than a thousand times as long as the clip norm."""


class GroupSums:
    """Adds the clipped gradients of groups, whose examples lie one after the other in a batch.

    Each group's gradient is added up in the order of its examples, in float64 and by itself, so that it does not depend
    on the other groups, or on where a piece of the batch ends.
    """

    def __init__(self, units: Tensor, total: Tensor) -> None:
        self._units, self._sizes = units.tolist(), torch.bincount(units).tolist()
        self._total, self._sum = total, torch.zeros_like(total)
        self._lengths, self._at = 0.0, 0

    def add(self, found: ExampleGradients, count: int, factors: Callable[[Tensor], Tensor]) -> None:
        """Take the gradients of the next examples; `factors` is called once for each group, with its length."""
        for number, norm in enumerate(found.norms()[:count].tolist()):
            # One that is not finite, or whose values may be none in float32, is left out whatever the others are like.
            if norm <= LONGEST:
                self._sum += found.row(number)
                self._lengths += norm
            unit, self._at = self._units[self._at], self._at + 1
            if self._at == len(self._units) or self._units[self._at] != unit:
                self._end(self._sizes[unit], factors)

    def _end(self, size: int, factors: Callable[[Tensor], Tensor]) -> None:
        """Add the group of which all examples have been taken."""
        self._sum /= size
        length = row_norms(self._sum[None]).clamp(min=_CANCELLING * self._lengths / size)
        if factor := float(factors(length)):  # zero times infinity is no zero
            self._total += self._sum.mul_(factor)
        self._sum.zero_()
        self._lengths = 0.0
