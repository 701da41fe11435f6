"""DFedSAM: decentralized federated averaging with sharpness-aware local steps.

Shi et al., Improving the Model Consistency of Decentralized Federated Learning, ICML 2023, Algorithm 1 (one gossip
step a round). Round t of peer i:

    y <- x_i
    repeat K times:
        g <- gradient of the minibatch's loss at y
        y <- SGD step with the gradient at y + rho g / ||g||
    z_i <- y
    x_i <- sum_l W_il z_l

With the server's graph, `full` with uniform weights, it is FedSAM (Qu et al., ICML 2022), which steps without momentum.

SAM: Foret et al., Sharpness-Aware Minimization, ICLR 2021. Momentum applies to the SAM gradient.
"""

from __future__ import annotations

from dpeer.training.algorithms.base import Algorithm
from dpeer.training.gradients import sam
from dpeer.training.settings import Hyperparameters
from dpeer.training.trainer import Trainer


class DFedSAM(Algorithm):
    """All parameters trained jointly by SAM and all of them shared."""

    name = "dfedsam"
    summary = "the whole model is trained by sharpness-aware (SAM) steps and averaged with the neighbors'"
    paper = "Shi et al.: Improving the Model Consistency of Decentralized Federated Learning, ICML 2023"
    shares = "model"
    uses = ("rho",)

    def train(self, peer: Trainer) -> None:
        """K SAM steps on the whole model."""
        h = peer.hyperparameters
        peer.fit(peer.model, epochs=h.body_epochs, lr=peer.rates.body, gradient=sam(h.rho))

    def gradients(self, h: Hyperparameters) -> float:
        """See `Algorithm.gradients`."""
        return 2 * h.body_epochs


class FedSAM(DFedSAM):
    """DFedSAM by its server's name."""

    name = "fedsam"
    summary = "fedavg with sharpness-aware (SAM) steps; --topology full --weights uniform is the server's form"
    paper = "Qu et al.: Generalized Federated Learning via Sharpness Aware Minimization, ICML 2022"
