"""Ordinary training of a copy of a task's model in float64, by torch.optim over the same minibatches."""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dpeer.training import Task
from dpeer.training.batch_loader import batch_order

Gradient = Callable[[Tensor], Sequence[Tensor]]
SIZE, DECAY = 16, 0.9
"""Of minibatches, and of learning rates from round to round."""


class Plain:
    """A copy of a task's model.

    Attributes:
        norms: The lengths of the gradients that were clipped.
    """

    def __init__(self, task: Task, rank: int, seed: int) -> None:
        self.model = copy.deepcopy(task.model).double()
        self.x, self.y = task.train.tensors[0].double(), task.train.tensors[1]
        self.rank, self.seed = rank, seed
        self.norms: list[float] = []

    def parameters(self, part: str = "") -> list[nn.Parameter]:
        return [p for name, p in self.model.named_parameters() if name.startswith(part)]

    @property
    def vector(self) -> Tensor:
        return torch.cat([p.detach().reshape(-1) for p in self.parameters()])

    def batches(self, phase: str, steps: int, number: int = 0) -> Iterator[Tensor]:
        """The first `steps` minibatches of as many shuffled passes as it takes, short last batches included."""
        epoch = 0
        while steps > 0:
            chunks = batch_order(len(self.x), self.seed, self.rank, number, phase, epoch).split(SIZE)[:steps]
            yield from chunks
            steps, epoch = steps - len(chunks), epoch + 1

    def gradient(self, rows: Tensor, part: str = "") -> Sequence[Tensor]:
        return torch.autograd.grad(cross_entropy(self.model(self.x[rows]), self.y[rows]), self.parameters(part))

    def sam(self, rows: Tensor, rho: float, gradient: Gradient, part: str = "") -> Sequence[Tensor]:
        """The gradient at w + rho g / ||g||."""
        moving = self.parameters(part)
        kept, first = [p.detach().clone() for p in moving], gradient(rows)
        length = torch.cat([g.reshape(-1) for g in first]).norm()
        with torch.no_grad():
            for p, g in zip(moving, first, strict=True):
                p.add_(rho * g / length)
        second = gradient(rows)
        with torch.no_grad():
            for p, value in zip(moving, kept, strict=True):
                p.copy_(value)
        return second

    def run(
        self,
        phase: str,
        steps: int,
        lr: float = 0.1,
        *,
        part: str = "",
        number: int = 0,
        gradient: Gradient | None = None,
        clip: float | None = None,
        after: Callable[[], Any] = lambda: None,
        optimizer: Any = torch.optim.SGD,
        **settings: Any,
    ) -> None:
        """Take steps of round `number`; SGD has momentum 0.9 where `settings` say nothing else."""
        moving = self.parameters(part)
        named = ({"momentum": 0.9} if optimizer is torch.optim.SGD else {}) | settings
        stepped = optimizer(moving, lr=lr * DECAY**number, **named)
        for rows in self.batches(phase, steps, number):
            for p, g in zip(moving, self.gradient(rows, part) if gradient is None else gradient(rows), strict=True):
                p.grad = g
            if clip is not None:
                self.norms.append(float(torch.nn.utils.clip_grad_norm_(moving, clip)))
            stepped.step()
            with torch.no_grad():
                after()
