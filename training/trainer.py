"""Local training: the phases that an algorithm's round is made of."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from dpeer.exceptions import Interrupted, TaskError
from dpeer.training.augmentation import augmented
from dpeer.training.batches import Batches, augmenting, batch_order, predict
from dpeer.training.device import HOST, Compute
from dpeer.training.errors import batch_hint, blame, lone_sample_hint
from dpeer.training.flat import Flat, Phase, new_vector
from dpeer.training.hyperparameters import Hyperparameters
from dpeer.training.randomness import GlobalGenerators
from dpeer.training.sgd import Momentum, clip_gradient, sam_gradient
from dpeer.training.split import Split
from dpeer.training.task import Loss, Task
from dpeer.training.untrained import Untrained


class Batch(NamedTuple):
    """A minibatch of the peer's training data."""

    inputs: Any
    targets: Any
    size: int


class Trainer:
    """What an algorithm steers: one peer's model, and how some of its parameters are trained on the peer's data.

    Args:
        task: The model and its data.
        split: The model's trainable parameters, divided.
        hyperparameters: The numbers that steer training.
        rank: The peer, for its batch order.
        seed: The federation's seed, for the batch order.
        compute: Where and how; the model is there already.
        generators: What the task may draw from; if None, as for any task of which nothing is known.

    Attributes:
        body: The parameters that are shared; all of them, or none, for algorithms that do not divide the model.
        head: The parameters that stay at home.
        model: All trainable parameters, body first; the same memory.
        module: The task's model.
        untrained: What else of it changes.
        task: As given.
        data: The training data.
        number: The round, from 0; the learner sets it.
        loss: Sample-weighted mean of the (unperturbed) minibatch losses of the last epoch; None before the first.
        gradients: For how many samples a gradient of the loss has been computed so far in this process.
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
    ) -> None:
        self.hyperparameters = hyperparameters
        self.task, self.module, self.compute = task, task.model, compute
        shared = sum(parameter.numel() for _, parameter in split.body)
        total = shared + sum(parameter.numel() for _, parameter in split.head)
        data, grad = new_vector(total, compute.device), new_vector(total, compute.device)
        self.body = Flat("body" if split.head else "model", split.body, data[:shared], grad[:shared])
        self.head = Flat("head" if split.body else "model", split.head, data[shared:], grad[shared:])
        self.model = Flat("model", [*split.body, *split.head], data, grad)
        self.untrained = Untrained(task.model, self.body, self.head)
        self.number = 0
        self.loss: float | None = None
        self.gradients = 0
        self.data = Batches("train", task.train, task.collate, compute)
        self.rank, self.seed = rank, seed
        self._objective: Loss = compute.own(task.loss or cross_entropy, task.model)
        self._generators = generators or GlobalGenerators(seed, rank, compute.device)
        self._noted: deque[tuple[Tensor, int]] = deque()
        self._stop = threading.Event()

    @property
    def num_samples(self) -> int:
        """How many training samples this peer has."""
        return len(self.data)

    def interrupt(self) -> None:
        """Make training raise before its next minibatch. Any thread may call this."""
        self._stop.set()

    def fit(
        self,
        part: Flat,
        *,
        epochs: int,
        lr: float,
        rho: float = 0.0,
        phase: Phase | None = None,
        adjust: Callable[[], object] | None = None,
        project: Callable[[], object] | None = None,
    ) -> None:
        """Train some parameters on the peer's data while the others stay as they are.

        Momentum starts at zero. An empty part is left alone: there is nothing to train.

        Args:
            part: `body`, `head` or `model`.
            epochs: Passes over the data.
            lr: Learning rate at round 0; it is decayed to this round's here.
            rho: Radius of SAM's perturbation of `part`; 0 for plain SGD.
            phase: Decides about the order of the samples; the part's own if None.
            adjust: Called before each step, to add to ``part.grad``.
            project: Called after each step, to put ``part.data`` back to where it may be.

        Raises:
            Interrupted: `interrupt` was called; the parameters are as after the last whole minibatch.
            TaskError: The task's model, loss or data raised, or gave what cannot be used.
        """
        if not part.count:
            return
        h = self.hyperparameters
        lr = self.decayed(lr)
        optimizer = Momentum(part, h.momentum, h.weight_decay)
        kept = torch.empty_like(part.data) if rho else None
        with self.training(part):
            for batch in self.minibatches(phase or part.phase, epochs):
                loss = self.gradient(part, batch) if kept is None else self._sam_gradient(part, batch, rho, kept)
                if adjust is not None:
                    adjust()
                if h.grad_clip is not None:
                    clip_gradient(part, h.grad_clip)
                optimizer.step(lr)
                if project is not None:
                    project()
                self.note(loss, batch)

    def decayed(self, lr: float) -> float:
        """A learning rate of round 0 as it is in this round."""
        return lr * self.hyperparameters.lr_decay**self.number

    @contextmanager
    def training(self, part: Flat) -> Iterator[None]:
        """Within it only `part` gets gradients, and only where `gradient` asks for them.

        What is not trained is left out of the backward pass: head epochs need only a forward pass of the body.
        """
        self.module.train()
        for flat in (self.body, self.head):
            flat.requires_grad(flat is part or part is self.model)
        with torch.no_grad():
            yield

    def minibatches(self, phase: Phase, epochs: int) -> Iterator[Batch]:
        """The peer's data, `epochs` times, each time in another order; or as many minibatches as `local_steps` says.

        They are augmented where the task says how.

        Raises:
            Interrupted: `interrupt` was called.
            TaskError: The data cannot be read or augmented.
        """
        h, augment = self.hyperparameters, self.task.augment
        an_epoch = math.ceil(self.num_samples / h.batch_size)
        steps = epochs * an_epoch if h.local_steps is None else math.ceil(h.local_steps * epochs / h.body_epochs)
        self._noted = deque(maxlen=an_epoch)
        for step in range(steps):
            epoch, index = divmod(step, an_epoch)
            if not index:
                order = batch_order(self.num_samples, self.seed, self.rank, self.number, phase, epoch)
                chunks = torch.split(self.data.located(order), h.batch_size)
                if augment is not None:
                    generator = augmenting(self.seed, self.rank, self.number, phase, epoch)
            if self._stop.is_set():
                raise Interrupted("training was asked to stop")
            inputs, targets = self.data.take(chunks[index])
            if augment is not None:
                inputs = self.compute.lay_out(augmented(augment, inputs, generator))
            yield Batch(inputs, targets, len(chunks[index]))
        if self._noted:
            weights = torch.tensor([count for _, count in self._noted], dtype=torch.float64, device="cpu")
            losses = torch.stack([loss for loss, _ in self._noted]).cpu().double()
            self.loss = (losses @ weights / weights.sum()).item()

    def note(self, loss: Tensor, batch: Batch) -> None:
        """Remember the loss of a minibatch: `loss` becomes the mean over the last epoch's."""
        self._noted.append((loss, batch.size))

    def gradient(self, part: Flat, batch: Batch) -> Tensor:
        """Compute the minibatch's gradient into ``part.grad``; return its loss, a scalar."""
        part.grad.zero_()
        with torch.enable_grad():
            with self.compute.autocast():
                loss = self.objective(self.outputs(batch), batch)
            with blame("the task's model cannot be differentiated"):
                loss.backward()  # type: ignore[no-untyped-call]
        self.reattach()
        self.gradients += batch.size
        return loss.detach()

    def _sam_gradient(self, part: Flat, batch: Batch, rho: float, kept: Tensor) -> Tensor:
        """SAM's gradient and the loss. The second pass draws the same as the first, and moves no running statistics."""
        rewind = self._generators.rewinding()

        def again() -> None:
            rewind()
            with self.untrained.kept():
                self.gradient(part, batch)

        return sam_gradient(part, lambda: self.gradient(part, batch), rho, kept, again)

    def outputs(self, batch: Batch) -> Any:
        """What the model makes of a minibatch; to be called, as `objective` is, within `Compute.autocast`."""
        with blame("the task's model failed on a training batch", lambda: self._hint(batch)):
            return predict(self.module, batch.inputs)

    def _hint(self, batch: Batch) -> str:
        alone = (
            lone_sample_hint(self.module, self.num_samples, self.hyperparameters.batch_size) if batch.size == 1 else ""
        )
        return alone or batch_hint(batch.inputs)

    def objective(self, outputs: Any, batch: Batch) -> Tensor:
        """The task's loss, a scalar."""
        outputs = self.compute.full(outputs)
        hint = lambda: batch_hint(batch.inputs, batch.targets, outputs)  # noqa: E731
        with blame("the task's loss failed on a training batch", hint):
            loss = self._objective(outputs, batch.targets)
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
        """Within it the model's parameters have other values, shape (model.count,); None changes nothing.

        Args:
            values: The values.
            untrained: What `Untrained.copies` gave of the model that has them; None where that is none of its own.
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
