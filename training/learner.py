"""The learner: model, data and algorithm of one peer, behind the methods that the round loop calls."""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dpeer.exceptions import CheckpointError, TaskError
from dpeer.training import payload, store
from dpeer.training.algorithms import find_algorithm
from dpeer.training.batches import Batches
from dpeer.training.evaluation import Evaluation, evaluate, mean_loss
from dpeer.training.hyperparameters import Hyperparameters
from dpeer.training.metrics import classification_metrics
from dpeer.training.payload import Payload
from dpeer.training.randomness import GlobalGenerators, Purpose
from dpeer.training.split import split
from dpeer.training.store import State
from dpeer.training.task import Task
from dpeer.training.trainer import Trainer

_FORMAT = 1

_claimed: weakref.WeakSet[nn.Module] = weakref.WeakSet()


class Learner:
    """Trains, releases, mixes and evaluates one peer's model; implements `dpeer.peer`'s protocol of that name.

    All methods but `interrupt` are called from one thread at a time, in the round loop's order: train, release,
    evaluate, mix, evaluate, save. The task's model becomes the learner's own.

    Args:
        task: The model and the data, as a task factory returned them.
        algorithm: Its name, one of `ALGORITHMS`.
        hyperparameters: The numbers that steer training.
        rank: This peer.
        seed: The federation's seed, not negative; equal on all peers.
        keep: Which model `write_model` writes: the "last", or the "best" by the loss on the task's validation data
            among those that were evaluated after mixing.

    Attributes:
        best_round: The round of the best model so far; None without ``keep="best"`` or before the first.

    Raises:
        UnknownName: No such algorithm.
        TaskError: The model cannot be trained by it, or ``keep="best"`` without validation data.
    """

    def __init__(
        self,
        task: Task,
        algorithm: str,
        hyperparameters: Hyperparameters | None = None,
        *,
        rank: int,
        seed: int,
        keep: Literal["last", "best"] = "last",
    ) -> None:
        if keep == "best" and task.validation is None:
            raise TaskError("--keep best needs validation data: give the task `validation=`, or use --keep last")
        self._algorithm = find_algorithm(algorithm)
        _claim(task.model)
        parts = split(task.model, task.head, self._algorithm.shares, algorithm)
        self._trainer = Trainer(task, parts, hyperparameters or Hyperparameters(), rank=rank, seed=seed)
        self._generators = GlobalGenerators(seed, rank)
        self._rank, self._seed = rank, seed
        self._model = task.model
        self._loss, self._metrics = task.loss or cross_entropy, task.metrics or classification_metrics
        self._test = Batches("test", task.test, task.collate)
        self._validation = Batches("validation", task.validation, task.collate) if keep == "best" else None
        untouched = store.frozen(self._model, self._trainer.body, self._trainer.head)
        self._still = {name: store.mark(parameter) for name, parameter in untouched.items()}
        self._digest = payload.digest(self._trainer.body.data)
        self._released: Tensor | None = None
        self._mixed = False
        self._best: State | None = None
        self._best_loss = math.inf
        self.best_round: int | None = None

    # What the handshake and the logs need.

    @property
    def manifest(self) -> dict[str, Any]:
        """What a payload holds: ``{"dtype", "count", "parameters": [{"name", "shape", "offset"}, ...]}``."""
        return self._trainer.body.manifest

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the initial body's bytes."""
        return self._digest

    @property
    def payload_bytes(self) -> int:
        """The bytes of one payload."""
        return 4 * self._trainer.body.count

    @property
    def shares(self) -> bool:
        """Whether anything leaves the peer at all."""
        return self._algorithm.shares != "nothing"

    @property
    def body_parameters(self) -> int:
        """How many trained parameters neighbors get."""
        return self._trainer.body.count

    @property
    def head_parameters(self) -> int:
        """How many trained parameters stay at home."""
        return self._trainer.head.count

    @property
    def num_samples(self) -> int:
        """How many training samples this peer has."""
        return self._trainer.num_samples

    @property
    def body(self) -> Tensor:
        """A copy of the body as it is now, shape (body_parameters,), for consensus distances."""
        return self._trainer.body.data.clone()

    # The round loop's steps, in its order.

    def train(self, number: int) -> float | None:
        """Run round `number`'s local steps.

        Returns:
            The sample-weighted mean of the minibatch losses of the last local epoch, not finite when training has
            diverged; None when nothing was trained.

        Raises:
            Interrupted: `interrupt` was called; the model is as after the last whole minibatch.
            TaskError: The task's model, loss or data raised.
        """
        self._trainer.number, self._trainer.loss = number, None
        self._released, self._mixed = None, False
        with self._generators.kept(Purpose.TRAIN, number):
            self._algorithm.train(self._trainer)
        return self._trainer.loss

    def release(self, number: int) -> Payload | None:
        """This round's body, for every neighbor and for the own part of the sum; None where nothing is shared.

        Returns:
            One read-only buffer of little-endian float32 that never changes again.
        """
        if not self.shares:
            return None
        self._released = self._trainer.body.data.clone()
        return [payload.encode(self._released)]

    def evaluate(self) -> Evaluation:
        """Evaluate the model as it is now on this peer's test data.

        With ``keep="best"``, a model that a round ended with (after mixing) is also measured on the validation
        data, and kept if it is the best so far.

        Raises:
            TaskError: The task's model, loss, metrics or data raised.
        """
        with self._generators.kept(Purpose.EVALUATE, self._trainer.number):
            found = evaluate(self._model, self._test, self._loss, self._metrics)
            self._trainer.reattach()
            if self._validation is not None and (self._mixed or not self.shares):
                loss = mean_loss(self._model, self._validation, self._loss)
                self._trainer.reattach()
                self._keep_if_best(loss)
        return found

    def _keep_if_best(self, loss: float) -> None:
        if loss < self._best_loss:
            self._best_loss, self.best_round = loss, self._trainer.number
            self._best = self._state()

    def check(self, received: Payload) -> str | None:
        """Why a received payload must not be mixed ("wrong-size", "not-finite"), or None; never raises."""
        return payload.why_not(received, self._trainer.body.count)

    def mix(self, received: Mapping[int, Payload], row: Mapping[int, float]) -> None:
        """Body <- sum over ranks j, in rank order, of row[j] * z_j, the own z being what was released.

        Args:
            received: Payloads by rank, each of which `check` let pass; without the own.
            row: Weights for exactly the ranks in `received` and the own.

        Raises:
            ValueError: The ranks or sizes do not fit.
        """
        if row.keys() != received.keys() | {self._rank}:
            raise ValueError(f"weights are for ranks {sorted(row)}, bodies from {sorted(received)} and own")
        body = self._trainer.body.data
        own = body.clone() if self._released is None else self._released
        with torch.no_grad():
            body.zero_()
            # One order for all, for floating point addition does not commute to the bit.
            for rank in sorted(row):
                if rank == self._rank:
                    body.add_(own, alpha=row[rank])
                else:
                    payload.add_weighted(body, received[rank], row[rank])
        self._released, self._mixed = None, True

    def interrupt(self) -> None:
        """Ask `train` to stop after the current minibatch, now and in every later call. Any thread may call this."""
        self._trainer.interrupt()

    # Files.

    def _state(self) -> State:
        return State.of(self._model, self._trainer.body, self._trainer.head, self._still)

    def _put(self, state: State) -> None:
        state.put(self._model, self._trainer.body, self._trainer.head)

    @property
    def _identity(self) -> dict[str, Any]:
        return {
            "format": _FORMAT,
            "algorithm": self._algorithm.name,
            "rank": self._rank,
            "seed": self._seed,
            "body": self._trainer.body.manifest,
            "head": self._trainer.head.manifest,
        }

    def save(self, directory: Path) -> None:
        """Write everything that a resumed run needs, into an existing, empty folder.

        Raises:
            OSError: The folder cannot be written.
        """
        states = {"last": self._state()} | ({"best": self._best} if self._best is not None else {})
        rest = {"round": self._trainer.number, "best_round": self.best_round}
        best = {"best_loss": self._best_loss if self._best is not None else None}
        store.save(directory, states, self._identity | rest | best)

    def load(self, directory: Path) -> None:
        """Take up the state that `save` left in the folder; the learner is as it was then, to the bit.

        Raises:
            CheckpointError: The files are missing, damaged, or of another run, task or algorithm.
        """
        states, rest = store.load(directory, self._identity)
        try:
            number, best_round = int(rest["round"]), rest["best_round"]
            last, best = states["last"], states.get("best")
            best_loss = math.inf if best is None else float(rest["best_loss"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"the checkpoint in {directory} is damaged: {error!r}") from error
        self._put(last)
        self._trainer.number = number
        self._best, self._best_loss, self.best_round = best, best_loss, best_round
        # A checkpoint is of the end of a round.
        self._released, self._mixed = None, True

    def write_model(self, path: Path) -> None:
        """Write the model that predicts to a safetensors file, under the model's own state names.

        With ``keep="best"`` that is the best one so far; the model that trains on stays as it is.

        Raises:
            OSError: The file cannot be written.
        """
        if self._best is None:
            store.write_model(self._model, path)
            return
        current = self._state()
        self._put(self._best)
        try:
            store.write_model(self._model, path)
        finally:
            self._put(current)


def _claim(model: nn.Module) -> None:
    """Refuse a model that another learner of this process trains already, in whole or in part."""
    for name, module in model.named_modules():
        if module in _claimed:
            part = f"a part ({name!r}) that" if name else "one that"
            raise TaskError(
                f"the task's model is or has {part} another peer of this process trains already: "
                "build a new model in every call of the factory"
            )
    _claimed.update(model.modules())
