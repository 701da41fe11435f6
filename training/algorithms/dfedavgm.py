"""DFedAvgM and DFedSAM, which train and share the whole model, their servers' forms, and local training.

DFedAvgM: Sun, Li and Wang, Decentralized Federated Averaging, IEEE TPAMI 2022, Algorithm 1. Round t of peer i:

    y <- x_i
    y <- y - lr g(y) + theta (y - y_previous)    K times, the momentum starting at zero
    z_i <- y
    x_i <- sum_l W_il z_l

With the server's graph, `full` with uniform weights, it is FedAvg (McMahan et al., AISTATS 2017), which weighs clients
by their samples and steps without momentum (`--momentum 0`). It has its own name for comparisons with that form.
Algorithm 2, in which quantized changes travel, is `--compress int8`: see `dpeer.training.codecs.quantized`.

DFedSAM: Shi et al., Improving the Model Consistency of Decentralized Federated Learning, ICML 2023, Algorithm 1 (one
gossip step a round). In place of the second line, with momentum of the SAM gradient (Foret et al., Sharpness-Aware
Minimization, ICLR 2021):

    repeat K times:
        g <- gradient of the minibatch's loss at y
        y <- SGD step with the gradient at y + rho g / ||g||

With the server's graph it is FedSAM (Qu et al., ICML 2022), which steps without momentum.
"""

from __future__ import annotations

from dpeer.training.algorithms.base import Algorithm
from dpeer.training.gradients import sam
from dpeer.training.settings import Hyperparameters
from dpeer.training.trainer import Trainer


class DFedAvgM(Algorithm):
    """All parameters trained jointly and all of them shared, the task's head included."""

    name = "dfedavgm"
    summary = "the whole model is trained by momentum SGD and averaged with the neighbors'"
    paper = "Sun, Li, Wang: Decentralized Federated Averaging, TPAMI 2022"
    shares = "model"

    def train(self, peer: Trainer) -> None:
        """K momentum SGD steps on the whole model."""
        h = peer.hyperparameters
        peer.fit(peer.model, epochs=h.body_epochs, lr=peer.rates.body)


class FedAvg(DFedAvgM):
    """DFedAvgM by its server's name."""

    name = "fedavg"
    summary = "the whole model is trained by SGD and averaged; --topology full --weights uniform is the server's form"
    paper = "McMahan et al.: Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017"


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


class Local(Algorithm):
    """All parameters trained jointly, nothing shared."""

    name = "local"
    summary = "every peer trains alone; nothing is shared"
    paper = "(the baseline of all papers)"
    shares = "nothing"

    def train(self, peer: Trainer) -> None:
        """Train the whole model with the body's learning rate and epochs, as `dfedavgm` does."""
        peer.fit(peer.model, epochs=peer.hyperparameters.body_epochs, lr=peer.rates.body)
