"""DFedMDC and DFedSMDC: the shared body is gossiped, the personal head stays at home.

Shi et al., Enhancing Personal Decentralized Federated Learning through Model Decoupling, Algorithm 1. The same
authors' Towards More Suitable Personalization in Federated Learning via Decentralized Partial Model Training
(arXiv:2305.15157, 2023) calls them DFedAlt and DFedSalt. Round t of peer i:

    v_i <- K_v SGD steps on the head, with the body as it came from the last mixing
    u_i <- K_u SGD steps on the body, with the new head
    z_i <- u_i
    u_i <- sum_l W_il z_l

With many steps of the head it is FedRep (Collins et al., ICML 2021, Algorithm 1), whose published code has 10 epochs.

DFedSMDC takes SAM steps (Foret et al., Sharpness-Aware Minimization, ICLR 2021), by default on the body: towards flat
minima that survive averaging. In place of the second line, with momentum of the SAM gradient:

    repeat K_u times, with the new head:
        g   <- gradient of the minibatch's loss at u_i
        u_i <- SGD step with the gradient at u_i + rho g / ||g||

The paper also tries SAM on the head's steps only, and on both: `--sam body` (its -U), `head` (-V), `both` (-UV). The
perturbation is always of the parameters that the step is on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from dpeer.training.algorithms.base import Algorithm
from dpeer.training.gradients import plain, sam
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
    uses = ("head_lr", "head_epochs")

    def train(self, peer: Trainer) -> None:
        """Head steps with the old body, then body steps with the new head."""
        h = peer.hyperparameters
        peer.fit(peer.head, epochs=h.head_epochs, lr=peer.rates.head)
        peer.fit(peer.body, epochs=h.body_epochs, lr=peer.rates.body)


class FedRep(DFedMDC):
    """DFedMDC with many epochs of the head."""

    name = "fedrep"
    summary = "first many epochs of the head, then the body; the body is averaged"
    paper = "Collins et al.: Exploiting Shared Representations for Personalized Federated Learning, ICML 2021"
    defaults: ClassVar[Mapping[str, Any]] = {"head_epochs": 10}


class DFedSMDC(Algorithm):
    """First the head, then the body, by SAM where `sam` says so; the body is shared."""

    name = "dfedsmdc"
    summary = "DFedMDC with sharpness-aware (SAM) steps on the shared body; --sam head|both: elsewhere too"
    paper = (
        "Shi et al.: Enhancing Personal Decentralized Federated Learning through Model Decoupling (arXiv:2305.15157)"
    )
    shares = "body"
    uses = ("head_lr", "head_epochs", "rho", "sam")

    def train(self, peer: Trainer) -> None:
        """Head steps with the old body, then body steps with the new head."""
        h = peer.hyperparameters
        perturbed = sam(h.rho)
        on_head, on_body = (perturbed if h.sam in (part, "both") else plain for part in ("head", "body"))
        peer.fit(peer.head, epochs=h.head_epochs, lr=peer.rates.head, gradient=on_head)
        peer.fit(peer.body, epochs=h.body_epochs, lr=peer.rates.body, gradient=on_body)

    def gradients(self, h: Hyperparameters) -> float:
        """See `Algorithm.gradients`."""
        head, body = h.head_epochs, h.body_epochs
        return {"body": head + 2 * body, "head": 2 * head + body, "both": 2 * (head + body)}[h.sam]
