"""SCAFFOLD: control variates take out of each local step what is peculiar to the peer's own data.

Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated Learning, ICML 2020, Algorithm 1 with option
II. Noble, Bellet and Dieuleveut, Differentially Private Federated Learning on Heterogeneous Data, AISTATS 2022, clip
and noise each gradient before it is corrected, as `--privacy sample` does here. The server's c is the mean of the
clients' c_i; without a server each peer has an estimate t_i of it, which travels beside the body. Round t of peer i,
with c_i = t_i = 0 at first:

    y <- x_i
    repeat K times:
        g <- gradient of the minibatch's loss at y
        y <- SGD step with g - c_i + t_i
    c  <- mean of the K gradients g
    t_i <- t_i + c - c_i;  c_i <- c
    z_i <- y
    x_i <- sum_l W_il z_l;  t_i <- sum_l W_il t_l

What c_i becomes is the paper's c_i - c + (x - y) / (K lr) where steps are plain SGD, for then (x - y) / lr is the sum
of all g - c_i + c. With momentum, weight decay, a clipped gradient or another optimizer that quotient is no gradient
any more (momentum 0.9 makes it ten times as long), the mean of the gradients still is. Momentum is 0 unless you give
one.

Where W is doubly stochastic, mixing keeps the sum of the t_i, and what `train` adds to it is what the c_i change by: so
the mean of the t_i is that of the c_i in every round, though a single t_i is what has come this far. (With declared
weights the means by p are equal.) A message that is lost in one direction alone makes that round's weights stochastic
by rows only, and from then on the two means differ by a constant, which no later round takes away: every peer's steps
are off by it. (Where neither of two neighbors hears the other, their weights stay symmetric, and nothing is lost.) With
`--privacy client` the noise in every message is such a difference, too. The head, which stays at home, is trained in
the same steps, without variates.

Where a sample of the peers trains and all take the mean of what it sends (`--participation-mode server`), c is to
change by the sum over the sample divided by the number of all peers, as in the paper's line 17. So what is added to t_i
is (c - c_i) times the sample's share of all peers: then every t_i is the mean of all c_i.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from dpeer.training.algorithms.base import Algorithm
from dpeer.training.batch_loader import Batch
from dpeer.training.flat import Flat, Tracker
from dpeer.training.split import Split
from dpeer.training.trainer import Trainer

_TRACKED = "variates"


class Scaffold(Algorithm):
    """Body and head trained jointly; the body is shared, corrected by control variates, which travel with it."""

    name = "scaffold"
    summary = "body and head are trained at once, corrected by control variates; body and variates are averaged"
    paper = "Karimireddy et al.: SCAFFOLD: Stochastic Controlled Averaging for Federated Learning, ICML 2020"
    shares = "body"
    leaves = "the body and its control variates"
    defaults: ClassVar[Mapping[str, Any]] = {"momentum": 0.0}

    def extras(self, split: Split) -> Mapping[str, int]:
        """As many variates as the body has values."""
        return {_TRACKED: Tracker(split.body_count)}

    def start(self, peer: Trainer) -> None:
        """The own variates are zero at first."""
        self.state["own"] = torch.zeros_like(peer.body.data)

    def train(self, peer: Trainer) -> None:
        """K corrected SGD steps on body and head jointly, then the variates."""
        h, tracked, own = peer.hyperparameters, peer.extras[_TRACKED], self.state["own"]
        corrected = _Corrected(tracked - own)
        peer.fit(peer.model, epochs=h.body_epochs, lr=peer.rates.body, gradient=corrected)
        if corrected.steps:  # privacy may grant none
            mean = corrected.total.div_(corrected.steps)
            tracked.add_(mean - own, alpha=peer.sampled_share)
            own.copy_(mean)


class _Corrected:
    """The gradient of one round's steps, corrected for the body.

    Args:
        correction: What is added to the body's part, shape (body.count,).

    Attributes:
        total: The sum of the gradients of the body before the correction, shape (body.count,).
        steps: How many those are.
    """

    def __init__(self, correction: Tensor) -> None:
        self._correction, self.total, self.steps = correction, torch.zeros_like(correction), 0

    def __call__(self, peer: Trainer, part: Flat, batch: Batch) -> Tensor:
        """See `dpeer.training.gradients`."""
        loss = peer.gradient(part, batch)
        self.steps += 1
        self.total.add_(peer.body.grad)  # the part is the body or begins with it: its gradient is the same memory
        peer.body.grad.add_(self._correction)
        return loss
