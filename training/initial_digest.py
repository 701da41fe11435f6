"""Initial digest: a hash of the body, extras and frozen values outside the head, which peers compare."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from dpeer.exceptions import AlgorithmError
from dpeer.training import payload
from dpeer.training.flat import new_vector
from dpeer.training.split import Split
from dpeer.training.trainer import Trainer


class Beginning:
    """The hash of what is equal on all peers, taken before an algorithm's code has seen the peer's data.

    Args:
        parts: The model's trainable parameters, divided.
        frozen: The frozen values that are compared, by name.
    """

    def __init__(self, parts: Split, frozen: Mapping[str, Tensor]) -> None:
        self._frozen = frozen
        self._body = self._hash([parameter.detach().reshape(-1) for _, parameter in parts.body])

    def _hash(self, body: list[Tensor]) -> str:
        return payload.digest(torch.cat([new_vector(0), *(values.cpu() for values in body)]), self._frozen)

    def digest(self, trainer: Trainer) -> str:
        """SHA-256 (hex) of the bytes of extras and body, and of the frozen values if any."""
        return payload.digest(trainer.shared.data, self._frozen)

    def check(self, trainer: Trainer, algorithm: str) -> None:
        """Refuse an algorithm that has changed any of it before the first round.

        Args:
            trainer: The trainer that it steers.
            algorithm: Its name, for messages.

        Raises:
            AlgorithmError: It has.
        """
        if trainer.extras.data.any() or self._hash([trainer.body.data]) != self._body:
            raise AlgorithmError(
                f"algorithm {algorithm}: its start has changed the body or extras, or frozen values outside the head, "
                "which are to begin equal on all peers and would tell of this peer's data: change them in train"
            )
