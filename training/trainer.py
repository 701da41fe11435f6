"""Trainer: one peer's model as an algorithm steers it, and the phases of local training that a round is made of."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor

from dpeer.privacy.guarantee import Ascent
from dpeer.training.batch_loader import Batch
from dpeer.training.device import HOST, Compute
from dpeer.training.flat import Flat, Phase
from dpeer.training.gradients import Gradient, looks, plain
from dpeer.training.minibatches import Minibatches
from dpeer.training.net import Net
from dpeer.training.optimizers import AdamW, Momentum, Optimizer, Step, clip_gradient
from dpeer.training.randomness import GlobalGenerators
from dpeer.training.setting_texts import factor
from dpeer.training.settings import Hyperparameters
from dpeer.training.split import Split
from dpeer.training.step_pace import StepPace
from dpeer.training.task import Task


class StepBudget:
    """The steps of one peer's rounds, phase by phase, each call of `Trainer.fit` or `Trainer.minibatches` being one.

    Attributes:
        taken: The steps of each phase of the round, in their order.
        asked: How many those phases have without a limit; an algorithm may take fewer than its epochs have.
    """

    def __init__(self) -> None:
        self._share: float | None = None
        self.begin()

    def begin(self) -> None:
        """Begin a round, in which no phase has been trained so far."""
        self.taken: list[int] = []
        self.asked: list[int] = []

    @contextmanager
    def limiting(self, share: float) -> Iterator[None]:
        """Context of a round's training: its phases are counted, and take this share of their steps, one at least."""
        self._share = share
        try:
            yield
        finally:
            self._share = None

    def phase(self, steps: int) -> Callable[[], bool]:
        """Begin a phase of so many steps; returns what to ask before each minibatch: whether it takes one more."""
        if self._share is None:  # such as that of `finish`
            return lambda: True
        taken, asked, here = self.taken, self.asked, len(self.taken)
        allowed = max(1, math.floor(steps * self._share + 1e-9))
        taken.append(0)
        asked.append(0)

        def more() -> bool:
            cut = taken[here] >= allowed
            taken[here] += not cut
            asked[here] = steps if cut else taken[here]
            return not cut

        return more


class Rates(NamedTuple):
    """The learning rates of a round, by `lr_schedule`.

    Attributes:
        body: Of the body, or of the whole model.
        head: Of the head.
        factor: What the first round's rates are multiplied by.
    """

    body: float
    head: float
    factor: float

    @classmethod
    def of(cls, h: Hyperparameters, number: int) -> Rates:
        """Those of round `number`."""
        by = factor(h.lr_schedule, number, decay=h.lr_decay, rounds=h.rounds)
        return cls(h.body_lr * by, h.head_lr * by, by)


class TrueFigures(NamedTuple):
    """True figures about a peer's data.

    Attributes:
        samples: The number of training samples.
        units: How many units of protection, samples or groups of them.
        gradients: For how many samples a gradient of the loss has been computed so far in this process.
        loss: Sample-weighted mean of the (unperturbed) minibatch losses of the last epoch, without minibatches that
            have no target; None where there was none.
    """

    samples: int
    units: int
    gradients: int
    loss: float | None


