"""DP-SGD trainer: local training whose gradients are private, so that each record is protected against everyone.

Algorithms stay as they are written. Wherever they take a gradient, this trainer charges a step, draws a Poisson sample
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

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from dpeer.exceptions import AlgorithmError
from dpeer.privacy import SampleSession
from dpeer.privacy.mechanism import ClippedSum
from dpeer.privacy.sample_level import Phase
from dpeer.training.dpsgd.gradient import Met, PrivateGradient
from dpeer.training.dpsgd.poisson_batches import PoissonBatches
from dpeer.training.dpsgd.task_checks import check_collate
from dpeer.training.flat import Flat
from dpeer.training.gradients import Gradient, looks, plain
from dpeer.training.minibatches import Batch
from dpeer.training.settings import Hyperparameters
from dpeer.training.split import Split
from dpeer.training.task import Task
from dpeer.training.trainer import Figures, Trainer

_ASKS = (
    "asks for `peer.{}`, {}: a step that depends on it would tell others what privacy at sample level hides; leave it "
    "out (the peer's own files have it)"
)
_COMPUTES = (
    "computes {} of its own from the data, which privacy at sample level cannot protect: have it train by Trainer.fit, "
    "or change what `peer.gradient` gives"
)


class DPSGDTrainer(Trainer):
    """A `Trainer` whose gradients are private, but within `freely`.

    Args:
        session: The privacy of each record; the other arguments are those of `Trainer`.

    Attributes:
        session: The same; it charges the steps. Nothing is trained before `prepare`.
        refused: Whether steps of this round were left out because the budget has ended.
        taken: How many steps of this round have been charged.
        began: The extras as they were when the round began, shape (number of extras,).
    """

    def __init__(
        self, task: Task, split: Split, hyperparameters: Hyperparameters, *, session: SampleSession, **named: Any
    ) -> None:
        super().__init__(task, split, hyperparameters, **named)
        self.session, self.ascent = session, session.ascent
        self._met, self.refused, self.taken = Met(), False, 0
        self.began = self.extras.data.clone()
        self._shuffled, self._sampled = self._minibatches, PoissonBatches(
            self.data, task.augment, hyperparameters, rank=self.rank, seed=self.seed, rate=session.rate,
            groups=session.groups,
        )  # fmt: skip
        self._minibatches = self._sampled
        self.private_gradient: PrivateGradient | None = None
        self._planned: list[Phase] | None = None
        self._batch: Batch | None = None
        self._shown: Batch | None = None
        self._loss: Tensor | None = None
        self._head_rate: float | None = None
        self._free, self._phase, self._left = False, "", 0

    @property
    def figures(self) -> Figures:
        """See `Trainer.figures`; an algorithm's steps must not depend on them."""
        return replace(super().figures, units=self._sampled.units, met=self._met)

    @property
    def num_samples(self) -> int:
        """See `Trainer.num_samples`; refused outside of `freely`."""
        self._refuse(_ASKS.format("num_samples", "the number of training samples"))
        return super().num_samples

    @property
    def gradients(self) -> int:
        """See `Trainer.gradients`; refused outside of `freely`."""
        self._refuse(_ASKS.format("gradients", "the number of drawn samples"))
        return super().gradients

    @property
    def loss(self) -> float | None:
        """See `Trainer.loss`; refused outside of `freely`."""
        self._refuse(_ASKS.format("loss", "the loss on the training data"))
        return super().loss

    @property
    def noised(self) -> bool:
        """See `Trainer.noised`."""
        return not self._free

    @property
    def noise_std(self) -> float:
        """See `Trainer.noise_std`: sigma C / (q N), but 0 within `freely` and before `prepare`."""
        return 0.0 if self._free or self.private_gradient is None else self.private_gradient.noise_std

    def phases(self, train: Callable[[], object]) -> list[Phase]:
        """The phases of a round, as `train` asks for them; nothing is trained."""
        self._planned = []
        try:
            train()
            return self._planned
        finally:
            self._planned, self._head_rate = None, None

    def prepare(self, planned: Sequence[Phase]) -> None:
        """Validate the task, open the ledger and prepare the gradients of a round's phases.

        Raises:
            TaskError: The task couples examples, or cannot be protected for another reason.
            ConfigurationError: A setting does not go with it, or the budget is too small.
        """
        check_collate(self)
        self.session.prepare(planned)
        m = self.session.guarantee
        self.private_gradient = PrivateGradient(
            ClippedSum(m.clip_norm, m.noise_multiplier, m.sampling_rate, m.units), self.session.microbatch
        )
        parts = {"body": self.body, "head": self.head, "model": self.model}
        for name in dict.fromkeys(phase.part for phase in planned):
            if name in parts and parts[name].count:
                self.private_gradient.start(self, parts[name])

    @property
    def computes_one_by_one(self) -> bool:
        """Whether each example is computed by itself because of what the model or the loss is."""
        return self.private_gradient is not None and self.private_gradient.one_by_one

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
        """Context of an evaluation, which leaves no trace in parameters and buffers: it would be released."""
        with self.untrained.kept(), self.holding(self.model.data.clone()):
            yield

    @contextmanager
    def freely(self) -> Iterator[None]:
        """Context in which training is that of `Trainer`, without noise; nothing of it may ever leave the peer."""
        self._free, self._minibatches, before = True, self._shuffled, self._minibatches
        self._shuffled.loss = None
        try:
            yield
        finally:
            self._free, self._minibatches = False, before
            self._sampled.loss = self._shuffled.loss

    def fit(self, part: Flat, *, lr: float, beside: Sequence[tuple[Flat, float]] = (), **how: Any) -> None:
        """See `Trainer.fit`; which parts are stepped follows from how the head is trained."""
        chosen, mode = part, "alternate" if self._free else self.session.head
        if part is self.head:
            if mode == "joint":
                self._head_rate = lr if part.count else None  # it is stepped with the body
                return
            if mode == "post":
                self._fit_head_at_home(lr=lr, **how)
                return
        elif part is self.body and mode == "joint" and self._head_rate is not None:
            chosen = self.model
        elif part is self.model and mode == "post" and self.head.count:
            chosen = self.body
        super().fit(chosen, lr=lr, beside=beside, **how)
        if chosen is not part:
            self._head_rate = None

    def _fit_head_at_home(self, **how: Any) -> None:
        if self.session.at_home and self._planned is None and self.session.ended:
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
        many, self._looks = self._looks, 1
        if self._free:
            yield from super().minibatches(phase, epochs)
            return
        if self._planned is not None:
            self._planned.append(Phase(self._phase, self._sampled.steps(epochs), many))
            return
        more = self.begin_phase(epochs)
        for batch in self._sampled.of(self.number, phase, epochs, more, lambda left: self._pay(left, many)):
            self._batch, self._left, self._loss = batch, many, None
            # Algorithms get none of what was drawn: a step that depends on it would release it.
            self._shown = Batch(None, None, 0)
            yield self._shown
        self._batch = self._shown = None

    def _pay(self, left: int, many: int) -> int:
        paid = self.session.charge(self.number, left, many)
        self.taken, self.refused = self.taken + paid, self.refused or not paid
        return paid

    def gradient(self, part: Flat, batch: Batch) -> Tensor:
        """See `Trainer.gradient`; clipped and noised. Returns zero for the loss, which only `note` knows.

        Raises:
            AlgorithmError: More gradients are asked for than have been charged.
        """
        if self._free:
            return super().gradient(part, batch)
        if batch is not self._shown or self._batch is None or not self._left or self.private_gradient is None:
            raise AlgorithmError(
                "privacy at sample level charges each gradient of a batch before the batch is drawn, and this one is "
                "not charged: use each batch of Trainer.fit once, or give the gradient rule an attribute `looks` that "
                "says how many gradients it computes on a batch"
            )
        self._left -= 1
        loss = self.private_gradient(self, part, self._batch)
        self._loss = loss if self._loss is None else self._loss  # SAM's second one is at another place
        self._met.add(self.private_gradient.met)
        return torch.zeros_like(loss)

    def note(self, loss: Tensor, batch: Batch) -> None:
        """See `Trainer.note`; the loss is the one that the first gradient on the batch had."""
        if self._free or batch is not self._shown or self._batch is None:
            super().note(loss, batch)
        elif self._loss is not None:
            super().note(self._loss, self._batch)

    def outputs(self, batch: Batch) -> Any:
        """See `Trainer.outputs`; refused outside of `freely`."""
        self._refuse(_COMPUTES.format("outputs"))
        return super().outputs(batch)

    def objective(self, outputs: Any, batch: Batch) -> Tensor:
        """See `Trainer.objective`; refused outside of `freely`."""
        self._refuse(_COMPUTES.format("losses"))
        return super().objective(outputs, batch)

    def _refuse(self, problem: str) -> None:
        if not self._free:
            raise AlgorithmError(f"the algorithm {problem}")
