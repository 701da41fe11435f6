"""Local training that protects each record of the peer's data against everyone: privacy at sample level.

Algorithms stay as they are written. Wherever they take a gradient, this trainer draws a Poisson sample of the records
in place of a minibatch, charges the step before it draws, and gives them a gradient that is clipped record by record
and noised (Abadi et al., Deep Learning with Differential Privacy, CCS 2016, Algorithm 1). All that follows from such
gradients may be seen by anybody: momentum, SAM's ascent, the body, the head, what is mixed.

The head is trained on the same records, and gradients of the body depend on it. So there are four ways to train it:

    joint      head and body in the same steps, with one clipping and one noise over both
    alternate  as the algorithm does it; the head's steps are charged like the body's
    frozen     not at all: it stays as it was initialised
    post       as frozen, until no message leaves the peer any more; then freely, without noise, on a copy
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from dpeer.exceptions import AlgorithmError
from dpeer.privacy import SampleSession
from dpeer.privacy.mechanism import ClippedSum
from dpeer.privacy.sample_level import Phase
from dpeer.training.device import HOST, Compute
from dpeer.training.dpsgd.gradient import PrivateGradient
from dpeer.training.dpsgd.validation import check_collate, check_first_read
from dpeer.training.figures import Figures, Met
from dpeer.training.flat import Flat
from dpeer.training.gradients import Gradient, looks, plain
from dpeer.training.hyperparameters import Hyperparameters
from dpeer.training.minibatches import Batch
from dpeer.training.poisson_batches import Sampled
from dpeer.training.randomness import GlobalGenerators
from dpeer.training.split import Split
from dpeer.training.task import Task
from dpeer.training.trainer import Trainer


class PrivateTrainer(Trainer):
    """A `Trainer` of which every gradient is private, but within `freely`. The arguments are those of `Trainer`.

    Args:
        session: The privacy of each record.

    Attributes:
        session: The same; it charges the steps. Nothing is trained before `prepare`.
        refused: Whether steps of this round were left out because the budget has ended.
        taken: How many steps of this round have been charged.
        began: The extras as they were when the round began, shape (number of extras,).
    """

    def __init__(
        self,
        task: Task,
        split: Split,
        hyperparameters: Hyperparameters,
        *,
        rank: int,
        seed: int,
        session: SampleSession,
        compute: Compute = HOST,
        generators: GlobalGenerators | None = None,
        extras: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        super().__init__(
            task, split, hyperparameters, rank=rank, seed=seed, compute=compute, generators=generators, extras=extras
        )
        self.session, self.ascent = session, session.ascent
        self._met, self.refused, self.taken = Met(), False, 0
        self.began = self.extras.data.clone()
        self._shuffled, self._sampled = self._minibatches, Sampled(
            self.data, task.augment, hyperparameters, rank=rank, seed=seed, rate=session.rate, groups=session.groups
        )  # fmt: skip
        self._minibatches = self._sampled
        self._gradient: PrivateGradient | None = None
        self._free = False
        self._planned: list[Phase] | None = None
        self._phase, self._looks = "", 1
        self._batch: Batch | None = None
        self._shown: Batch | None = None
        self._loss: Tensor | None = None
        self._left = 0
        self._head_rate: float | None = None

    @property
    def figures(self) -> Figures:
        """See `Trainer.figures`; an algorithm's steps must not depend on them."""
        return replace(super().figures, units=self._sampled.units, met=self._met)

    @property
    def num_samples(self) -> int:
        """See `Trainer.num_samples`.

        Raises:
            AlgorithmError: This is not within `freely`.
        """
        self._withhold("num_samples", "how many training samples there are")
        return super().num_samples

    @property
    def gradients(self) -> int:
        """See `Trainer.gradients`.

        Raises:
            AlgorithmError: This is not within `freely`.
        """
        self._withhold("gradients", "how many samples were drawn")
        return super().gradients

    @property
    def loss(self) -> float | None:
        """See `Trainer.loss`.

        Raises:
            AlgorithmError: This is not within `freely`.
        """
        self._withhold("loss", "the loss on the training data")
        return super().loss

    @property
    def noised(self) -> bool:
        """See `Trainer.noised`."""
        return not self._free

    @property
    def noise_std(self) -> float:
        """See `Trainer.noise_std`: sigma C / (q N), but 0 within `freely` and before `prepare`."""
        return 0.0 if self._free or self._gradient is None else self._gradient.noise_std

    def phases(self, train: Callable[[], object]) -> list[Phase]:
        """The phases of a round in which nothing is trained: what an algorithm would do.

        Args:
            train: Runs a round of an algorithm that nothing else uses.
        """
        self._planned = []
        try:
            train()
            return self._planned
        finally:
            self._planned, self._head_rate = None, None

    def prepare(self, planned: Sequence[Phase]) -> None:
        """Begin to train; what a task lacks for it shows here.

        Raises:
            TaskError: The task couples examples, or cannot be protected for another reason.
            ConfigurationError: A setting does not go with it, or the budget is too small.
        """
        parts = {"body": self.body, "head": self.head, "model": self.model}
        check_collate(self)
        check_first_read(self)
        self.session.prepare(planned)
        m = self.session.guarantee
        mechanism = ClippedSum(m.clip_norm, m.noise_multiplier, m.sampling_rate, m.units)
        self._gradient = PrivateGradient(mechanism, self.session.microbatch)
        for name in dict.fromkeys(phase.part for phase in planned):
            if name in parts and parts[name].count:
                self._gradient.start(self, parts[name])

    @property
    def computes_one_by_one(self) -> bool:
        """Whether each example is computed by itself because of what the model or the loss is."""
        return self._gradient is not None and self._gradient.one_by_one

    def interrupt(self) -> None:
        """See `Trainer.interrupt`."""
        self._shuffled.interrupt()
        self._sampled.interrupt()

    def begin(self, number: int) -> None:
        """See `Trainer.begin`."""
        super().begin(number)
        self.began.copy_(self.extras.data)
        self._met, self.refused, self.taken = Met(), False, 0

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Within it the task's code may do to the model what it likes, as in an evaluation; then all is as before.

        What that would leave behind would be in gradients that are protected from training records alone.
        """
        with self.untrained.kept(), self.holding(self.model.data.clone()):
            yield

    @contextmanager
    def freely(self) -> Iterator[None]:
        """Within it training is that of `Trainer`: on shuffled minibatches, without noise.

        What is trained within it must have no effect on what leaves the peer, now or ever.
        """
        self._free, self._minibatches, before = True, self._shuffled, self._minibatches
        self._shuffled.loss = None
        try:
            yield
        finally:
            self._free, self._minibatches = False, before
            self._sampled.loss = self._shuffled.loss

    def fit(
        self,
        part: Flat,
        *,
        lr: float,
        beside: Sequence[tuple[Flat, float]] = (),
        **how: Any,
    ) -> None:
        """See `Trainer.fit`; which parts are stepped follows from how the head is trained."""
        chosen = part
        if not self._free:
            mode = self.session.head
            if part is self.head:
                if mode == "joint":
                    self._head_rate = lr if part.count else None  # it is stepped with the body
                    return
                if mode in ("frozen", "post"):
                    self._fit_head_at_home(lr=lr, **how)
                    return
            elif part is self.body and mode == "joint" and self._head_rate is not None:
                chosen = self.model
            elif part is self.model and mode in ("frozen", "post") and self.head.count:
                chosen = self.body
        super().fit(chosen, lr=lr, beside=beside, **how)
        if chosen is not part:
            self._head_rate = None

    def _fit_head_at_home(self, **how: Any) -> None:
        """Train the head without noise where the body is trained no more; before that leave it as it is."""
        if self.session.head == "post" and self._planned is None and self.session.ended:
            self.session.end(self.number)
            with self.freely():
                super().fit(self.head, **how)

    def rates(self, part: Flat, lr: float) -> Sequence[tuple[Flat, float]]:
        """See `Trainer.rates`; head and body keep a learning rate each where they are stepped together."""
        if part is self.model and self._head_rate is not None and not self._free:
            return [(self.body, lr), (self.head, self._head_rate)]
        return super().rates(part, lr)

    def steps(self, part: Flat, *, gradient: Gradient = plain, **how: Any) -> Iterator[None]:
        """See `Trainer.steps`."""
        self._phase, self._looks = part.phase, looks(gradient, self.ascent)
        yield from super().steps(part, gradient=gradient, **how)

    def minibatches(self, phase: str, epochs: int) -> Iterator[Batch]:
        """See `Trainer.minibatches`; each batch is charged before it is drawn, and shows nothing of what is in it."""
        if self._free:
            yield from super().minibatches(phase, epochs)
            return
        many, self._looks = self._looks, 1
        if self._planned is not None:
            self._planned.append(Phase(self._phase, self._sampled.steps(epochs), many))
            return
        for batch in self._sampled.of(self.number, phase, epochs, lambda left: self._pay(left, many)):
            self._batch, self._left, self._loss = batch, many, None
            # What was drawn is no business of an algorithm: a step that depends on it would tell it.
            self._shown = Batch(None, None, 0)
            yield self._shown
        self._batch = self._shown = None

    def _pay(self, left: int, many: int) -> int:
        paid = self.session.charge(self.number, left, many)
        self.taken += paid
        self.refused = self.refused or not paid
        return paid

    def gradient(self, part: Flat, batch: Batch) -> Tensor:
        """See `Trainer.gradient`; clipped record by record and noised. The loss is kept from the algorithm.

        Returns:
            Zero, a scalar; `note` knows the loss of the batch.

        Raises:
            AlgorithmError: More gradients are asked for than have been charged.
        """
        if self._free:
            return super().gradient(part, batch)
        if batch is not self._shown or self._batch is None or not self._left or self._gradient is None:
            raise AlgorithmError(
                "privacy at sample level charges each gradient of a batch before the batch is drawn, and this one is "
                "not charged: use each batch of Trainer.fit once, or give the gradient rule an attribute `looks` that "
                "says how many gradients it computes on a batch"
            )
        self._left -= 1
        loss = self._gradient(self, part, self._batch)
        self._loss = loss if self._loss is None else self._loss  # SAM's second one is at another place
        met = self._gradient.met
        self._met.units += met.units
        self._met.clipped += met.clipped
        self._met.not_finite += met.not_finite
        return torch.zeros_like(loss)

    def note(self, loss: Tensor, batch: Batch) -> None:
        """See `Trainer.note`; the loss is the one that the first gradient on the batch had."""
        if self._free or batch is not self._shown or self._batch is None:
            super().note(loss, batch)
        elif self._loss is not None:
            super().note(self._loss, self._batch)

    def outputs(self, batch: Batch) -> Any:
        """See `Trainer.outputs`.

        Raises:
            AlgorithmError: This is not within `freely`.
        """
        self._refuse("outputs")
        return super().outputs(batch)

    def objective(self, outputs: Any, batch: Batch) -> Tensor:
        """See `Trainer.objective`.

        Raises:
            AlgorithmError: This is not within `freely`.
        """
        self._refuse("losses")
        return super().objective(outputs, batch)

    def _refuse(self, what: str) -> None:
        if not self._free:
            raise AlgorithmError(
                f"the algorithm computes {what} of its own from the data, which privacy at sample level cannot "
                "protect: have it train by Trainer.fit, or change what `peer.gradient` gives"
            )

    def _withhold(self, name: str, what: str) -> None:
        if not self._free:
            raise AlgorithmError(
                f"the algorithm asks for `peer.{name}`, {what}: a step that depends on it would tell others what "
                "privacy at sample level hides; leave it out (the peer's own files have it)"
            )
