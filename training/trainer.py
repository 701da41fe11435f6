"""Local training: the phases that an algorithm's round is made of."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from dpeer.exceptions import Interrupted, TaskError
from dpeer.training.batches import Batches, batch_order, predict
from dpeer.training.errors import batch_hint, blame
from dpeer.training.flat import Flat
from dpeer.training.hyperparameters import Hyperparameters
from dpeer.training.sgd import Momentum, sam_gradient
from dpeer.training.split import Split
from dpeer.training.task import Task


class Trainer:
    """What an algorithm steers: one peer's model, body and head, and `fit`.

    Args:
        task: The model and its data.
        split: The model's trainable parameters, divided.
        hyperparameters: The numbers that steer training.
        rank: The peer, for its batch order.
        seed: The federation's seed, for the batch order.

    Attributes:
        body: The parameters that are shared; all of them, or none, for algorithms that do not divide the model.
        head: The parameters that stay at home.
        number: The round, from 0; the learner sets it.
        loss: Sample-weighted mean of the (unperturbed) minibatch losses of the last epoch; None before the first.
    """

    def __init__(self, task: Task, split: Split, hyperparameters: Hyperparameters, *, rank: int, seed: int) -> None:
        self.hyperparameters = hyperparameters
        self.body = Flat("body" if split.head else "model", split.body)
        self.head = Flat("head" if split.body else "model", split.head)
        self.number = 0
        self.loss: float | None = None
        self._model, self._loss = task.model, task.loss or cross_entropy
        self._data = Batches("train", task.train, task.collate)
        self._rank, self._seed = rank, seed
        self._stop = threading.Event()

    @property
    def model(self) -> Flat:
        """All trainable parameters, for algorithms that train them jointly."""
        assert not (self.body.count and self.head.count), "body and head are divided: train them by name"
        return self.body if self.body.count else self.head

    def interrupt(self) -> None:
        """Make `fit` raise before its next minibatch. Any thread may call this."""
        self._stop.set()

    def fit(self, part: Flat, *, epochs: int, lr: float, rho: float = 0.0) -> None:
        """Train some parameters on the peer's data while the others stay as they are.

        Momentum starts at zero. An empty part is left alone: there is nothing to train.

        Args:
            part: `body`, `head` or `model`.
            epochs: Passes over the data.
            lr: Learning rate at round 0; it is decayed to this round's here.
            rho: Radius of SAM's perturbation of `part`; 0 for plain SGD.

        Raises:
            Interrupted: `interrupt` was called; the parameters are as after the last whole minibatch.
            TaskError: The task's model, loss or data raised, or gave what cannot be used.
        """
        if not part.count:
            return
        h = self.hyperparameters
        lr *= h.lr_decay**self.number
        self._model.train()
        # What is not trained is left out of the backward pass: head epochs need only a forward pass of the body.
        for flat in (self.body, self.head):
            flat.requires_grad(flat is part)
        optimizer = Momentum(part, h.momentum, h.weight_decay)
        kept = torch.empty_like(part.data) if rho else None
        for epoch in range(epochs):
            order = batch_order(len(self._data), self._seed, self._rank, self.number, part.phase, epoch)
            losses: list[Tensor] = []
            counts: list[int] = []
            for index in torch.split(order, h.batch_size):
                if self._stop.is_set():
                    raise Interrupted("training was asked to stop")
                inputs, targets = self._data.take(index)

                def gradient(inputs: Any = inputs, targets: Any = targets) -> Tensor:
                    return self._gradient(part, inputs, targets)

                with torch.no_grad():
                    loss = gradient() if kept is None else sam_gradient(part, gradient, rho, kept)
                    optimizer.step(lr)
                losses.append(loss)
                counts.append(len(index))
            weights = torch.tensor(counts, dtype=torch.float64)
            self.loss = (torch.stack(losses).double() @ weights / weights.sum()).item()

    def reattach(self) -> None:
        """Undo what the task's code may have done to the parameters' storage; see `Flat.reattach`."""
        for flat in (self.body, self.head):
            flat.reattach()

    def _gradient(self, part: Flat, inputs: Any, targets: Any) -> Tensor:
        """Compute the minibatch's gradient into ``part.grad``; return its loss, a scalar."""
        part.grad.zero_()
        with torch.enable_grad():
            with blame("the task's model failed on a training batch", lambda: batch_hint(inputs)):
                outputs = predict(self._model, inputs)
            with blame("the task's loss failed on a training batch", lambda: batch_hint(inputs, targets, outputs)):
                loss = self._loss(outputs, targets)
                if loss.numel() != 1:
                    raise TaskError(
                        f"the task's loss gave a tensor of shape {tuple(loss.shape)}; it must give one number, "
                        "the mean over the batch"
                    )
                loss = loss.reshape(())
            with blame("the task's model cannot be differentiated"):
                loss.backward()  # type: ignore[no-untyped-call]
        self.reattach()
        return loss.detach()

    @property
    def num_samples(self) -> int:
        """How many training samples this peer has."""
        return len(self._data)
