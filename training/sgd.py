"""Steps of SGD with momentum on one flat vector.

Not `torch.optim`: its first use imports torch._dynamo (0.7 s and 73 MB in every peer), and on one vector the update
is three lines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from dpeer.training.flat import Flat

_TINY = 1e-6  # PyTorch's


class Optimizer(Protocol):
    """Moves a vector by its gradient."""

    def step(self, lr: float) -> None:
        """Take a step with this learning rate; may overwrite the gradient."""


Step = Callable[[Flat], Optimizer]
"""Makes an optimizer of a vector, for one phase."""


def momentum(momentum: float, weight_decay: float = 0.0) -> Step:
    """Makes `Momentum` with these values."""
    return lambda flat: Momentum(flat, momentum, weight_decay)


def projected(step: Step, project: Callable[[Tensor], object]) -> Step:
    """An optimizer that steps as `step` does, and then moves the values back to where they are allowed.

    Args:
        step: Makes the optimizer.
        project: Changes the values, shape (count,), in place.
    """
    return lambda flat: _Projected(step(flat), flat, project)


class _Projected:
    def __init__(self, inner: Optimizer, flat: Flat, project: Callable[[Tensor], object]) -> None:
        self._inner, self._flat, self._project = inner, flat, project

    def step(self, lr: float) -> None:
        self._inner.step(lr)
        self._project(self._flat.data)


class Momentum:
    """PyTorch's SGD: no dampening, no Nesterov, coupled weight decay; momentum starts at zero.

    Args:
        flat: What to step.
        momentum: How much of the last step's velocity is kept.
        weight_decay: Factor of the parameters that is added to the gradient.
    """

    def __init__(self, flat: Flat, momentum: float, weight_decay: float) -> None:
        self._flat, self._momentum, self._decay = flat, momentum, weight_decay
        self._velocity = torch.zeros_like(flat.data) if momentum else None

    def step(self, lr: float) -> None:
        """Take a step, v <- momentum v + g and w <- w - lr v; may overwrite the gradient."""
        step = self._flat.grad
        if self._decay:
            step.add_(self._flat.data, alpha=self._decay)
        if self._velocity is not None:
            step = self._velocity.mul_(self._momentum).add_(step)
        self._flat.data.add_(step, alpha=-lr)


def clip_gradient(flat: Flat, longest: float) -> None:
    """Shorten the gradient to the length `longest` where it is longer, as ``torch.nn.utils.clip_grad_norm_`` does."""
    norm = torch.linalg.vector_norm(flat.grad)
    flat.grad.mul_((longest / (norm + _TINY)).clamp_max(1.0))
