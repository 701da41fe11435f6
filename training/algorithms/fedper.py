"""FedPer, LocalAdamW and FedBABU: base layers are averaged, personalization layers stay at home.

FedPer trains both at once. Arivazhagan et al., Federated Learning with Personalization Layers, arXiv:1912.00818 (2019),
Algorithms 1 and 2. Round t of client j:

    (W_B, W_P) <- K SGD steps on base and personalization layers jointly
    W_B        <- average of everyone's W_B

The paper weighs clients by their number of samples; here W is all that weighs.

With AdamW, whose means start at zero in each round, it is LocalAdamW, the baseline of DP-FedAdamW (Liu et al.,
Algorithm 2), whose line 16 has -lambda x in a bracket with which weights would grow. What the noise of privacy does to
the second moment stays in it, as in the paper.

FedBABU trains and averages only the body. Oh, Kim and Yun, FedBABU: Toward Enhanced Representation for Federated Image
Classification, ICLR 2022, Algorithm 1. The head keeps its start, the same on all. After the last message every client
fine-tunes the whole model on its own data: `--finish all:E`, here 5 epochs unless you say others. The paper does so
with the learning rate of the last round (`--finish all:5,RATE`), `--finish` with a quarter. Until then the head is
random, and so is what the model predicts with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from dpeer.training.algorithms.base import Algorithm
from dpeer.training.trainer import Trainer


class FedPer(Algorithm):
    """Body and head trained jointly; the body is shared."""

    name = "fedper"
    summary = "body and head are trained at once, with the body's learning rate and epochs; the body is averaged"
    paper = "Arivazhagan et al.: Federated Learning with Personalization Layers, arXiv:1912.00818"
    shares = "body"

    def train(self, peer: Trainer) -> None:
        """K SGD steps on body and head jointly."""
        peer.fit(peer.model, epochs=peer.hyperparameters.body_epochs, lr=peer.rates.body)


class LocalAdamW(FedPer):
    """FedPer by AdamW, with the values of DP-FedAdamW's paper."""

    name = "localadamw"
    summary = "body and head are trained at once by AdamW, which starts anew in each round; the body is averaged"
    paper = "Liu et al.: DP-FedAdamW: An Efficient Optimizer for Differentially Private Federated Large Models"
    defaults: ClassVar[Mapping[str, Any]] = {
        "optimizer": "adamw",
        "body_lr": 3e-4,
        "weight_decay": 0.01,
        "lr_schedule": "cosine",
        "grad_clip": None,
    }
    """Section 9.4 and Table 17 of the paper; that gradients are not clipped as a whole is its Algorithm 1."""


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
