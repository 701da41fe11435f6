"""FAFED: both moments of Adam are averaged, and the first is corrected by a second gradient on each minibatch.

Wu et al., Faster Adaptive Federated Learning, AAAI 2023, Algorithm 2; what is built here follows descriptions of it in
published ports, with constant learning rate and alpha. Round t of peer i, with m and v as the last mixing left them:

    divisor <- sqrt(v) + floor                               the same in all steps of the round
    repeat K times:
        x' <- x;  x <- x - lr m / divisor
        g, g' <- gradients of one minibatch's loss at x and at x'
        m <- g + (1 - alpha) (m - g')
        v <- beta2 v + (1 - beta2) g^2
    send x, m and v, three times the body;  x, m, v <- sum_l W_il of everyone's

In the first round, which has no moments, m <- g and v <- g^2 in the first step, and the divisor is made of that v.

Where this differs: the paper's server makes the step after averaging, here each peer makes it at the start of the next
round, which is the same. The paper gets its first moments in an exchange before the first round. And x' of a round's
first step is the averaged x, to which the averaged m belongs, where ports keep each client's own last one.

Each step computes two gradients, and privacy at sample level pays for both. Worse, each has noise of its own, which the
difference m - g' does not take out but adds up: with alpha = 0.1 the noise in m is three times that of one gradient
(its variance (1 + 0.9^2) / (1 - 0.9^2) times), where Adam's mean would have a quarter. With `corrected=false` the
second gradient is left out, and m is Adam's mean, (1 - alpha) m + alpha g: both moments are averaged still.

The head, which stays at home, is trained in the same steps with moments of its own. `--weight-decay` is decoupled;
`--optimizer` and `--momentum` have no effect.
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
from dpeer.training.batch_loader import Batch
from dpeer.training.flat import Flat
from dpeer.training.optimizers import clip_gradient
from dpeer.training.settings import Hyperparameters
from dpeer.training.split import Split
from dpeer.training.trainer import Trainer

_MOMENTS = ("momentum", "squares")


class FAFED(Algorithm):
    """Body and head trained jointly with averaged moments; the body is shared."""

    name = "fafed"
    summary = "body and head are trained at once by Adam with a corrected momentum; body and both moments are averaged"
    paper = "Wu et al.: Faster Adaptive Federated Learning, AAAI 2023"
    shares = "body"
    leaves = "the body and both its moments"
    defaults: ClassVar[Mapping[str, Any]] = {"body_lr": 0.001}

    @dataclass(frozen=True)
    class Options:
        """No text of the paper was at hand for its values: these are usual ones."""

        corrected: bool = option(True, "a second gradient in each step; without it m is Adam's, for privacy's sake")
        alpha: float = option(0.1, "how much of the momentum is forgotten in each step", gt=0, le=1)
        beta2: float = option(0.99, "how much of the mean squared gradient is kept in each step", ge=0, lt=1)
        floor: float = option(0.01, "what is added to the root that a step is divided by (the paper's rho)", gt=0)

    _moments: Moments

    def extras(self, split: Split) -> Mapping[str, int]:
        """Both moments of each of the body's values."""
        return dict.fromkeys(_MOMENTS, split.body_count)

    def start(self, peer: Trainer) -> None:
        """The head's moments are zero at first, as the body's."""
        self._moments = Moments(_MOMENTS, peer, self.state)

    def train(self, peer: Trainer) -> None:
        """K steps on body and head jointly."""
        h, vectors = peer.hyperparameters, self._moments.take(peer)
        mean, squares = (vectors[name] for name in _MOMENTS)
        round_ = _Round(self.options, mean, squares, peer.rates.body, h.weight_decay)
        rule = round_.corrected if self.options.corrected else round_.plain
        peer.fit(peer.model, epochs=h.body_epochs, lr=peer.rates.body, gradient=rule, step=round_.optimizer)
        self._moments.keep(peer, vectors)

    def gradients(self, h: Hyperparameters) -> float:
        """See `Algorithm.gradients`."""
        return (2 if self.options.corrected else 1) * h.body_epochs


class _Round:
    """The steps of one round, of the whole model or of what it begins with: moving comes first, then the moments.

    These are m and v, shape (model.count,), which are changed in place.
    """

    def __init__(self, options: FAFED.Options, mean: Tensor, squares: Tensor, lr: float, decay: float) -> None:
        self._options, self._lr, self._decay = options, lr, decay
        self._all = mean, squares
        # Noise of privacy at client level is on what has been mixed, so that squares may be below zero.
        squares.clamp_(min=0)
        self._begun = bool(squares.any())
        self._divisor: Tensor | None = None
        self._behind: Tensor | None = None

    def plain(self, peer: Trainer, part: Flat, batch: Batch) -> Tensor:
        """Move, and leave the minibatch's gradient there."""
        self._move(part)
        return peer.gradient(part, batch)

    def corrected(self, peer: Trainer, part: Flat, batch: Batch) -> Tensor:
        """Move, and leave the minibatch's gradient there; the one at the place before is kept for `step`."""
        before = part.data.clone()
        self._move(part)
        repeating = peer.repeating()
        loss = peer.gradient(part, batch)
        gradient, here = part.grad.clone(), part.data.clone()
        part.data.copy_(before)
        with repeating():
            peer.gradient(part, batch)
        if peer.hyperparameters.grad_clip is not None:
            clip_gradient(part, peer.hyperparameters.grad_clip)
        self._behind = part.grad.clone()
        part.data.copy_(here)
        part.grad.copy_(gradient)
        return loss

    corrected.looks = 2  # type: ignore[attr-defined]

    def _move(self, part: Flat) -> None:
        if not self._begun:
            return
        mean, squares = (vector[: part.count] for vector in self._all)
        if self._divisor is None:
            self._divisor = squares.sqrt().add_(self._options.floor)
        part.data.mul_(1 - self._lr * self._decay).addcdiv_(mean, self._divisor, value=-self._lr)

    def optimizer(self, flat: Flat) -> _Round:
        """See `Step`."""
        self._flat = flat
        return self

    def step(self, lr: float) -> None:
        """Take the gradients into the moments; the place is moved before the next ones."""
        gradient, o = self._flat.grad, self._options
        mean, squares = (vector[: self._flat.count] for vector in self._all)
        if self._begun:
            if self._behind is None:
                mean.lerp_(gradient, o.alpha)
            else:
                mean.sub_(self._behind).mul_(1 - o.alpha).add_(gradient)
            squares.mul_(o.beta2).addcmul_(gradient, gradient, value=1 - o.beta2)
        else:
            mean.copy_(gradient)
            torch.square(gradient, out=squares)
            self._begun = True
