"""Progress of an unfinished round: what its calls of `Trainer.fit` have done, so that a resumed round goes on inside.

A round's training is an algorithm's code around calls of `fit`. A resumed round runs that code again, from the state
that the round began with. A call that had ended takes its end from the progress and computes nothing; the one that was
under way goes on after its last whole minibatch. So the code around the calls need not know of it.

The progress of a call is used only where it begins with the bits, and with the hyperparameters, that it began with
then. Otherwise the call, and those after it, are computed.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from dpeer.exceptions import CheckpointError, Interrupted, describe
from dpeer.training.device import host
from dpeer.training.flat import Flat, Phase
from dpeer.training.minibatches import Batch, Minibatches, Position
from dpeer.training.payload import little_endian
from dpeer.training.randomness import GeneratorState, GlobalGenerators
from dpeer.training.sgd import Optimizer, carried, carry_on
from dpeer.training.state.file_names import REST, TENSORS
from dpeer.training.state.store import write_tensors

if TYPE_CHECKING:
    from dpeer.training.trainer import Trainer

_FORMAT = 1

MOST = 16
"""Calls of a round whose progress is kept: each that has ended is a copy of the model in memory."""

Write = Callable[[Path], None]
"""Writes a copy of the progress into an existing, empty folder. Any thread may call it, whatever training does."""

Take = Callable[[Write], None]
"""Called on the thread that trains with a copy of the progress."""


@dataclass(frozen=True)
class _Call:
    """The progress of a call.

    Attributes:
        plan: What the call was, and what it began with; equal where it is called again.
        done: The number of whole minibatches.
        ended: Whether those are all.
        tensors: Copies of what the call has changed, on the host; losses and states of generators.
        plain: What else changes, as JSON values.
    """

    plan: Mapping[str, Any]
    done: int
    ended: bool
    tensors: Mapping[str, Tensor]
    plain: Mapping[str, Any]

    def words(self) -> str:
        """How far the call is, for a message."""
        phase = self.plan["phase"]
        return f"{phase} trained" if self.ended else f"{phase} at minibatch {self.done:,} of {self.plan['steps']:,}"


class UnfinishedRound:
    """The progress of the calls in the present round.

    Args:
        trainer: Whose calls these are.
        generators: The random numbers that the task may draw.

    Attributes:
        kept: Whether it is kept.
        earlier_seconds: Seconds for which earlier processes have trained the round.
    """

    def __init__(self, trainer: Trainer, generators: GlobalGenerators) -> None:
        self._trainer, self._generators = trainer, generators
        self.kept = False
        self.earlier_seconds = self._seconds = 0.0
        self._number = -1
        self._calls: dict[str, _Call] = {}
        # Of an earlier process: that of a round which has not begun, and that of the present one, by the order of the
        # calls; a call that is reached takes its own out.
        self._waiting: _Copy | None = None
        self._left: dict[str, _Call] = {}
        self._name, self._index = "", 0
        self._take: Take | None = None
        self._warn: Callable[[str], None] = lambda message: None

    # From the peer.

    def keep(self) -> None:
        """Keep the progress of rounds from now on."""
        self.kept = True

    def ask(self, take: Take | None) -> None:
        """Hand a copy to `take` when the present minibatch, or the training, is over. Any thread may call this.

        Args:
            take: Gets the copy; it is not called where no call was made. None to ask no more.
        """
        self._take = take

    def copied(self, number: int) -> Write | None:
        """A copy of the progress as it is; None where it is not of round `number`. Nothing trains meanwhile."""
        if self._waiting is not None and number == self._waiting.number:
            return self._waiting.save
        calls = self._calls | self._left
        return (
            _Copy(self._trainer.rank, number, self.earlier_seconds + self._seconds, calls).save
            if calls and (number == self._number)
            else None
        )

    def go_on(self, number: int, directory: Path, warn: Callable[[str], None]) -> str:
        """Have round `number` go on from a copy of its progress.

        Args:
            number: The round, which is trained next, or after the next.
            directory: Where the copy is.
            warn: Gets a sentence if some of it turns out to be of no use.

        Returns:
            How far the round is, in words.

        Raises:
            CheckpointError: The copy cannot be read, or is of another rank or round.
        """
        self._waiting = _read(self._trainer.rank, number, directory)
        self.kept, self._warn = True, warn
        return ", ".join(call.words() for call in self._waiting.calls.values())

    # From the learner.

    def begin(self, number: int) -> None:
        """Begin round `number`; the progress of an earlier one is dropped."""
        self._number, self._calls, self._left = number, {}, {}
        self.earlier_seconds = self._seconds = 0.0
        waiting = self._waiting
        if waiting is not None and waiting.number <= number:
            self._waiting = None
            if waiting.number == number:
                self.earlier_seconds, self._left = waiting.seconds, dict(waiting.calls)

    @contextmanager
    def during(self, name: str) -> Iterator[None]:
        """Context of one of the learner's steps that may call `fit`; a copy that was asked for is made at its end."""
        began, self._name, self._index = time.monotonic(), name, 0
        before = self._seconds
        try:
            yield
        finally:
            if name == "train":
                self._seconds = before + time.monotonic() - began
            self._answer()

    # From the trainer.

    def call(
        self,
        part: Flat,
        phase: Phase,
        epochs: int,
        stepped: Sequence[tuple[Flat, Optimizer]],
        gradient: Any,
        minibatches: Minibatches,
    ) -> Iterator[Batch]:
        """The minibatches that are left of a call of `fit`; those before them have had their effect.

        Args:
            part: What is trained.
            phase: See `Minibatches.of`, as for `epochs`.
            epochs: Passes over the data.
            stepped: The vectors that are stepped, with their optimizers.
            gradient: What steps are made with.
            minibatches: Where the minibatches are from.

        Raises:
            Interrupted: Training was asked to stop; the place is kept.
            TaskError: The data cannot be read or augmented.
        """
        trainer = self._trainer
        key, self._index = f"{self._name} {self._index}", self._index + 1
        changed = _Changed(trainer, stepped, gradient)
        steps, before, more = minibatches.steps(epochs), trainer.figures.gradients, trainer.begin_phase(epochs)
        plan = {"phase": phase, "count": part.count, "steps": steps, **_settings(trainer), "began": changed.digest()}
        call, position, done = self._earlier(key, plan), None, 0
        if call is not None:
            position, done = self._put(call, changed), call.done
            if call.ended:
                minibatches.loss = position.loss
                return

        def note(*, ended: bool = False) -> None:
            if key not in self._calls and len(self._calls) >= MOST:
                return
            position = minibatches.position(done)
            state = self._generators.state()
            self._calls[key] = _Call(
                plan, done, ended,
                {
                    **changed.tensors(), "losses": position.losses,
                    **({} if state is None else {f"generator/{name}": one for name, one in state.tensors.items()}),
                },
                {
                    "sizes": position.sizes, "loss": position.loss, "augmenting": position.augmenting,
                    "generators": None if state is None else state.plain,
                    "gradients": trainer.figures.gradients - before, "budget": trainer.budget.progress(),
                },
            )  # fmt: skip

        try:
            for batch in minibatches.after(position, trainer.number, phase, epochs, more):
                yield batch
                done += 1
                if self._take is not None:
                    note()
                    self._answer()
        except Interrupted:
            note()
            raise
        note(ended=True)

    def _answer(self) -> None:
        """Make the copy that was asked for."""
        take, self._take = self._take, None
        if take is not None and (copied := self.copied(self._number)) is not None:
            take(copied)

    def _earlier(self, key: str, plan: Mapping[str, Any]) -> _Call | None:
        """The progress of a call, if an earlier process has left some that fits."""
        call = self._left.pop(key, None)
        if call is None:
            return None
        if call.plan != plan:
            self._left = {}
            other = next(name for name in plan if call.plan.get(name) != plan[name])
            self._warn(
                f"the progress of the unfinished round {self._number + 1} does not fit from {call.plan['phase']!r} on "
                f"(its {_WORDS.get(other, other)} is another): that is trained from its start"
            )
            return None
        self._calls[key] = call
        return call

    def _put(self, call: _Call, changed: _Changed) -> Position:
        """Give everything the values that it had; returns the place in the minibatches."""
        tensors, plain = call.tensors, call.plain
        changed.put(tensors)
        if plain["generators"] is not None:
            self._generators.put(GeneratorState(_under("generator/", tensors), plain["generators"]))
        self._trainer.computed(plain["gradients"])
        self._trainer.budget.go_on(plain["budget"])
        return Position(call.done, tensors["losses"], tuple(plain["sizes"]), plain["loss"], plain["augmenting"])


