"""DFedMDC: the shared body is gossiped, the personal head stays at home.

Shi et al., Enhancing Personal Decentralized Federated Learning through Model Decoupling, Algorithm 1. The same
authors' Towards More Suitable Personalization in Federated Learning via Decentralized Partial Model Training
(arXiv:2305.15157, 2023) calls it DFedAlt. Round t of peer i:

    v_i <- K_v SGD steps on the head, with the body as it came from the last mixing
    u_i <- K_u SGD steps on the body, with the new head
    z_i <- u_i
    u_i <- sum_l W_il z_l
"""

from __future__ import annotations

from dpeer.training.algorithms.base import Algorithm
from dpeer.training.settings import Hyperparameters
from dpeer.training.trainer import Trainer


class DFedMDC(Algorithm):
    """First the head, then the body; the body is shared."""

    name = "dfedmdc"
    summary = "a shared body is gossiped while each peer keeps a personal head"
    paper = (
        "Shi et al.: Enhancing Personal Decentralized Federated Learning through Model Decoupling (arXiv:2305.15157)"
    )
    shares = "body"
    leaves = "the body"
    uses = ("head_lr", "head_epochs")

    def train(self, peer: Trainer) -> None:
        """Head steps with the old body, then body steps with the new head."""
        h = peer.hyperparameters
        peer.fit(peer.head, epochs=h.head_epochs, lr=h.head_lr)
        peer.fit(peer.body, epochs=h.body_epochs, lr=h.body_lr)

    def gradients(self, h: Hyperparameters) -> float:
        """See `Algorithm.gradients`."""
        return h.head_epochs + h.body_epochs
