"""FedBABU: only the body is trained and averaged; the head keeps its start and is fine-tuned at the end.

Oh, Kim and Yun, FedBABU: Toward Enhanced Representation for Federated Image Classification, ICLR 2022, Algorithm 1.
Round t of client k, whose head stays as it was initialised, the same on all:

    theta_k <- SGD steps on the body
    theta   <- average of everyone's theta_k

After the last message every client fine-tunes the whole model on its own data: `--finish all:E`, here 5 epochs unless
you say others. The paper does so with the learning rate of the last round (`--finish all:5,RATE`), `--finish` with a
quarter. Until then the head is random, and so is what the model predicts with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from dpeer.training.algorithms.base import Algorithm
from dpeer.training.trainer import Trainer


class FedBABU(Algorithm):
    """The body is trained and shared; --finish trains the whole model in the end."""

    name = "fedbabu"
    summary = "only the body is trained and averaged; after the last round --finish trains the whole model"
    paper = "Oh, Kim, Yun: FedBABU: Toward Enhanced Representation for Federated Image Classification, ICLR 2022"
    shares = "body"
    defaults: ClassVar[Mapping[str, Any]] = {"finish": "all:5"}

    def train(self, peer: Trainer) -> None:
        """Body steps with the head as it was initialised."""
        peer.fit(peer.body, epochs=peer.hyperparameters.body_epochs, lr=peer.rates.body)
