"""Optimizers of one flat vector: SGD with momentum, and AdamW.

Not `torch.optim`: its first use imports torch._dynamo (0.7 s and 73 MB in every peer), and on one vector the update
is a few lines.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
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
    """PyTorch's SGD: no dampening, no Nesterov, coupled weight decay; momentum starts at zero."""

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


SECOND = 0.999
"""How much of the mean of squared gradients is kept in each step: the paper's beta 2, and PyTorch's."""

_EPSILON = 1e-8


def adamw(momentum: float = 0.9, weight_decay: float = 0.0) -> Step:
    """Makes `AdamW` with these values."""
    return lambda flat: AdamW(flat, momentum, weight_decay)


@dataclass(frozen=True)
class Knowledge:
    """Knowledge of gradients before a phase begins.

    Attributes:
        second: The mean of each gradient's square without noise, shape (count,), where it is known; zero where it is
            not. An estimate may be below zero: then all that is known is that the noise hides it.
        noise: The variance of the noise in each gradient.
        floor: The least that may be left of a mean square without the noise, as a share of the noise's variance.
        direction: What the parameters are moved along in each step besides, times minus the learning rate, shape
            (count,); None for nothing.
    """

    second: Tensor | None = None
    noise: float = 0.0
    floor: float = 0.0
    direction: Tensor | None = None


class AdamW:
    """PyTorch's AdamW, without its AMSGrad; where nothing is known, means start at zero, and the first steps make up.

    Loshchilov and Hutter, Decoupled Weight Decay Regularization, ICLR 2019, Algorithm 2.

    With a known second moment a, and noise of variance s^2 in the gradients, the mean of squares starts where it would
    be after many steps, at max(a, 0) + s^2. Nothing has to be made up for there: dividing by 1 - b2^k is for a mean
    that started at zero. Both kinds can be in one vector.

    Args:
        flat: What to step.
        momentum: How much of the mean gradient is kept in each step: the paper's beta 1.
        weight_decay: The share of the parameters, times the learning rate, that each step takes away.
        known: Knowledge of the gradients; by default none, and no noise.

    Attributes:
        steps: How many steps have been taken.
    """

    def __init__(self, flat: Flat, momentum: float, weight_decay: float, known: Knowledge = Knowledge()) -> None:
        self._flat, self._momentum, self._decay, self._known = flat, momentum, weight_decay, known
        self._mean, self._squares = torch.zeros_like(flat.data), torch.zeros_like(flat.data)
        self._from_zero: float | Tensor = 1.0
        if known.second is not None and bool(known.second.any()):
            torch.clamp_min(known.second, 0.0, out=self._squares)
            self._squares.add_(known.second != 0, alpha=known.noise)
            self._from_zero = (self._squares == 0).float()
        self.steps = 0

    def step(self, lr: float) -> None:
        """Take a step; overwrites the gradient.

        m <- b1 m + (1 - b1) g, v <- b2 v + (1 - b2) g^2, w <- w - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + 1e-8)
        after w <- (1 - lr decay) w. With a direction d, also w <- w - lr d. With noise of variance s^2, the root is of
        max(v / (1 - b2^t) - s^2, floor s^2). Where v did not start at zero, it is not divided by 1 - b2^t.
        """
        values, gradient, known = self._flat.data, self._flat.grad, self._known
        self.steps += 1
        if self._decay:
            values.mul_(1 - lr * self._decay)
        if known.direction is not None:
            values.add_(known.direction, alpha=-lr)
        self._mean.lerp_(gradient, 1 - self._momentum)
        self._squares.mul_(SECOND).addcmul_(gradient, gradient, value=1 - SECOND)
        if known.noise:
            torch.div(self._squares, self._share, out=gradient).sub_(known.noise).clamp_min_(known.floor * known.noise)
            divisor = gradient.sqrt_().add_(_EPSILON)
        else:
            share = self._share
            root = math.sqrt(share) if isinstance(share, float) else share.sqrt()
            divisor = torch.sqrt(self._squares, out=gradient).div_(root).add_(_EPSILON)
        values.addcdiv_(self._mean, divisor, value=-lr / (1 - self._momentum**self.steps))

    @property
    def _share(self) -> float | Tensor:
        """How much of the weights in the mean of squares is on gradients, or on what was known before the first."""
        return 1 - SECOND**self.steps * self._from_zero

    @property
    def second(self) -> Tensor:
        """The mean of squared gradients without the noise, as `Knowledge.second` takes it, shape (count,).

        It is not clamped, so that means over many values and peers have no bias: single ones may be below zero. To be
        asked for after a step.
        """
        return self._squares.div(self._share).sub_(self._known.noise)
