"""Private minibatches: the source of a trainer's steps under DP-SGD, which protects each record against everyone.

Algorithms stay as they are written. Wherever they take a gradient, this source charges a step, draws a Poisson sample
of the records in place of a minibatch, and gives a gradient that is clipped record by record and noised (Abadi et al.,
Deep Learning with Differential Privacy, CCS 2016, Algorithm 1). All that follows from such gradients is public:
momentum, SAM's ascent, the body, the head, what is mixed.

The head is trained on the same records, and gradients of the body depend on it. So it is trained in one of three modes:

    joint      head and body in the same steps, with one clipping and one noise over both
    alternate  as the algorithm does it; the head's steps are charged like the body's
    post       it stays as it was initialised until no message leaves the peer any more; then freely, without noise,
               where anything trains last
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpeer.exceptions import AlgorithmError, TaskError
from dpeer.privacy import SampleTerms
from dpeer.privacy.guarantee import Phase
from dpeer.privacy.mechanism import ClippedSum
from dpeer.privacy.randomness import Keystream, Poisson
from dpeer.training import flat
from dpeer.training.batch_loader import Batch, Batches
from dpeer.training.dpsgd.backends import take
from dpeer.training.dpsgd.gradient import PrivateGradient
from dpeer.training.flat import Flat
from dpeer.training.minibatches import Minibatches, More, Stepped, augmented
from dpeer.training.task import Augment


class PoissonBatches:
    """Poisson samples of the training data; the draws are secret and cannot be repeated.

    Each unit is in a batch with probability `rate`, independently of all others and of earlier batches. So batches have
    different sizes, and one of which nothing was drawn is a batch, too. `augment` is called for each example by itself,
    with secret numbers: from those of the public seed, and from a whole batch, others' inputs would depend on who else
    is drawn. With `groups`, of each example, groups are drawn, each with all of its examples.

    Attributes:
        units: The number of units.

    Raises:
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


_SHOWN = Batch(None, None, 0)
"""What algorithms get in place of each batch: a step that depends on what was drawn would release it."""

_UNCHARGED = (
    "privacy at sample level charges each gradient of a batch before the batch is drawn, and this one is not charged: "
    "use each batch of Trainer.fit once, or give the gradient rule an attribute `looks` that says how many gradients "
    "it computes on a batch"
)


class Planned(Minibatches):
    """A source that gives nothing, and notes the phases of a round as an algorithm asks for them."""

    def __init__(self, plain: Minibatches, terms: SampleTerms) -> None:
        super().__init__(plain.net, rank=plain.rank, seed=plain.seed)
        self._terms, self.ascent = terms, terms.config.settings.dp_sam
        self._head_rate: float | None = None
        self.an_epoch = math.ceil(1 / terms.rate)
        self.planned: list[Phase] = []

    def _passes(self, epochs: int) -> int:
        """Not a function of the data."""
        return max(1, round(epochs / self._terms.rate)) if epochs else 0

    def stepped(self, part: Flat, lr: float, number: int) -> Stepped | None:
        """See `Minibatches.stepped`; in joint mode a head's steps are taken with the body's, at a rate of their own."""
        net, mode = self.net, self._terms.head
        if part is net.head and mode != "alternate":
            if mode == "joint" and part.count:
                self._head_rate = lr
            return None
        if self._head_rate is not None and (part is net.body or part is net.model):
            rates, self._head_rate = [(net.body, lr), (net.head, self._head_rate)], None
            return Stepped(net.model, rates, self)
        chosen = net.body if mode == "post" and part is net.model else part
        return Stepped(chosen, [(chosen, lr)], self)

    def of(
        self, number: int, phase: flat.Phase, epochs: int, more: More, *, part: str, looks: int = 1
    ) -> Iterator[Batch]:
        """See `Minibatches.of`."""
        if steps := self.steps(epochs):
            self.planned.append(Phase(part, steps, looks))
        return iter(())

    def gradient(self, part: Flat, batch: Batch) -> Tensor:
        """See `Minibatches.gradient`; this source has none.

        Raises:
            AlgorithmError: Always: nothing has been charged.
        """
        raise AlgorithmError(_UNCHARGED)


