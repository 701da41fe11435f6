"""What an algorithm is: how a round's local training goes, and what of the model the neighbors get."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from dpeer.training.split import Shares
from dpeer.training.trainer import Trainer


class Algorithm(ABC):
    """One algorithm; the learner releases and mixes whatever it shares.

    Attributes:
        name: What ``--algorithm`` calls it.
        summary: One line about it.
        shares: "model", "body" or "nothing".
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    shares: ClassVar[Shares]

    @abstractmethod
    def train(self, peer: Trainer) -> None:
        """Run the local steps of round ``peer.number``."""
