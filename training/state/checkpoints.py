"""Checkpoints of a learner: a flat dictionary of named tensors, and JSON values by which a resumed run is checked."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from dpeer.exceptions import CheckpointError
from dpeer.privacy import Session
from dpeer.training.algorithms import Algorithm, shared_options
from dpeer.training.algorithms.plugins import check_state
from dpeer.training.codecs import identity
from dpeer.training.device import CPU, host
from dpeer.training.setting_texts import ends_with_the_run
from dpeer.training.state.file_names import BEST, LAST, REST, TENSORS
from dpeer.training.state.kept_model import POINTS, ModelSelection
from dpeer.training.state.store import load_state, write_tensors
from dpeer.training.trainer import Trainer

_FORMAT = 2

_KEPT = 64 * 2**20
"""Bytes of a copy whose memory the next one takes; new memory for a longer one costs little beside a round."""

_OPTIONAL = ("finish", "sampled")
"""The parts that keep nothing at first."""


class Stateful(Protocol):
    """A part of a learner that keeps tensors between two rounds.

    Attributes:
        state: The tensors by name.
    """

    state: dict[str, Tensor]


@dataclass(eq=False)
class Checkpoints:
    """A learner's checkpoints.

    Attributes:
        room: The last copy, whose memory the next one takes.
    """

    algorithm: Algorithm
    trainer: Trainer
    parts: Mapping[str, Stateful]
    selection: ModelSelection
    session: Session | None
    room: Mapping[str, Tensor] = field(default_factory=dict, init=False)

    @property
    def _identity(self) -> dict[str, Any]:
        """The values that must be equal when a run is resumed, in the order in which differences are named."""
        trainer, h = self.trainer, self.trainer.hyperparameters
        ends = ends_with_the_run(h.lr_schedule)
        return {
            "format": _FORMAT,
            "algorithm": self.algorithm.name,
            "rank": trainer.rank,
            "seed": trainer.seed,
            "body": trainer.shared.manifest,
            "head": trainer.head.manifest,
            **identity(h.compress),
            "lr_schedule": h.lr_schedule,
            "finish": h.finish,
            **({"number of rounds, with which the cosine schedule ends,": h.rounds} if ends else {}),
            **({} if trainer.mask is None else {"number of rounds, by which masks settle,": h.rounds}),
            **{f"option {name}": value for name, value in shared_options(self.algorithm.options).items()},
        }

    def take(self) -> Callable[[Path], None]:
        """Copy everything that a resumed run needs. The memory of the copy before is used again.

        Returns:
            Writes the copy into an existing folder; any thread may call it.
        """
        trainer, best = self.trainer, self.selection.best
        check_state(self.algorithm)
        rest = {f"rest/{part}/{name}": t for part, owner in self.parts.items() for name, t in owner.state.items()}
        named = {LAST + name: tensor for name, tensor in (trainer.state() | rest).items()}
        tensors = {name: _copied(tensor, self.room.get(name)) for name, tensor in named.items()}
        # Of a large model the copy's memory is not kept for the next one: once it is written, training has the room.
        self.room = tensors if trainer.everything.nbytes <= _KEPT else {}
        if best is not None:  # it never changes
            tensors = tensors | {BEST + name: value.to(CPU) for name, value in best.items()}
        values = json.dumps(self._identity | self._values) + "\n"

        def save(directory: Path) -> None:
            write_tensors(tensors, directory / TENSORS, {})
            (directory / REST).write_text(values, encoding="utf-8")

        return save

    @property
    def _values(self) -> dict[str, Any]:
        """How far the run is."""
        selection = self.selection
        found: dict[str, Any] = {
            "round": self.trainer.number,
            "best_round": selection.best_round,
            "best_point": selection.best_point,
            "best_loss": None if selection.best is None else selection.best_loss,
        }
        if self.session is None:
            return found | {"releases": None}
        ledger = self.session.ledger
        return found | {"releases": ledger.releases, "steps": ledger.steps}

    def load(self, directory: Path) -> None:
        """Take up the state that `save` left in the folder.

        Raises:
            CheckpointError: The files are missing, damaged, or of another run, task or algorithm.
        """
        tensors, rest = load_state(directory, self._identity)
        last, best = _under(LAST, tensors), _under(BEST, tensors)
        try:
            number, best_round = int(rest["round"]), rest["best_round"]
            best_loss = float(rest["best_loss"]) if best else math.inf
            _ = last["body"], last["head"]
            if (point := rest["best_point"]) not in (None, *POINTS):
                raise ValueError(f"best_point is {point!r}")
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"the checkpoint in {directory} is damaged: {error!r}") from error
        self.trainer.check({name: value for name, value in last.items() if not name.startswith("rest/")})
        if best:
            self.trainer.check(best)
        self.trainer.put(last)
        for part, owner in self.parts.items():
            self._restore(part, owner, _under(f"rest/{part}/", last))
        self.trainer.number = number
        device = self.trainer.compute.device
        self.selection.best = {name: value.to(device) for name, value in best.items()} or None
        self.selection.best_loss, self.selection.best_round = best_loss, best_round
        self.selection.best_point = point

    def _restore(self, part: str, owner: Stateful, saved: Mapping[str, Tensor]) -> None:
        """Give a part its tensors: those that it has take the values, and what it does not have yet is added.

        Raises:
            CheckpointError: They are of another part.
        """
        if part in _OPTIONAL:
            owner.state.clear()
        for name, tensor in owner.state.items():
            found = saved.get(name)
            if found is None or (found.shape, found.dtype) != (tensor.shape, tensor.dtype):
                is_ = "missing" if found is None else f"of shape {tuple(found.shape)} and not {tuple(tensor.shape)}"
                raise CheckpointError(f"the checkpoint's {part} is of another run: {name!r} is {is_}")
        with torch.no_grad():
            for name, value in saved.items():
                if name in owner.state:
                    owner.state[name].copy_(value)
                else:
                    owner.state[name] = value.to(self.trainer.compute.device, copy=True)


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _copied(tensor: Tensor, room: Tensor | None) -> Tensor:
    """A copy on the host, in `room` if that is like it: fresh memory takes several times as long as the copy."""
    if room is None or (room.shape, room.dtype) != (tensor.shape, tensor.dtype):
        return host(tensor)
    with torch.no_grad():
        return room.copy_(tensor)
