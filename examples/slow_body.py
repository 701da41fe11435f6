"""DFedMDC whose slow body predicts: an average over the rounds, which travels and is mixed beside the body.

Round t of peer i, with a slow body s_i that is at first the first body b, as u_i is:

    v_i <- K_v steps on the head, u_i <- K_u steps on the body     train
    s_i <- a s_i + (1 - a) u_i
    u_i, s_i <- sum over j of W_ij u_j, W_ij s_j                   mix

    dpeer simulate --algorithm examples/slow_body.py:SlowBody

Extras are zero at first, and all peers have the same b: what travels is s_i - b.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dpeer.training import Algorithm, Trainer, option


class SlowBody(Algorithm):
    """First the head, then the body; the slow body, which is shared as well, predicts with the head."""

    shares = "body"
    uses = ("head_lr", "head_epochs")

    @dataclass(frozen=True)
    class Options:
        """The average."""

        keep: float = option(0.8, "share a of the slow body that a round keeps", ge=0, lt=1)

    def extras(self, split) -> dict[str, int]:
        """As many values as the body has."""
        return {"slow": split.body_count}

    def start(self, peer: Trainer) -> None:
        """Keep the first body."""
        self.state["first"] = peer.body.data.clone()

    def train(self, peer: Trainer) -> None:
        """The local steps, then the average."""
        h = peer.hyperparameters
        peer.fit(peer.head, epochs=h.head_epochs, lr=peer.rates.head)
        peer.fit(peer.body, epochs=h.body_epochs, lr=peer.rates.body)
        peer.extras["slow"].lerp_(peer.body.data - self.state["first"], 1 - self.options.keep)

    def predictor(self, peer: Trainer) -> Tensor:
        """Slow body, then head."""
        return torch.cat([self.state["first"] + peer.extras["slow"], peer.head.data])