_WORDS = {"began": "beginning", "count": "number of parameters", "steps": "number of minibatches"}


def _settings(trainer: Trainer) -> dict[str, Any]:
    """The hyperparameters, as JSON values. More rounds than planned are welcome."""
    return trainer.hyperparameters.model_dump(mode="json", exclude={"rounds"})


class _Changed:
    """Everything that a call of `fit` may change, as it is now.

    That is the trainer's values and buffers, other vectors that are stepped, and what optimizers and gradient carry.
    """

    def __init__(self, trainer: Trainer, stepped: Sequence[tuple[Flat, Optimizer]], gradient: Any) -> None:
        self._trainer = trainer
        own = (trainer.body, trainer.head, trainer.model)
        self._vectors = {"values": trainer.everything} | {
            f"vector/{index}": flat.data
            for index, (flat, _) in enumerate(stepped)
            if not any(flat is one for one in own)
        }
        self._carriers = {f"optimizer/{index}/": optimizer for index, (_, optimizer) in enumerate(stepped)}
        self._carriers["gradient/"] = gradient

    def tensors(self) -> dict[str, Tensor]:
        """Copies by name, on the host."""
        found = dict(self._vectors)
        found |= {f"untrained/{name}": one for name, one in self._trainer.untrained.copies().items()}
        for start, thing in self._carriers.items():
            found |= {start + name: one for name, one in carried(thing).items()}
        return {name: host(one) for name, one in found.items()}

    def digest(self) -> str:
        """SHA-256 (hex) of all of it."""
        found = hashlib.sha256()
        for name, one in sorted(self.tensors().items()):
            found.update(f"{name} {tuple(one.shape)} {one.dtype}".encode())
            found.update(little_endian(one))
        return found.hexdigest()

    def put(self, tensors: Mapping[str, Tensor]) -> None:
        """Give it the values that `tensors` gave.

        Raises:
            KeyError, RuntimeError: They are of another call.
        """
        device = self._trainer.compute.device
        with torch.no_grad():
            for name, vector in self._vectors.items():
                vector.copy_(tensors[name])
            tensors = {name: one.to(device, copy=True) for name, one in tensors.items()}
            self._trainer.untrained.put(_under("untrained/", tensors))
            for start, thing in self._carriers.items():
                carry_on(thing, _under(start, tensors))


