"""What an algorithm is: how a round's local training goes, and what of the model the neighbors get."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from dpeer.training.codecs import Codec
from dpeer.training.hyperparameters import Hyperparameters
from dpeer.training.split import Shares
from dpeer.training.trainer import Trainer


class Algorithm(ABC):
    """One peer's algorithm; the learner releases and mixes whatever it shares.

    Attributes:
        name: What ``--algorithm`` calls it.
        summary: One line about it.
        paper: Where it is from.
        shares: "model", "body" or "nothing".
        leaves: What of it leaves the peer, in words.
        defaults: Hyperparameters of its own, where nobody says otherwise.
        options: Hyperparameters that matter to it, but not to all algorithms.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str]
    shares: ClassVar[Shares]
    leaves: ClassVar[str]
    defaults: ClassVar[Mapping[str, Any]] = {}
    options: ClassVar[tuple[str, ...]] = ()

    def start(self, peer: Trainer) -> None:  # noqa: B027 - most have nothing to prepare
        """Prepare for the first round; called once, with the model as the task made it.

        Raises:
            TaskError: The task's model or data do not suit the algorithm.
        """

    @abstractmethod
    def train(self, peer: Trainer) -> None:
        """Run the local steps of round ``peer.number``."""

    def sit_out(self) -> None:  # noqa: B027
        """A round goes by without the peer."""

    def finish(self, peer: Trainer) -> None:  # noqa: B027
        """Do what is left to do after the last round's mixing; ``peer.number`` is that round."""

    def predictor(self, peer: Trainer) -> Tensor | None:
        """The parameters of the model that predicts, shape (peer.model.count,); None where they are those trained."""
        return None

    def untrained(self) -> Mapping[str, Tensor] | None:
        """What `Untrained.copies` gave of the model that predicts; None where its buffers are those trained with."""
        return None

    def at_home(self, peer: Trainer) -> int:
        """How many trained parameters stay on the peer."""
        return peer.head.count

    def codec(self, peer: Trainer) -> Codec | None:
        """A way of its own to send bodies; None for the common ones."""
        return None

    def state(self) -> Mapping[str, Tensor]:
        """What a resumed run needs besides body and head, between two rounds; by name."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:  # noqa: B027
        """Take up what `state` gave.

        Raises:
            KeyError, ValueError, RuntimeError: It is not of such an algorithm.
        """

    def plan(self, peer: Trainer) -> Mapping[str, Any]:
        """What a run must not change when it is resumed, besides what no run may; plain JSON values."""
        return {}

    @staticmethod
    @abstractmethod
    def gradients(h: Hyperparameters) -> float:
        """How many gradients of the loss are computed for a sample in a round of whole epochs."""
