"""Steps of AdamW on one flat vector, as PyTorch takes them; see `dpeer.training.sgd` for why not by `torch.optim`.

Loshchilov and Hutter, Decoupled Weight Decay Regularization, ICLR 2019, Algorithm 2.
"""

from __future__ import annotations

import math

import torch

from dpeer.training.flat import Flat
from dpeer.training.sgd import Step

SECOND = 0.999
"""How much of the mean of squared gradients is kept in each step: the paper's beta 2, and PyTorch's."""

_EPSILON = 1e-8


def adamw(momentum: float = 0.9, weight_decay: float = 0.0) -> Step:
    """Makes `AdamW` with these values."""
    return lambda flat: AdamW(flat, momentum, weight_decay)


class AdamW:
    """PyTorch's AdamW, without its AMSGrad; both means start at zero, and the first steps make up for that.

    Args:
        flat: What to step.
        momentum: How much of the mean gradient is kept in each step: the paper's beta 1.
        weight_decay: The share of the parameters, times the learning rate, that each step takes away.
    """

    def __init__(self, flat: Flat, momentum: float, weight_decay: float) -> None:
        self._flat, self._momentum, self._decay = flat, momentum, weight_decay
        self._mean, self._squares = torch.zeros_like(flat.data), torch.zeros_like(flat.data)
        self._steps = 0

    def step(self, lr: float) -> None:
        """Take a step; overwrites the gradient.

        m <- b1 m + (1 - b1) g, v <- b2 v + (1 - b2) g^2, w <- w - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + 1e-8)
        after w <- (1 - lr decay) w.
        """
        values, gradient = self._flat.data, self._flat.grad
        self._steps += 1
        if self._decay:
            values.mul_(1 - lr * self._decay)
        self._mean.lerp_(gradient, 1 - self._momentum)
        self._squares.mul_(SECOND).addcmul_(gradient, gradient, value=1 - SECOND)
        scale = math.sqrt(1 - SECOND**self._steps)
        divisor = torch.sqrt(self._squares, out=gradient).div_(scale).add_(_EPSILON)
        values.addcdiv_(self._mean, divisor, value=-lr / (1 - self._momentum**self._steps))
