"""Local training: SGD on the peer's own data; nothing is shared; the baseline of every federation.

w_i <- K SGD steps on the peer's own data
"""

from __future__ import annotations

from dpeer.training.algorithms.base import Algorithm
from dpeer.training.trainer import Trainer


class Local(Algorithm):
    """All parameters trained jointly, nothing shared."""

    name = "local"
    summary = "every peer trains alone; nothing is shared"
    paper = "(the baseline of all papers)"
    shares = "nothing"

    def train(self, peer: Trainer) -> None:
        """Train the whole model with the body's learning rate and epochs, as `dfedavgm` does."""
        peer.fit(peer.model, epochs=peer.hyperparameters.body_epochs, lr=peer.rates.body)
