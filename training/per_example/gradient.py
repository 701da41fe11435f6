"""The gradient rule of sample level: clipped for each unit, summed, noised, divided by a public number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dpeer.exceptions import ConfigurationError
from dpeer.privacy.clipped_sum import ClippedSum
from dpeer.training.flat import Flat
from dpeer.training.minibatches import Batch
from dpeer.training.per_example.choosing import choose
from dpeer.training.per_example.examples import check_examples, examples_of
from dpeer.training.per_example.parts import Computed, lengths_of
from dpeer.training.per_example.ways import Unsuited, Way, one_by_one

if TYPE_CHECKING:
    from dpeer.training.trainer import Trainer


@dataclass
class Met:
    """What clipping met in a step; for the peer's own files, never for others.

    Attributes:
        units: How many units were drawn.
        clipped: How many had a gradient longer than the clip norm.
        not_finite: How many had one that was not finite, and counted as zero; of a group only such examples do.
    """

    units: int = 0
    clipped: int = 0
    not_finite: int = 0


class PrivateGradient:
    """A `Gradient` (`dpeer.training.gradients`) that protects each unit of a sampled batch.

    A unit is an example, or where the batch says so a group of examples, whose gradient is the mean of theirs. Clipping
    is by the length over all parameters that are trained together. What is left in ``part.grad`` may be seen by
    anybody; the loss that is returned may not.

    Memory: gradients are computed for `microbatch` examples at a time. So at most there are, beside the batch's inputs,
    these examples' activations, what the filters of one convolution see of them, and `microbatch` vectors as long as
    what is trained; with groups twice as many. Linear layers need none of the vectors where units are examples, unless
    the model needs one of the slower ways. A batch may be of any size, as sampled batches are.

    Args:
        mechanism: Clip norm, noise, sampling rate and nominal number of units.
        microbatch: How many examples' gradients are in memory at a time, 1 or more.

    Attributes:
        steps: How many gradients have been made, those of empty batches included: the compositions to account for.
        met: What clipping met in the last step.

    Raises:
        ConfigurationError: `microbatch` is below 1.
    """

    def __init__(self, mechanism: ClippedSum, microbatch: int = 64) -> None:
        if microbatch < 1:
            raise ConfigurationError(f"--microbatch {microbatch}: choose 1 or more")
        self._mechanism, self._microbatch = mechanism, microbatch
        self._ways: dict[str, Way] = {}
        self.steps, self.met = 0, Met()

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise in each coordinate of what is left in ``part.grad``: sigma C / (q N)."""
        return self._mechanism.noise_std / self._mechanism.expected

    def start(self, peer: Trainer, part: Flat) -> None:
        """Look at a few examples, and choose how gradients of this part are computed; the first step does it, too.

        Raises:
            TaskError: The task couples examples, or cannot be protected for another reason.
        """
        with peer.training(part):
            self._ways[part.phase] = choose(peer, part)

    def __call__(self, peer: Trainer, part: Flat, batch: Batch) -> Tensor:
        """Leave the noised gradient in ``part.grad``; return the mean loss of the batch's examples, 0 if it is empty.

        Raises:
            TaskError: The task couples examples, or its code raised.
        """
        if part.phase not in self._ways:
            self.start(peer, part)
        if batch.size:
            check_examples(batch.inputs, batch.size, "inputs")
            check_examples(batch.targets, batch.size, "targets")
        self.met = Met()
        total = torch.zeros(part.count, dtype=torch.float64, device=part.data.device)
        loss = torch.zeros((), dtype=torch.float32, device=part.data.device)
        group = _Unfinished()
        for start in range(0, batch.size, self._microbatch):
            here = slice(start, min(start + self._microbatch, batch.size))
            found = self._computed(peer, part, batch, here)
            loss += found.losses.sum() / batch.size
            if batch.units is None:
                self._add_examples(found, total)
            else:
                self._add_groups(found, batch.units, here, group, total)
        noised = self._mechanism.released(total.cpu().numpy(), torch.get_num_threads())
        part.grad.copy_(torch.from_numpy(noised))
        peer.reattach()
        peer.gradients += batch.size
        self.steps += 1
        return loss

    def _computed(self, peer: Trainer, part: Flat, batch: Batch, here: slice) -> Computed:
        inputs, targets = examples_of(batch.inputs, here), examples_of(batch.targets, here)
        try:
            return self._ways[part.phase](peer, part, inputs, targets, here.stop - here.start)
        except Unsuited:  # a model that now and then takes another path
            return one_by_one(peer, part, inputs, targets, here.stop - here.start)

    def _add_examples(self, found: Computed, total: Tensor) -> None:
        """Add the clipped gradient of each example."""
        factors = self._factors(found.norms())
        if (bad := factors == 0.0).any():
            found.drop(bad)  # zero times infinity is no zero
        total += found.sums(factors.float()[None])[0]

    def _add_groups(self, found: Computed, units: Tensor, here: slice, unfinished: _Unfinished, total: Tensor) -> None:
        """Add the clipped gradient of each group that ends here; keep what there is of the last one that does not."""
        own = units[here]
        first, last = int(own[0]), int(own[-1])
        sizes = torch.bincount(units, minlength=last + 1)[first : last + 1]
        shares = torch.nn.functional.one_hot(own - first, last - first + 1).T / sizes[:, None]
        shares = shares.float().to(total.device)
        # An example that is not finite would make the sums of other groups so: zero times infinity is no zero. It is
        # left out whatever the others are like, or these would decide whether it counts.
        if (bad := ~found.norms().isfinite()).any():
            found.drop(bad)
        gradients = found.sums(shares)
        if unfinished.gradient is not None:
            gradients[0] += unfinished.gradient
        unfinished.gradient = None
        if here.stop < len(units) and int(units[here.stop]) == last:
            unfinished.gradient, gradients = gradients[-1].clone(), gradients[:-1]
        factors = self._factors(lengths_of(gradients))
        gradients[factors == 0.0] = 0.0
        total += factors.float() @ gradients

    def _factors(self, norms: Tensor) -> Tensor:
        """What to multiply gradients of these lengths by, shape (units,), float64."""
        lengths = norms.double().cpu().numpy()
        factors = self._mechanism.factors(lengths)
        self.met.units += len(lengths)
        self.met.clipped += int((lengths > self._mechanism.clip_norm).sum())
        self.met.not_finite += int((factors == 0.0).sum())
        return torch.from_numpy(factors).to(norms.device)


@dataclass
class _Unfinished:
    """What there is so far of the gradient of a group whose examples go on in the next microbatch."""

    gradient: Tensor | None = None
