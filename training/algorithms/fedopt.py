"""FedOpt: the mean update of a round is the pseudo-gradient of a step of Adam or Yogi.

Reddi et al., Adaptive Federated Optimization, ICLR 2021, Algorithm 2 (FedAdam and FedYogi). Its server has m = 0 and
v = tau^2 at first, without correction for these starts. Round t of peer i:

    y   <- K SGD steps on the whole model, from x_i
    D_i <- y - x_i;  z_i <- y
    D   <- sum_l W_il D_l;  x <- sum_l W_il z_l - D
    m   <- beta1 m + (1 - beta1) D
    v   <- beta2 v + (1 - beta2) D^2                     (Adam)
           v - (1 - beta2) D^2 sign(v - D^2)             (Yogi)
    x_i <- x + server_lr m / (sqrt(v) + tau)

So a peer sends its change D_i beside its body, which doubles the message. From the body alone a peer would only know
sum_l W_il z_l - x_i, which holds its disagreement with its neighbors, too; and Adam makes of a small
disagreement a step of the full length server_lr, so that on any graph but the full one peers would never agree. Here
x is the plain mean of what the peers began with, and only the mean change is made longer or shorter. On the graph
`full` with uniform weights this is the server's algorithm. The paper's clients step without momentum (`--momentum 0`).
The head, which stays at home, is trained in the same steps, and by them alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from dpeer.training.algorithms.base import Algorithm
from dpeer.training.algorithms.options import option
from dpeer.training.split import Split
from dpeer.training.trainer import Trainer

_CHANGE = "change"


class FedOpt(Algorithm):
    """Body and head trained jointly; an adaptive step along the mixed change makes the next body."""

    name = "fedopt"
    summary = "body and head are trained at once; Adam or Yogi steps along what the neighborhood's bodies changed by"
    paper = "Reddi et al.: Adaptive Federated Optimization, ICLR 2021"
    shares = "body"
    leaves = "the body and its change"
    mixed_uses_data: ClassVar[bool] = False

    @dataclass(frozen=True)
    class Options:
        """The values are the usual ones of published code; the paper tunes server_lr and tau for each task."""

        server_optimizer: Literal["adam", "yogi"] = option("adam", "what steps along the mixed change: adam or yogi")
        server_lr: float = option(0.01, "the length of that step", gt=0)
        tau: float = option(1e-3, "what is added to the root that the step is divided by", gt=0)
        beta1: float = option(0.9, "how much of the mean change is kept each round", ge=0, lt=1)
        beta2: float = option(0.99, "how much of the mean squared change is kept each round", ge=0, lt=1)

    def extras(self, split: Split) -> Mapping[str, int]:
        """As many as the body has values."""
        return {_CHANGE: split.body_count}

    def start(self, peer: Trainer) -> None:
        """The moments as the paper has them at first."""
        self.state["mean"] = torch.zeros_like(peer.body.data)
        self.state["squares"] = torch.full_like(peer.body.data, self.options.tau**2)

    def train(self, peer: Trainer) -> None:
        """K SGD steps on body and head jointly, and what they changed."""
        h, began = peer.hyperparameters, peer.body.data.clone()
        peer.fit(peer.model, epochs=h.body_epochs, lr=peer.rates.body)
        torch.sub(peer.body.data, began, out=peer.extras[_CHANGE])

    def mixed(self, peer: Trainer) -> None:
        """Step along the mixed change, from the mean of what the peers began with.

        All that goes in, the moments included, has been made of releases.
        """
        o, change, mean, squares = self.options, peer.extras[_CHANGE], self.state["mean"], self.state["squares"]
        squared = change.square()
        if o.server_optimizer == "yogi":
            sign = torch.sign(squares - squared)
            squares.addcmul_(sign, squared, value=-(1 - o.beta2))
        else:
            squares.lerp_(squared, 1 - o.beta2)
        mean.lerp_(change, 1 - o.beta1)
        peer.body.data.sub_(change).addcdiv_(mean, squares.sqrt().add_(o.tau), value=o.server_lr)
        change.zero_()  # the next one is of the next round alone

    def adopted(self, peer: Trainer) -> None:
        """Take no step: the body is a mean of whole bodies, and the own mean change is of rounds long ago."""
        self.state["mean"].zero_()
        peer.extras[_CHANGE].zero_()