class Trainer(Net):
    """One peer's model, as an algorithm steers it, and the training of its parameters on the peer's data.

    Args:
        task: The model and its data.
        split: The model's trainable parameters, divided.
        hyperparameters: The numbers that steer training.
        rank: The peer, for its batch order.
        seed: The federation's seed, for the batch order.
        compute: The device and precision; the model is on that device already.
        generators: What the task may draw from; if None, as for any task of which nothing is known.
        extras: How many values travel beside the body, by name.
        pace: Times the steps, and chooses the threads that train; None for neither.
        sampled_share: The share of all peers whose bodies a mixing takes the mean of, where a sample of them sends to
            all; 1 elsewhere.

    Attributes:
        number: The round, from 0.
        rates: The learning rates of the round.
        budget: Counts the steps of a round's training, and may end its phases early; the learner limits it.
        plain: The source of minibatches and gradients without noise.
        source: Where they come from now.
        mask: Which values of the model may be other than zero, shape (model.count,), bool; None where all may. A sparse
            algorithm sets it at its start; then `fit` keeps the others at zero, and those alone travel.
    """

    def __init__(
        self,
        task: Task,
        split: Split,
        hyperparameters: Hyperparameters,
        *,
        rank: int,
        seed: int,
        compute: Compute = HOST,
        generators: GlobalGenerators | None = None,
        extras: Mapping[str, int] = MappingProxyType({}),
        pace: StepPace | None = None,
        sampled_share: float = 1.0,
    ) -> None:
        super().__init__(task, split, hyperparameters, compute=compute, extras=extras)
        self.rank, self.seed, self.sampled_share = rank, seed, sampled_share
        self.budget, self.pace = StepBudget(), pace
        self.plain = self.source = Minibatches(self, rank=rank, seed=seed)
        self._generators = generators or GlobalGenerators(seed, rank, compute.device)
        self._noted: deque[tuple[Tensor, int]] = deque()
        self._loss: float | None = None
        self.number, self.rates = 0, Rates.of(hyperparameters, 0)
        self.mask: Tensor | None = None

    @property
    def figures(self) -> TrueFigures:
        """Figures of the data and of training on them, for the peer's own files."""
        return TrueFigures(len(self.data), self.source.units, self._gradients, self._loss)

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise in each coordinate of a gradient, before `grad_clip`; 0 without noise."""
        return self.source.noise_std

    @property
    def ascent(self) -> Ascent:
        """Along which gradient SAM climbs; see `dpeer.training.gradients.sam`."""
        return self.source.ascent

    def interrupt(self) -> None:
        """Make training raise before its next minibatch. Any thread may call this."""
        self.plain.interrupt()
        self.source.interrupt()

    def begin(self, number: int) -> None:
        """Begin round `number`, in which nothing has been trained so far."""
        self.number, self.rates, self._loss = number, Rates.of(self.hyperparameters, number), None
        self.budget.begin()
        self.source.begin()

    @contextmanager
    def drawing(self, source: Minibatches) -> Iterator[None]:
        """Context in which minibatches and gradients come from another source."""
        self.source, before = source, self.source
        try:
            yield
        finally:
            self.source = before

    def at_home(self) -> AbstractContextManager[None]:
        """Context in which training has no noise, whatever is protected; nothing of it may ever leave the peer."""
        return self.drawing(self.plain)

    def fit(
        self,
        part: Flat,
        *,
        epochs: int,
        lr: float,
        gradient: Gradient = plain,
        step: Step | None = None,
        phase: Phase | None = None,
        beside: Sequence[tuple[Flat, float]] = (),
    ) -> None:
        """Train some parameters on the peer's data while the others stay as they are.

        On each minibatch: gradient, `grad_clip`, step. An empty part is left alone.

        Args:
            part: `body`, `head` or `model`.
            epochs: Passes over the data; fewer where the peer's budget ends before.
            lr: Learning rate, such as ``rates.body``.
            gradient: What a step is made with; see `dpeer.training.gradients`.
            step: Makes the optimizer, one for each call; `optimizer` if None, which starts anew.
            phase: Decides about the order of the samples; the part's own if None.
            beside: Other parameters that are stepped along, each with its learning rate; `gradient` leaves theirs, too.

        Raises:
            Interrupted: `interrupt` was called; the parameters are as after the last whole minibatch.
            TaskError: The task's model, loss or data raised, or gave what cannot be used.
        """
        chosen = self.source.stepped(part, lr, self.number)
        if chosen is None or not chosen.part.count:
            return
        part, clip, pace = chosen.part, self.hyperparameters.grad_clip, self.pace
        with self.drawing(chosen.source), self.training(part):
            many = looks(gradient, self.ascent)
            optimizers = [((step or self.optimizer)(flat), flat, rate) for flat, rate in (*chosen.rates, *beside)]
            if pace is not None:
                pace.phase(many)
            for batch in self._drawn(phase or part.phase, epochs, part=part.phase, looks=many):
                began = 0.0 if pace is None else pace.clock()
                loss = gradient(self, part, batch)
                for optimizer, flat, rate in optimizers:
                    if clip is not None:
                        clip_gradient(flat, clip)
                    optimizer.step(rate)
                if self.mask is not None:
                    self.model.data.mul_(self.mask)
                self.note(loss, batch)
                if pace is not None:
                    pace.stepped(batch.size, began)

    def planned_steps(self, epochs: int) -> int:
        """How many steps `fit` takes for so many passes over the data, where no budget ends it before."""
        return self.source.steps(epochs)

    def optimizer(self, flat: Flat) -> Optimizer:
        """A new optimizer, as the settings `optimizer`, `momentum` and `weight_decay` name it; its state is zero."""
        h = self.hyperparameters
        if h.optimizer == "adamw":
            return AdamW(flat, h.momentum, h.weight_decay)
        return Momentum(flat, h.momentum, h.weight_decay)

    def minibatches(self, phase: Phase, epochs: int) -> Iterator[Batch]:
        """This round's minibatches: see `Minibatches.of`; fewer where the peer's budget ends before."""
        return self._drawn(phase, epochs, part=phase, looks=1)

    def _drawn(self, phase: Phase, epochs: int, *, part: str, looks: int) -> Iterator[Batch]:
        source = self.source
        more = self.budget.phase(source.steps(epochs))
        self._noted = deque(maxlen=source.an_epoch)
        yield from source.of(self.number, phase, epochs, more, part=part, looks=looks)
        if any(size for _, size in self._noted):
            weights = torch.tensor([size for _, size in self._noted], dtype=torch.float64, device="cpu")
            losses = torch.stack([loss for loss, _ in self._noted]).cpu().double()
            if losses.isnan().any() and self.model.data.isfinite().all():
                # A mean over no targets is 0 / 0, without a gradient: a NaN of another kind is in the parameters, too.
                weights, losses = weights[~losses.isnan()], losses[~losses.isnan()]
            self._loss = (losses @ weights / weights.sum()).item() if len(losses) else None

    def note(self, loss: Tensor, batch: Batch) -> None:
        """Remember the loss of a minibatch: the loss of `figures` becomes the mean over the last epoch's.

        Raises:
            TypeError: It is no tensor.
        """
        if not isinstance(loss, Tensor):
            raise TypeError(f"the gradient function gave a {type(loss).__name__}; it must return the loss, a tensor")
        self._noted.append(self.source.weighed(loss, batch))

    def gradient(self, part: Flat, batch: Batch) -> Tensor:
        """Compute the minibatch's gradient into ``part.grad``; return its loss, a scalar."""
        return self.source.gradient(part, batch)

    def repeating(self) -> Callable[[], AbstractContextManager[None]]:
        """A function that begins a block in which the task draws once more the numbers that it draws from now on.

        The block moves no running statistics: it is the second look at a minibatch.
        """
        rewind = self._generators.rewinding()

        @contextmanager
        def repeated() -> Iterator[None]:
            rewind()
            with self.untrained.kept():
                yield

        return repeated
