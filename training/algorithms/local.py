"""Local training: SGD on the peer's own data; nothing is shared; the baseline of every federation.

w_i <- K SGD steps on the peer's own data
"""

from __future__ import annotations

from collections.abc import Iterator

from dpeer.training.algorithms.base import Algorithm
from dpeer.training.settings import Hyperparameters
from dpeer.training.trainer import Trainer


class Local(Algorithm):
    """All parameters trained jointly, nothing shared."""

    name = "local"
    summary = "every peer trains alone; nothing is shared"
    paper = "(the baseline of all papers)"
    shares = "nothing"
    leaves = "nothing"

    def train(self, peer: Trainer) -> None:
        """Train the whole model with the body's learning rate and epochs, as `dfedavgm` does."""
        with peer.training(peer.model):
            for _ in self.steps(peer):
                pass

    def steps(self, peer: Trainer) -> Iterator[None]:
        """The steps of a round, each made when the iterator is advanced, within `Trainer.training`."""
        h = peer.hyperparameters
        return peer.steps(peer.model, epochs=h.body_epochs, lr=h.body_lr)

    def gradients(self, h: Hyperparameters) -> float:
        """See `Algorithm.gradients`."""
        return h.body_epochs
