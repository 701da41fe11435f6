"""Copies of a learner's values in memory: module buffers, the model that predicts, and whole snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

import torch
from torch import Tensor, nn

from dpeer.exceptions import CheckpointError, describe
from dpeer.training.device import CPU, host
from dpeer.training.flat import Flat
from dpeer.training.state.store import State, frozen, mark

if TYPE_CHECKING:
    from dpeer.training.trainer import Trainer


class ModuleBuffers:
    """A model's buffers, and those of its frozen parameters that its code has changed (a teacher's average, ...).

    Args:
        module: The model, as the task made it.
        body: The trained parameters that are shared.
        head: The trained parameters that stay on the peer.

    Attributes:
        still: The marks that the frozen parameters had in the beginning, by name.
    """

    def __init__(self, module: nn.Module, body: Flat, head: Flat) -> None:
        self._module, self._frozen = module, frozen(module, body, head)
        self.still = {name: mark(parameter) for name, parameter in self._frozen.items()}

    def copies(self) -> dict[str, Tensor]:
        """Copies of the buffers and changed parameters as they are now, by name, on their device."""
        named = dict(self._module.named_buffers()) | self._changed()
        return {name: tensor.detach().clone() for name, tensor in named.items()}

    def put(self, values: Mapping[str, Tensor]) -> None:
        """Give the buffers and parameters the values of such copies."""
        named = self._frozen | dict(self._module.named_buffers())
        for name, value in values.items():
            _write(named[name], value)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Context in which buffers and parameters may change; afterwards they are as they were."""
        owned = [
            (module, name, buffer, buffer.detach().clone())
            for module in self._module.modules()
            for name, buffer in module._buffers.items()  # named_buffers takes eight times as long, for each SAM step
            if buffer is not None
        ]
        changed = [(parameter, parameter.detach().clone()) for parameter in self._changed().values()]
        try:
            yield
        finally:
            for module, name, buffer, value in owned:
                _write(buffer, value)
                if getattr(module, name) is not buffer:  # the model's code has put another tensor there
                    setattr(module, name, buffer)
            for parameter, value in changed:
                _write(parameter, value)

    def _changed(self) -> dict[str, Tensor]:
        return {name: parameter for name, parameter in self._frozen.items() if mark(parameter) != self.still[name]}


def _write(tensor: Tensor, value: Tensor) -> None:
    """Write values only where they differ: constants may be in memory that cannot be written (expanded tensors)."""
    with torch.no_grad():
        if not torch.equal(tensor, value):
            tensor.copy_(value)


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
