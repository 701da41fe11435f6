"""Ditto: a personal model of one's own, pulled towards the shared one.

Li et al., Ditto: Fair and Robust Federated Learning Through Personalization, ICML 2021, Algorithm 1. Round t of client
k, with w the model as it came from the last mixing:

    w_k <- SGD steps on the shared model, from w
    v_k <- v_k - lr (g(v_k) + lambda (v_k - w))     as often, on the personal model, which predicts
    w   <- average of everyone's w_k
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from dpeer.training.algorithms.base import Algorithm
from dpeer.training.algorithms.options import option
from dpeer.training.gradients import proximal
from dpeer.training.settings import Hyperparameters
from dpeer.training.trainer import Trainer


class Ditto(Algorithm):
    """The whole model is trained and shared; a second one is trained beside it and stays at home."""

    name = "ditto"
    summary = "the whole model is averaged; a personal model, pulled towards it by lambda, stays at home and predicts"
    paper = "Li et al.: Ditto: Fair and Robust Federated Learning Through Personalization, ICML 2021"
    shares = "model"
    leaves = "its shared model"

    @dataclass(frozen=True)
    class Options:
        """How far the personal model may go."""

        ditto_lambda: float = option(0.75, "pull of the shared model on the personal one", ge=0)

    def start(self, peer: Trainer) -> None:
        """Make the personal model, which starts as a copy of the shared one."""
        self.state["personal"] = peer.model.data.clone()

    def train(self, peer: Trainer) -> None:
        """SGD steps on the shared model, then proximal steps on the personal one."""
        h, part, personal = peer.hyperparameters, peer.model, self.state["personal"]
        received = part.data.clone()
        peer.fit(part, epochs=h.body_epochs, lr=peer.rates.body)
        pulled = proximal(self.options.ditto_lambda, received)
        with peer.holding(personal):
            peer.fit(part, epochs=h.body_epochs, lr=peer.rates.body, gradient=pulled, phase="personal")
            personal.copy_(part.data)

    def predictor(self, peer: Trainer) -> Tensor | None:
        """The personal model."""
        return self.state["personal"]

    def gradients(self, h: Hyperparameters) -> float:
        """See `Algorithm.gradients`."""
        return 2 * h.body_epochs
