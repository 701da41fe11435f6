"""FedLADA: local steps of AMSGrad, amended by the direction in which all peers moved in the round before.

Sun et al., Efficient Federated Learning via Local Adaptive Amended Optimizer with Linear Speedup, IEEE TPAMI 45 (2023);
what is built here follows descriptions of its algorithm in published ports, with a server's step of length 1. Round t
of peer i, with v and the direction d as they came from the last mixing, both zero at first:

    m <- 0;  v, v_max <- max(v, floor^2)
    repeat K times:
        g <- gradient of the minibatch's loss at x
        m <- beta1 m + (1 - beta1) g;  v <- beta2 v + (1 - beta2) g^2;  v_max <- max(v_max, v)
        s <- alpha m / sqrt(v_max) + (1 - alpha) d
        x <- x - lr s
    d <- mean of the K steps s;  v <- v_max
    send x, v and d, three times the body;  x, v, d <- sum_l W_il of everyone's

The mean of the s is the paper's (x_old - x) / (lr K). Its server makes d of the change of the averaged model. From the
change of a mixed body a peer would learn what it disagrees with its neighbors on, too, and following that for many
rounds (alpha = 0.1 keeps nine tenths of d) blows it up: on a ring with weights of 1/3, what alternates from peer to
peer, about twentyfold. Hence each peer sends its own direction, and a mean of directions has no disagreement in it.

beta1 is `--momentum`; `--weight-decay` is decoupled and no part of d; `--optimizer` has no effect. The head, which
stays at home, is trained in the same steps, with v and d of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from dpeer.training.algorithms.base import Algorithm
from dpeer.training.algorithms.moments import Moments
from dpeer.training.algorithms.options import option
from dpeer.training.flat import Flat
from dpeer.training.settings import Hyperparameters
from dpeer.training.split import Split
from dpeer.training.trainer import Trainer

_KEPT = ("squares", "direction")


class FedLADA(Algorithm):
    """Body and head trained jointly by amended AMSGrad; the body is shared."""

    name = "fedlada"
    summary = "body and head are trained at once by AMSGrad, amended by where all moved; both are averaged, too"
    paper = "Sun et al.: Efficient Federated Learning via Local Adaptive Amended Optimizer, TPAMI 2023"
    shares = "body"
    leaves = "the body, its second moment and its direction"
    defaults: ClassVar[Mapping[str, Any]] = {"body_lr": 0.001}

    @dataclass(frozen=True)
    class Options:
        """No text of the paper was at hand for its values: these are usual ones."""

        alpha: float = option(0.1, "the share of a step that is the peer's own; the rest is the direction", gt=0, le=1)
        beta2: float = option(0.99, "how much of the mean squared gradient is kept in each step", ge=0, lt=1)
        floor: float = option(1e-8, "what a step is divided by at least (the paper's epsilon)", gt=0)

    _kept: Moments

    def extras(self, split: Split) -> Mapping[str, int]:
        """Second moment and direction of each of the body's values."""
        return dict.fromkeys(_KEPT, split.body_count)

    def start(self, peer: Trainer) -> None:
        """The head's second moment and direction are zero at first, as the body's."""
        self._kept = Moments(_KEPT, peer, self.state)

    def train(self, peer: Trainer) -> None:
        """K amended steps on body and head jointly."""
        h, vectors = peer.hyperparameters, self._kept.take(peer)
        made: list[_Amended] = []

        def amended(flat: Flat) -> _Amended:
            made.append(_Amended(flat, self.options, h, *(vectors[name][: flat.count] for name in _KEPT)))
            return made[-1]

        peer.fit(peer.model, epochs=h.body_epochs, lr=peer.rates.body, step=amended)
        for one in made:
            one.take_over()
        self._kept.keep(peer, vectors)


class _Amended:
    """The steps of one round, on what it begins with: v and d, shape (flat.count,)."""

    def __init__(
        self, flat: Flat, options: FedLADA.Options, h: Hyperparameters, squares: Tensor, direction: Tensor
    ) -> None:
        self._flat, self._options, self._momentum, self._decay = flat, options, h.momentum, h.weight_decay
        self._kept, self._direction = squares, direction
        self._squares = squares.clamp(min=options.floor**2)
        self._largest = self._squares.clone()
        self._mean, self._total = torch.zeros_like(squares), torch.zeros_like(squares)
        self._steps = 0

    def step(self, lr: float) -> None:
        """Take a step; overwrites the gradient."""
        values, gradient, o = self._flat.data, self._flat.grad, self._options
        self._mean.lerp_(gradient, 1 - self._momentum)
        self._squares.mul_(o.beta2).addcmul_(gradient, gradient, value=1 - o.beta2)
        torch.maximum(self._largest, self._squares, out=self._largest)
        step = torch.div(self._mean, torch.sqrt(self._largest, out=gradient), out=gradient)
        step.mul_(o.alpha).add_(self._direction, alpha=1 - o.alpha)
        self._total.add_(step)
        self._steps += 1
        values.mul_(1 - lr * self._decay).add_(step, alpha=-lr)

    def take_over(self) -> None:
        """Make of the steps what the next round begins with; without any, that stays as it is."""
        if self._steps:
            self._kept.copy_(self._largest)
            self._direction.copy_(self._total.div_(self._steps))