class PrivateMinibatches(Planned):
    """A source whose gradients are private; a pass over the data is 1 / rate batches.

    Attributes:
        session: The privacy of each record; it charges the steps.
        private_gradient: Clips and noises.

    Raises:
        TaskError: The session's groups are not those of the task's examples; or the task couples examples, or cannot be
            protected for another reason.
        ConfigurationError: A setting does not go with it, or the budget is too small.
    """

    def __init__(self, plain: Minibatches, terms: SampleTerms, planned: Sequence[Phase]) -> None:
        super().__init__(plain, terms)
        self._plain, net = plain, self.net
        self._poisson = PoissonBatches(net.data, net.task.augment, terms.rate, terms.groups)
        self.units = self._poisson.units
        net.data.check_examples()
        self.planned, self.session = [*planned], terms.open(planned)
        m = self.session.guarantee
        mechanism = ClippedSum(m.clip_norm, m.noise_multiplier, m.sampling_rate, m.units)
        self.private_gradient = PrivateGradient(mechanism, terms.config.settings.microbatch)
        self.noise_std = self.private_gradient.noise_std
        parts = {"body": net.body, "head": net.head, "model": net.model}
        for name in dict.fromkeys(phase.part for phase in planned):
            if name in parts and parts[name].count:
                self.private_gradient.start(net, parts[name])
        self.one_by_one = self.private_gradient.one_by_one
        self._batch: Batch | None = None
        self._loss: Tensor | None = None
        self._left = 0
        self._spent: dict[str, Any] = {}
        self.begin()

    def begin(self) -> None:
        """See `Minibatches.begin`."""
        self._began = self.net.extras.data.clone()
        self.private_gradient.met.clear()
        self._refused, self._taken, self._again = False, 0, False

    def stepped(self, part: Flat, lr: float, number: int) -> Stepped | None:
        """See `Minibatches.stepped`; with `post` the head is trained at home once no step is taken any more."""
        if part is self.net.head and self._terms.at_home and self.session.ended:
            self.session.end(number)
            return self._plain.stepped(part, lr, number)
        return super().stepped(part, lr, number)

    def of(
        self, number: int, phase: flat.Phase, epochs: int, more: More, *, part: str, looks: int = 1
    ) -> Iterator[Batch]:
        """See `Minibatches.of`; each batch is charged before it is drawn, and shows nothing of what is in it.

        Neither the round's number nor the phase decides about what is drawn. `more` counts the batches, and ends none:
        how long they take depends on what was drawn.
        """
        left, paid = self.steps(epochs), 0
        while left:
            self._check()
            if not paid:
                paid = self.session.charge(number, left, looks)
                self._taken, self._refused = self._taken + paid, self._refused or not paid
            if not paid:
                break
            more()
            self._batch, self._left, self._loss = self._poisson.draw(), looks, None
            yield _SHOWN
            left, paid = left - 1, paid - 1
        self._batch = None

    def gradient(self, part: Flat, batch: Batch) -> Tensor:
        """See `Minibatches.gradient`; clipped and noised. Returns zero for the loss, which only `weighed` knows.

        Raises:
            AlgorithmError: More gradients are asked for than have been charged.
        """
        if batch is not _SHOWN or self._batch is None or not self._left:
            raise AlgorithmError(_UNCHARGED)
        self._left -= 1
        loss = self.private_gradient(self.net, part, self._batch)
        self._loss = loss if self._loss is None else self._loss  # SAM's second one is at another place
        return torch.zeros_like(loss)

    def weighed(self, loss: Tensor, batch: Batch) -> tuple[Tensor, int]:
        """See `Minibatches.weighed`; the loss is the one that the first gradient on the batch had."""
        return (loss, 0) if self._loss is None or self._batch is None else (self._loss, self._batch.size)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """See `Minibatches.unchanged`: what an evaluation writes to parameters and buffers would be released."""
        with self.net.untrained.kept(), self.net.holding(self.net.model.data.clone()):
            yield

    def before_release(self) -> None:
        """A round without a step has nothing new to say: where the budget allows none any more, the last body is sent.

        Extras are sent as the last mixing left them then: the change of a round without steps is zero, and of what is
        tracked the sum over all peers must be kept. What the steps have cost is computed here, on the thread that
        trains: an epsilon takes a tenth of a second.
        """
        net, last = self.net, self.state.get("last")
        self._again = self._refused and not self._taken and last is not None
        if self._again and last is not None:
            with torch.no_grad():
                net.shared.data.copy_(last)
                net.extras.data.copy_(self._began)
        else:
            self.state["last"] = net.shared.data.detach().clone()
        self._spent = self.session.spent()

    def spent(self) -> dict[str, Any] | None:
        """See `Minibatches.spent`."""
        met = self.private_gradient.met
        if self._spent.get("steps") != self.session.ledger.steps:
            self._spent = self.session.spent()
        found = {**self._spent, "sent_again": self._again}
        if self._taken:
            found |= {
                "records_drawn": met["units"],
                "clipped_share": met["clipped"] / met["units"] if met["units"] else 0.0,
                "not_finite_gradients": met["not_finite"],
            }
        return found
