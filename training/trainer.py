"""Trainer: one peer's model, its buffers, and the phases of local training that an algorithm's round is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dpeer.exceptions import TaskError
from dpeer.privacy.sample_level import Ascent
from dpeer.training.adam import AdamW
from dpeer.training.batch_loader import Batches, predict
from dpeer.training.device import HOST, Compute
from dpeer.training.errors import as_tensor, batch_hint, blame, lone_sample_hint, loss_hint, not_differentiable_hint
from dpeer.training.flat import Exchanged, Extended, Extras, Flat, Phase, new_vector
from dpeer.training.gradients import Gradient, looks, plain
from dpeer.training.minibatches import Batch, Minibatches, More
from dpeer.training.objective import check_broadcast, objective
from dpeer.training.randomness import GlobalGenerators
from dpeer.training.schedules import factor
from dpeer.training.settings import Hyperparameters
from dpeer.training.sgd import Momentum, Optimizer, Step, clip_gradient
from dpeer.training.split import Split
from dpeer.training.state.snapshots import ModuleBuffers
from dpeer.training.step_budget import StepBudget
from dpeer.training.step_pace import StepPace
from dpeer.training.task import Loss, Task

if TYPE_CHECKING:
    from dpeer.training.dpsgd.gradient import Met


@dataclass(frozen=True)
class Figures:
    """True figures about a peer's data.

    Attributes:
        samples: The number of training samples.
        units: How many units of protection, samples or groups of them.
        gradients: For how many samples a gradient of the loss has been computed so far in this process.
        loss: Sample-weighted mean of the (unperturbed) minibatch losses of the last epoch; None where there was none.
        met: What clipping met in the round so far; None where nothing is clipped.
    """

    samples: int
    units: int
    gradients: int
    loss: float | None
    met: Met | None = None


class Trainer:
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

    Attributes:
        body: The parameters that are shared; all of them, or none, for algorithms that do not divide the model.
        head: The parameters that stay on the peer.
        model: All trainable parameters, body first; the same memory.
        extras: What travels and is mixed beside the body, by name; vectors of zeros at first, to be changed in place.
        everything: Extras, body and head; the same memory.
        shared: What travels and is mixed: extras and body; the same memory.
        module: The task's model.
        untrained: What else of the model may change: buffers and frozen parameters.
        task: The task.
        data: The training data.
        number: The round, from 0; the learner sets it.
        budget: Counts the steps of a round's training, and may end its phases early; the learner limits it.
        loss_function: What is made small: ``loss_function(outputs, targets)``, the mean over the batch.
        ascent: Along which gradient SAM climbs; see `dpeer.training.gradients.sam`.
        sampled_share: The share of all peers whose bodies a mixing takes the mean of, where a sample of them sends to
            all; 1 elsewhere.
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
    ) -> None:
        self.hyperparameters = hyperparameters
        self.task, self.module, self.compute = task, task.model, compute
        shared = sum(parameter.numel() for _, parameter in split.body)
        total = shared + sum(parameter.numel() for _, parameter in split.head)
        beside = sum(extras.values())
        # Extras, body and head, so that what travels is one vector, and so is what is trained.
        self.everything, grad = new_vector(beside + total, compute.device), new_vector(total, compute.device)
        data = self.everything[beside:]
        self.body = Flat("body" if split.head else "model", split.body, data[:shared], grad[:shared])
        self.head = Flat("head" if split.body else "model", split.head, data[shared:], grad[shared:])
        self.model = Flat("model", [*split.body, *split.head], data, grad)
        self.extras = Extras(extras, self.everything[:beside])
        together = self.everything[: beside + shared]
        self.shared: Exchanged = Extended(self.extras, self.body, together) if extras else self.body
        self.untrained = ModuleBuffers(task.model, self.body, self.head)
        self.number = 0
        self.budget, self.pace = StepBudget(), pace
        self._gradients, self._paired = 0, False
        self.ascent: Ascent = "same-batch"
        self.sampled_share = 1.0
        self.data = Batches("train", task.train, task.collate, compute)
        self.rank, self.seed = rank, seed
        self.loss_function: Loss = compute.own(objective(task, hyperparameters.class_weights, self.data), task.model)
        self._generators = generators or GlobalGenerators(seed, rank, compute.device)
        self._minibatches = Minibatches(self.data, task.augment, hyperparameters, rank=rank, seed=seed)

    @property
    def figures(self) -> Figures:
        """Figures of the data and of training on them, for the peer's own files."""
        return Figures(len(self.data), len(self.data), self._gradients, self._minibatches.loss)

    @property
    def num_samples(self) -> int:
        """How many training samples this peer has."""
        return self.figures.samples

    @property
    def gradients(self) -> int:
        """For how many samples a gradient of the loss has been computed so far in this process."""
        return self.figures.gradients

    def computed(self, samples: int) -> None:
        """Count a gradient of the loss for each of so many samples."""
        self._gradients += samples

    @property
    def noised(self) -> bool:
        """Whether the gradients carry noise, as privacy at sample level has it."""
        return False

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise in each coordinate of a gradient, before `grad_clip`; 0 without noise."""
        return 0.0

    def interrupt(self) -> None:
        """Make training raise before its next minibatch. Any thread may call this."""
        self._minibatches.interrupt()

    def begin(self, number: int) -> None:
        """Begin round `number`, in which nothing has been trained so far."""
        self.number, self._minibatches.loss = number, None
        self.budget.begin()

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
            lr: Learning rate, before schedule and warm-up; it is made this round's here.
            gradient: What a step is made with; see `dpeer.training.gradients`.
            step: Makes the optimizer, one for each call; `optimizer` if None, which starts anew.
            phase: Decides about the order of the samples; the part's own if None.
            beside: Other parameters that are stepped along, each with its learning rate; `gradient` leaves theirs, too.

        Raises:
            Interrupted: `interrupt` was called; the parameters are as after the last whole minibatch.
            TaskError: The task's model, loss or data raised, or gave what cannot be used.
        """
        if not part.count:
            return
        with self.training(part):
            for _ in self.steps(part, epochs=epochs, lr=lr, gradient=gradient, step=step, phase=phase, beside=beside):
                pass

    def steps(
        self,
        part: Flat,
        *,
        epochs: int,
        lr: float,
        gradient: Gradient = plain,
        step: Step | None = None,
        phase: Phase | None = None,
        beside: Sequence[tuple[Flat, float]] = (),
    ) -> Iterator[None]:
        """The steps of `fit`, each made when the iterator is advanced, which has to be within `training`."""
        clip, make = self.hyperparameters.grad_clip, step or self.optimizer
        stepped = [(flat, make(flat), self.decayed(rate)) for flat, rate in (*self.rates(part, lr), *beside)]
        pace = self.pace
        timed = None if pace is None else pace.phase(looks(gradient, self.ascent))
        for batch in self.minibatches(phase or part.phase, epochs):
            began = 0.0 if pace is None else pace.clock()
            loss = gradient(self, part, batch)
            for flat, optimizer, rate in stepped:
                if clip is not None:
                    clip_gradient(flat, clip)
                optimizer.step(rate)
            self.note(loss, batch)
            if pace is not None and timed is not None:
                pace.stepped(timed, batch.size, began)
            yield

    def planned_steps(self, epochs: int) -> int:
        """How many steps `fit` takes for so many passes over the data, where no budget ends it before."""
        return self._minibatches.steps(epochs)

    def rates(self, part: Flat, lr: float) -> Sequence[tuple[Flat, float]]:
        """The vectors that are stepped when `part` is trained, each with its learning rate."""
        return [(part, lr)]

    def optimizer(self, flat: Flat) -> Optimizer:
        """A new optimizer, as the settings `optimizer`, `momentum` and `weight_decay` name it; its state is zero."""
        h = self.hyperparameters
        if h.optimizer == "adamw":
            return AdamW(flat, h.momentum, h.weight_decay)
        return Momentum(flat, h.momentum, h.weight_decay)

    def decayed(self, lr: float) -> float:
        """A learning rate as it is in this round, by `lr_schedule` and `warmup`."""
        h = self.hyperparameters
        return lr * factor(h.lr_schedule, self.number, decay=h.lr_decay, rounds=h.rounds, warmup=h.warmup)

    @contextmanager
    def training(self, part: Flat) -> Iterator[None]:
        """Context in which only `part` gets gradients, and only where `gradient` asks for them.

        What is not trained is left out of the backward pass: head epochs need only a forward pass of the body.
        """
        self.module.train()
        for flat in (self.body, self.head):
            flat.requires_grad(flat is part or part is self.model)
        with torch.no_grad():
            yield

    def minibatches(self, phase: Phase, epochs: int) -> Iterator[Batch]:
        """This round's minibatches: see `Minibatches.of`; fewer where the peer's budget ends before."""
        return self._minibatches.of(self.number, phase, epochs, self.begin_phase(epochs))

    def begin_phase(self, epochs: int) -> More:
        """Begin a phase of the round's budget."""
        return self.budget.phase(self.planned_steps(epochs))

    def note(self, loss: Tensor, batch: Batch) -> None:
        """Remember the loss of a minibatch: `loss` becomes the mean over the last epoch's."""
        self._minibatches.note(loss, batch)

    @property
    def loss(self) -> float | None:
        """Sample-weighted mean of the (unperturbed) minibatch losses of the last epoch; None where there was none."""
        return self.figures.loss

    def gradient(self, part: Flat, batch: Batch) -> Tensor:
        """Compute the minibatch's gradient into ``part.grad``; return its loss, a scalar."""
        part.grad.zero_()
        with torch.enable_grad():
            with self.compute.autocast():
                outputs = self.outputs(batch)
                loss = self.objective(outputs, batch)
            with blame("the task's model cannot be differentiated", lambda: not_differentiable_hint(loss, outputs)):
                loss.backward()  # type: ignore[no-untyped-call]
        self.reattach()
        self.computed(batch.size)
        return loss.detach()

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

    def outputs(self, batch: Batch) -> Any:
        """The model's outputs for a minibatch; to be called, as `objective` is, within `Compute.autocast`."""
        with blame("the task's model failed on a training batch", lambda: self._hint(batch)):
            return predict(self.module, batch.inputs)

    def _hint(self, batch: Batch) -> str:
        alone = (
            lone_sample_hint(self.module, len(self.data), self.hyperparameters.batch_size) if batch.size == 1 else ""
        )
        return alone or batch_hint(batch.inputs)

    def objective(self, outputs: Any, batch: Batch) -> Tensor:
        """The task's loss, a scalar."""
        outputs = self.compute.full(outputs)
        hint = lambda: loss_hint(batch.targets, outputs)  # noqa: E731
        with blame("the task's loss failed on a training batch", hint):
            if not self._paired:
                check_broadcast(self.loss_function, outputs, batch.targets)
                self._paired = True
            loss = as_tensor(self.loss_function(outputs, batch.targets))
            if loss.numel() != 1:
                raise TaskError(
                    f"the task's loss gave a tensor of shape {tuple(loss.shape)}; it must give one number, "
                    "the mean over the batch"
                )
            return loss.reshape(())

    def reattach(self) -> None:
        """Undo what the task's code may have done to the parameters' storage; see `Flat.reattach`."""
        self.model.reattach()

    @contextmanager
    def holding(self, values: Tensor | None, untrained: Mapping[str, Tensor] | None = None) -> Iterator[None]:
        """Context in which the model's parameters have other values, shape (model.count,); None changes nothing.

        Args:
            values: The values.
            untrained: Buffers that go with the values, as `ModuleBuffers.copies` gave them; None to keep the model's.
        """
        if values is None:
            yield
            return
        kept = self.model.data.clone()
        with torch.no_grad(), nullcontext() if untrained is None else self.untrained.kept():
            self.model.data.copy_(values)
            self.untrained.put(untrained or {})
            try:
                yield
            finally:
                self.reattach()
                self.model.data.copy_(kept)