def _under(start: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(start): one for name, one in tensors.items() if name.startswith(start)}


@dataclass(frozen=True)
class _Copy:
    """Progress that no thread changes, to be written."""

    rank: int
    number: int
    seconds: float
    calls: Mapping[str, _Call]

    def save(self, directory: Path) -> None:
        """Write them into an existing, empty folder.

        Raises:
            OSError: The folder cannot be written.
        """
        calls: list[dict[str, Any]] = []
        tensors: dict[str, Tensor] = {}
        for index, (key, call) in enumerate(self.calls.items()):
            tensors |= {f"{index}/{name}": one for name, one in call.tensors.items()}
            calls.append({
                "key": key, "plan": call.plan, "done": call.done, "ended": call.ended, "plain": call.plain,
            })  # fmt: skip
        write_tensors(tensors, directory / TENSORS, {})
        described = {
            "format": _FORMAT, "rank": self.rank, "round": self.number, "seconds": self.seconds, "calls": calls,
        }  # fmt: skip
        (directory / REST).write_text(json.dumps(described) + "\n", encoding="utf-8")


def _read(rank: int, number: int, directory: Path) -> _Copy:
    """What `_Copy.save` has left. Ranks may begin a round alike, so it names its own.

    Raises:
        CheckpointError: They cannot be read, or are of another rank or round.
    """
    try:
        described = json.loads((directory / REST).read_text(encoding="utf-8"))
        if (described["format"], described["round"]) != (_FORMAT, number):
            raise ValueError(f"it is of round {described['round'] + 1} in format {described['format']}")
        if described["rank"] != rank:
            raise ValueError(f"it is of rank {described['rank']}")
        tensors = load_file(directory / TENSORS)
        calls = {
            call["key"]: _Call(
                dict(call["plan"]), int(call["done"]), bool(call["ended"]), _under(f"{index}/", tensors),
                dict(call["plain"]),
            )
            for index, call in enumerate(described["calls"])
        }  # fmt: skip
        return _Copy(rank, number, float(described["seconds"]), calls)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise CheckpointError(f"the unfinished round in {directory} cannot be read: {describe(error)}") from error
