"""DFedSAM: decentralized federated averaging with sharpness-aware local steps.

Shi et al., Improving the Model Consistency of Decentralized Federated Learning, ICML 2023, Algorithm 1 (one gossip
step a round). Round t of peer i:

    y <- x_i
    repeat K times:
        g <- gradient of the minibatch's loss at y
        y <- SGD step with the gradient at y + rho g / ||g||
    z_i <- y
    x_i <- sum_l W_il z_l

SAM: Foret et al., Sharpness-Aware Minimization, ICLR 2021. Momentum applies to the SAM gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpeer.training.algorithms.base import Algorithm
from dpeer.training.algorithms.options import from_setting
from dpeer.training.gradients import sam
from dpeer.training.settings import Hyperparameters
from dpeer.training.trainer import Trainer


class DFedSAM(Algorithm):
    """All parameters trained jointly by SAM and all of them shared."""

    name = "dfedsam"
    summary = "the whole model is trained by sharpness-aware (SAM) steps and averaged with the neighbors'"
    paper = "Shi et al.: Improving the Model Consistency of Decentralized Federated Learning, ICML 2023"
    shares = "model"
    leaves = "the whole model"

    @dataclass(frozen=True)
    class Options:
        """See `OptionSettings`."""

        rho: float = from_setting("rho")

    def train(self, peer: Trainer) -> None:
        """K SAM steps on the whole model."""
        h = peer.hyperparameters
        peer.fit(peer.model, epochs=h.body_epochs, lr=h.body_lr, gradient=sam(self.options.rho))

    def gradients(self, h: Hyperparameters) -> float:
        """See `Algorithm.gradients`."""
        return 2 * h.body_epochs
