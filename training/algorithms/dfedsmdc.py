"""DFedSMDC: DFedMDC whose body is trained by SAM, towards flat minima that survive averaging.

Shi et al., Enhancing Personal Decentralized Federated Learning through Model Decoupling, Algorithm 1 with SAM;
DFedSalt in arXiv:2305.15157 (2023), by the same authors. Round t of peer i:

    v_i <- K_v SGD steps on the head, with the body as it came from the last mixing
    repeat K_u times, with the new head:
        g   <- gradient of the minibatch's loss at u_i
        u_i <- SGD step with the gradient at u_i + rho g / ||g||
    z_i <- u_i
    u_i <- sum_l W_il z_l

SAM: Foret et al., Sharpness-Aware Minimization, ICLR 2021. Momentum applies to the SAM gradient.
"""

from __future__ import annotations

from dpeer.training.algorithms.base import Algorithm
from dpeer.training.trainer import Trainer


class DFedSMDC(Algorithm):
    """First the head, then the body by SAM; the body is shared."""

    name = "dfedsmdc"
    summary = "DFedMDC with sharpness-aware (SAM) training of the shared body"
    shares = "body"

    def train(self, peer: Trainer) -> None:
        """Head steps with the old body, then SAM steps on the body with the new head."""
        h = peer.hyperparameters
        peer.fit(peer.head, epochs=h.head_epochs, lr=h.head_lr)
        peer.fit(peer.body, epochs=h.body_epochs, lr=h.body_lr, rho=h.rho)
