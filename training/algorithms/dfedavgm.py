"""DFedAvgM: decentralized federated averaging with momentum.

Sun, Li and Wang, Decentralized Federated Averaging, IEEE TPAMI 2022, Algorithm 1. Round t of peer i:

    y <- x_i
    y <- y - lr g(y) + theta (y - y_previous)    K times, the momentum starting at zero
    z_i <- y
    x_i <- sum_l W_il z_l

With the server's graph, `full` with uniform weights, it is FedAvg (McMahan et al., AISTATS 2017), which weighs clients
by their samples and steps without momentum (`--momentum 0`). It has its own name for comparisons with that form.

Algorithm 2, in which quantized changes travel, is `--compress int8`: see `dpeer.training.codecs.quantized`.
"""

from __future__ import annotations

from dpeer.training.algorithms.base import Algorithm
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
