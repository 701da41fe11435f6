"""Saving a learner between two rounds, and loading it again if run, task and algorithm are the same."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from dpeer.exceptions import CheckpointError
from dpeer.privacy import ClientSession, SampleSession, Session
from dpeer.training.algorithms import Algorithm, shared_options
from dpeer.training.algorithms.base import facts_of
from dpeer.training.codecs import identity
from dpeer.training.schedules import ends_with_the_run
from dpeer.training.selection import POINTS, ModelSelection, Point
from dpeer.training.state import store
from dpeer.training.state.snapshots import Snapshots
from dpeer.training.state.store import Copied, State
from dpeer.training.trainer import Trainer

_FORMAT = 1

_KEPT = 64 * 2**20
"""Bytes of a copy whose memory the next one takes; new memory for a longer one costs little beside a round."""


class Checkpoints:
    """A learner's checkpoints.

    Args:
        algorithm: The peer's algorithm.
        trainer: The trainer that the algorithm steers.
        snapshots: Copies of all that changes.
        selection: Knows which model is the best so far.
        session: The peer's privacy; None where nothing is recorded.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        trainer: Trainer,
        snapshots: Snapshots,
        selection: ModelSelection,
        session: Session | None,
    ) -> None:
        self._algorithm, self._trainer, self._snapshots = algorithm, trainer, snapshots
        self._name = facts_of(type(algorithm)).name
        self._selection = selection
        self._client = session if isinstance(session, ClientSession) else None
        self._sample = session if isinstance(session, SampleSession) else None
        self.saved: State | None = None

    @property
    def _options(self) -> dict[str, Any]:
        return {f"option {name}": value for name, value in shared_options(self._algorithm.options).items()}

    @property
    def _identity(self) -> dict[str, Any]:
        """The values that must be equal when a run is resumed, in the order in which differences are named."""
        trainer, h = self._trainer, self._trainer.hyperparameters
        ending = {"number of rounds, with which the cosine schedule ends,": h.rounds}
        return {
            "format": _FORMAT,
            "algorithm": self._name,
            "rank": trainer.rank,
            "seed": trainer.seed,
            "body": trainer.shared.manifest,
            "head": trainer.head.manifest,
            **identity(h.compress),
            "lr_schedule": h.lr_schedule,
            **(ending if ends_with_the_run(h.lr_schedule) else {}),
            **self._options,
            **self._algorithm.plan(trainer),
        }

    def take(self) -> Copied:
        """Copy everything that a resumed run needs: tensors, and plain JSON values. An earlier copy is overwritten."""
        best = self._selection.best
        last = self._snapshots.take(self.saved)
        # Of a large model the copy's memory is not kept for the next one: once it is written, training has the room.
        self.saved = last if self._trainer.everything.nbytes <= _KEPT else None
        states = {"last": last} | ({} if best is None else {"best": self._snapshots.of(best)})
        rest: dict[str, Any] = {"round": self._trainer.number, "best_round": self._selection.best_round}
        rest |= {"best_point": self._selection.best_point, "finish": self._trainer.hyperparameters.finish}
        rest |= {"best_loss": self._selection.best_loss if best is not None else None}
        if self._sample is not None:
            rest |= {"releases": 0, "steps": self._sample.ledger.steps}
        else:
            rest |= {"releases": None if self._client is None else self._client.ledger.releases}
        return Copied(states, self._identity | rest)

    def load(self, directory: Path) -> None:
        """Take up the state that `save` left in the folder.

        Raises:
            CheckpointError: The files are missing, damaged, or of another run, task or algorithm.
        """
        states, rest = store.load(directory, self._identity)
        try:
            number, best_round = int(rest["round"]), rest["best_round"]
            last, best = states["last"], states.get("best")
            best_loss = math.inf if best is None else float(rest["best_loss"])
            charged = int(rest["releases"] or 0)
            steps = rest.get("steps")
            taken = None if steps is None else int(steps)
            point = _point(rest["best_point"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"the checkpoint in {directory} is damaged: {error!r}") from error
        if charged and self._client is None:
            raise CheckpointError(
                f"the checkpoint in {directory} is of a private run: go on with its --privacy client, or start over "
                "in another --out"
            )
        if self._client is not None and self._client.ledger.releases < charged:
            raise CheckpointError(
                f"the checkpoint in {directory} has {charged} private releases, the ledger fewer: restore the ledger "
                "as it was last (an older copy will not do): what was released has to be counted"
            )
        if (taken is None) != (self._sample is None):
            there, here = ("a run with", "without") if self._sample is None else ("a run without", "with")
            raise CheckpointError(
                f"the checkpoint in {directory} is of {there} --privacy sample, this one is {here}: go on with the "
                "setting it began with, or start over in another --out"
            )
        if self._sample is not None and taken is not None and self._sample.ledger.steps < taken:
            raise CheckpointError(
                f"the checkpoint in {directory} has {taken} private steps, the ledger fewer: restore the ledger as it "
                "was last (an older copy will not do): what was trained has to be counted"
            )
        self._check_finish(directory, number, rest["finish"])
        kept = None if best is None else self._snapshots.predicted(best)
        self._snapshots.put(last)
        self._trainer.number = number
        self._selection.best, self._selection.best_loss = kept, best_loss
        self._selection.best_round, self._selection.best_point = best_round, point

    def _check_finish(self, directory: Path, number: int, then: Any) -> None:
        """Refuse another `--finish` for a run that has no rounds left: it would have no effect, and all files state it.

        And none for a run that protects records and has had another: what it kept may have been trained without noise.

        Raises:
            CheckpointError: It is another one.
        """
        h = self._trainer.hyperparameters
        if self._sample is not None and h.finish == "none" != then:
            raise CheckpointError(
                f"the checkpoint in {directory} is of a run with --finish {then}, whose model is not private: give "
                "that, and not none, or start over in another --out"
            )
        if number + 1 >= h.rounds and then != h.finish:
            raise CheckpointError(
                f"the checkpoint in {directory} is of the last round, after which the model was finished with "
                f"--finish {then}: give that, and not {h.finish}, or more --rounds"
            )


def _point(text: Any) -> Point | None:
    """The point of its round at which the best model was measured.

    Raises:
        ValueError: No such point exists.
    """
    for point in (None, *POINTS):
        if text == point:
            return point
    raise ValueError(f"best_point is {text!r}")
