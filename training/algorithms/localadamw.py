"""LocalAdamW: AdamW locally, with means that start at zero in each round, and averaging.

Liu et al., DP-FedAdamW, Algorithm 2 (DP-LocalAdamW), which is the baseline there; with `--privacy sample` this is it.
Round t of peer i:

    m, v <- 0
    x_i <- x_i - lr (m_hat / (sqrt(v_hat) + 1e-8) + lambda x_i)     K AdamW steps on body and head
    body of x_i <- sum_l W_il bodies of x_l

The paper's line 16 has -lambda x_i in the bracket, with which weights would grow. What the noise of privacy does to v
stays in it, as in the paper. With the same settings this is `fedper --optimizer adamw`, and for a task without a head
`dfedavgm --optimizer adamw`, to the bit; it has its own name and the paper's values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from dpeer.exceptions import ConfigurationError
from dpeer.training.adam import adamw
from dpeer.training.algorithms.fedper import FedPer
from dpeer.training.settings import Hyperparameters
from dpeer.training.trainer import Trainer

VALUES: Mapping[str, Any] = {
    "optimizer": "adamw", "body_lr": 3e-4, "weight_decay": 0.01, "lr_schedule": "cosine", "grad_clip": None,
}  # fmt: skip
"""Section 9.4 and Table 17 of the paper; that gradients are not clipped as a whole is its Algorithm 1."""


class LocalAdamW(FedPer):
    """Body and head trained jointly by AdamW; the body is shared."""

    name = "localadamw"
    summary = "body and head are trained at once by AdamW, which starts anew in each round; the body is averaged"
    paper = "Liu et al.: DP-FedAdamW: An Efficient Optimizer for Differentially Private Federated Large Models"
    defaults: ClassVar[Mapping[str, Any]] = VALUES

    def start(self, peer: Trainer) -> None:
        """Refuse another optimizer."""
        check_optimizer(peer.hyperparameters, self.name)

    def train(self, peer: Trainer) -> None:
        """K AdamW steps on body and head jointly."""
        h = peer.hyperparameters
        step = adamw(h.momentum, h.weight_decay)
        peer.fit(peer.model, epochs=h.body_epochs, lr=h.body_lr, step=step)


def check_optimizer(h: Hyperparameters, algorithm: str) -> None:
    """Refuse an optimizer that an algorithm would not use.

    Raises:
        ConfigurationError: Somebody has asked for one.
    """
    if h.optimizer != "adamw" and "optimizer" in h.model_fields_set:
        raise ConfigurationError(f"--optimizer {h.optimizer}: {algorithm} takes steps of adamw; leave it out")
