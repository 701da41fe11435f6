"""Values of a peer's predicting model (fine-tuned, personal or best): copies of its parameters and buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from torch import Tensor

from dpeer.training.trainer import Trainer

_VALUES, _BESIDE = "tuned", "untrained/"


@dataclass(frozen=True)
class Predicted:
    """Copies of what a model predicts with, on its device.

    Attributes:
        values: The trained parameters, shape (model.count,).
        untrained: The buffers, and frozen parameters that have changed, by name; None for those that the model has.
    """

    values: Tensor
    untrained: Mapping[str, Tensor] | None

    @classmethod
    def now(cls, peer: Trainer) -> Self:
        """The values of the trainer's model at this moment."""
        return cls(peer.model.data.clone(), peer.untrained.copies())

    def state(self) -> dict[str, Tensor]:
        """The values as named tensors, for a checkpoint."""
        return {_VALUES: self.values} | {_BESIDE + name: value for name, value in (self.untrained or {}).items()}

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor], count: int) -> Self | None:
        """Undo `state`; None where there was nothing.

        Args:
            state: The named tensors.
            count: How many parameters the model has.

        Raises:
            ValueError: They are of another model.
        """
        values = state.get(_VALUES)
        if values is None:
            return None
        if values.shape != (count,):
            raise ValueError(f"a model of {values.numel()} parameters")
        beside = {name.removeprefix(_BESIDE): value for name, value in state.items() if name.startswith(_BESIDE)}
        return cls(values, beside or None)
