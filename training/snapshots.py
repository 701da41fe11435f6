"""Snapshots of a learner in memory: copies of model, gossip and algorithm tensors, taken and restored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from torch import Tensor

from dpeer.exceptions import CheckpointError, describe
from dpeer.training.device import CPU, host
from dpeer.training.predictor_values import Predicted
from dpeer.training.store import State
from dpeer.training.trainer import Trainer


class Stateful(Protocol):
    """A part of a learner that keeps tensors of its own between two rounds."""

    def state(self) -> Mapping[str, Tensor]:
        """The tensors, by name."""

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take up the tensors that `state` gave."""


class Snapshots:
    """Makes copies of everything of a learner that changes while it trains.

    Args:
        trainer: The model, as the task made it.
        parts: The other parts that keep tensors, by name.
    """

    def __init__(self, trainer: Trainer, parts: Mapping[str, Stateful]) -> None:
        self._trainer, self._parts = trainer, parts

    def take(self, room: State | None = None) -> State:
        """A copy of the state as it is; in the memory of an earlier one, if that is needed no more."""
        rest = {f"{part}/{name}": t for part, owner in self._parts.items() for name, t in owner.state().items()}
        trainer = self._trainer
        return State.of(trainer.module, trainer.body, trainer.head, trainer.untrained.still, rest, room)

    def put(self, state: State) -> None:
        """Put a copy back.

        Raises:
            CheckpointError: It is of another task or algorithm.
        """
        trainer, device = self._trainer, self._trainer.compute.device
        state.put(trainer.module, trainer.body, trainer.head)
        for part, owner in self._parts.items():
            start = f"{part}/"
            own = {
                name.removeprefix(start): value.to(device, copy=True)
                for name, value in state.rest.items()
                if name.startswith(start)
            }
            try:
                owner.restore(own)
            except (KeyError, ValueError, RuntimeError, TypeError, AttributeError) as error:
                raise CheckpointError(f"the checkpoint's {part} is of another run: {describe(error)}") from error
            if part == "algorithm":
                # What its code has written to the model is not what was saved, and no base for a private release.
                trainer.reattach()
                state.put(trainer.module, trainer.body, trainer.head)

    def of(self, model: Predicted) -> State:
        """A model that predicts, on the host: its own values where they are there, since they never change."""
        shared = self._trainer.body.count
        buffers = {name: host(value) for name, value in (model.untrained or {}).items()}
        values = model.values.to(CPU)
        return State(values[:shared], values[shared:], buffers)

    def predicted(self, state: State) -> Predicted:
        """Undo `of`; what the trainer and the other parts hold is lost.

        Raises:
            CheckpointError: It is of another task or algorithm.
        """
        state.put(self._trainer.module, self._trainer.body, self._trainer.head)
        return Predicted.now(self._trainer)
