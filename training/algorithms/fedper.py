"""FedPer: base layers are averaged, personalization layers stay at home; both are trained at once.

Arivazhagan et al., Federated Learning with Personalization Layers, arXiv:1912.00818 (2019), Algorithms 1 and 2.
Round t of client j:

    (W_B, W_P) <- K SGD steps on base and personalization layers jointly
    W_B        <- average of everyone's W_B

The paper weighs clients by their number of samples; here W is all that weighs.
"""

from __future__ import annotations

from dpeer.training.algorithms.base import Algorithm
from dpeer.training.settings import Hyperparameters
from dpeer.training.trainer import Trainer


class FedPer(Algorithm):
    """Body and head trained jointly; the body is shared."""

    name = "fedper"
    summary = "body and head are trained at once, with the body's learning rate and epochs; the body is averaged"
    paper = "Arivazhagan et al.: Federated Learning with Personalization Layers, arXiv:1912.00818"
    shares = "body"
    leaves = "the body"

    def train(self, peer: Trainer) -> None:
        """K SGD steps on body and head jointly."""
        h = peer.hyperparameters
        peer.fit(peer.model, epochs=h.body_epochs, lr=h.body_lr)

    def gradients(self, h: Hyperparameters) -> float:
        """See `Algorithm.gradients`."""
        return h.body_epochs
