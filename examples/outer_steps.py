"""DiLoCo's outer steps without a server: Nesterov's momentum along what a round's training and mixing have changed.

Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models", arXiv:2311.08105, Algorithm 1.
Round t of peer i, with a base b_i that it trains from, and a velocity u_i that is zero at first:

    z_i <- H local steps from b_i                 train
    x_i <- sum over j of W_ij z_j                 mix
    g_i <- b_i - x_i                              the outer gradient
    u_i <- m u_i + g_i
    b_i <- b_i - a (g_i + m u_i)

    dpeer simulate --algorithm examples/outer_steps.py:OuterSteps --optimizer adamw --local-steps 50

W keeps the mean of all peers (by p with declared weights), so the mean takes DiLoCo's step on the mean of their
changes, on every graph. With `--topology full --weights uniform` each peer takes the server's step. Peers drift apart
where the step is too long for their graph: with a symmetric W it must hold that a (1 - l) < (2 + 2m) / (1 + 2m) for the
smallest eigenvalue l of W.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dpeer.training import Algorithm, Trainer, option


class OuterSteps(Algorithm):
    """DFedAvgM with an outer step after each mix; the whole model is shared."""

    shares = "model"
    mixed_uses_data = False  # base and velocity are made of releases

    @dataclass(frozen=True)
    class Options:
        """The outer optimizer."""

        outer_lr: float = option(0.7, "learning rate a of the outer step", gt=0)
        outer_momentum: float = option(0.9, "momentum m of the outer step", ge=0, lt=1)

    def start(self, peer: Trainer) -> None:
        """Begin from the first body, without velocity."""
        self.state["base"], self.state["velocity"] = peer.body.data.clone(), torch.zeros_like(peer.body.data)

    def train(self, peer: Trainer) -> None:
        """H local steps."""
        h = peer.hyperparameters
        peer.fit(peer.model, epochs=h.body_epochs, lr=peer.rates.body)

    def mixed(self, peer: Trainer) -> None:
        """The outer step."""
        a, m, x = self.options.outer_lr, self.options.outer_momentum, peer.body.data
        base, velocity = self.state["base"], self.state["velocity"]
        with torch.no_grad():
            change = x - base  # -g
            velocity.mul_(m).sub_(change)
            base.add_(change, alpha=a).sub_(velocity, alpha=a * m)
            x.copy_(base)

    def adopted(self, peer: Trainer) -> None:
        """Begin anew from the adopted body: the own base and velocity are of rounds long ago."""
        self.start(peer)
