"""FedBABU: only the body is trained and averaged; the head keeps its start and is fine-tuned at the end.

Oh, Kim and Yun, FedBABU: Toward Enhanced Representation for Federated Image Classification, ICLR 2022, Algorithm 1.
Round t of client k, whose head stays as it was initialised, the same on all:

    theta_k <- SGD steps on the body
    theta   <- average of everyone's theta_k

After the last message every client fine-tunes the whole model for `finetune_epochs` on its own data, with the body's
learning rate as it is in the last round. Until then the head is random, and so is what the model predicts with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from dpeer.training.algorithms.base import Algorithm
from dpeer.training.algorithms.options import from_setting
from dpeer.training.settings import Hyperparameters
from dpeer.training.state.snapshots import Predicted
from dpeer.training.trainer import Trainer


class FedBABU(Algorithm):
    """The body is trained and shared; in the end the whole model is fine-tuned.

    The fine-tuned model is kept beside body, head and buffers, so that a run that is continued with more rounds goes on
    from what was shared.
    """

    name = "fedbabu"
    summary = "only the body is trained and averaged; after the last round each peer fine-tunes the whole model"
    paper = "Oh, Kim, Yun: FedBABU: Toward Enhanced Representation for Federated Image Classification, ICLR 2022"
    shares = "body"
    leaves = "the body"

    @dataclass(frozen=True)
    class Options:
        """See `OptionSettings`."""

        finetune_epochs: int = from_setting("finetune_epochs")

    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        self._tuned: Predicted | None = None

    def start(self, peer: Trainer) -> None:
        """Only note the model's size."""
        self._count = peer.model.count

    def train(self, peer: Trainer) -> None:
        """Body steps with the head as it was initialised."""
        h = peer.hyperparameters
        self._forget()
        peer.fit(peer.body, epochs=h.body_epochs, lr=h.body_lr)

    def sit_out(self) -> None:
        """Forget a fine-tuned model: it is of an earlier end of the run."""
        self._forget()

    def _forget(self) -> None:
        self._tuned = None

    def finish(self, peer: Trainer) -> None:
        """Fine-tune a copy of the whole model."""
        h = peer.hyperparameters
        with peer.holding(peer.model.data.clone(), peer.untrained.copies()):
            peer.fit(peer.model, epochs=self.options.finetune_epochs, lr=h.body_lr, phase="finetune")
            self._tuned = Predicted.now(peer)

    def predictor(self, peer: Trainer) -> Tensor | None:
        """The fine-tuned parameters, after the fine-tuning."""
        return None if self._tuned is None else self._tuned.values

    def untrained(self) -> Mapping[str, Tensor] | None:
        """The buffers of the fine-tuned model, after the fine-tuning."""
        return None if self._tuned is None else self._tuned.untrained

    def state(self) -> Mapping[str, Tensor]:
        """See `Algorithm.state`."""
        return {} if self._tuned is None else self._tuned.state()

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """See `Algorithm.restore`."""
        self._tuned = Predicted.from_state(state, self._count)

    def gradients(self, h: Hyperparameters) -> float:
        """See `Algorithm.gradients`; the fine-tuning in the end is not of a round."""
        return h.body_epochs
