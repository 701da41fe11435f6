"""Training of the local-only baseline after a peer's rounds, in the time that the settings allow."""

from __future__ import annotations

import math
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from dpeer.exceptions import CheckpointError, DpeerError, TaskError, describe
from dpeer.federation.config import RunConfig
from dpeer.peer import checkpoint
from dpeer.results.run_folders import read_peer_summary
from dpeer.results.units import duration
from dpeer.training import Hyperparameters, Task, TorchLearner
from dpeer.training.local_baseline import LocalBaseline, independent_copy
from dpeer.training.setting_texts import Finish

FOLDER = "alone"
"""In a rank's folder, until the comparison is made: the state of the baseline."""

FREE_SECONDS, SHARE = 10.0, 0.25
"""A run may end later for the comparison by these seconds, and by this share of its time."""

STOPPED = "it was stopped"
"""The reason for no comparison after Ctrl-C."""

_SAVE_EVERY = 30.0
"""Seconds after which the state is saved again: a stopped run that is resumed trains this much twice at most."""

_TRIED = 0.5
"""Seconds of training after which it is estimated how long the rest will take."""


class AllOrNone:
    """Whether the peers of a process train their baselines: the first of them that has an estimate decides for all.

    So many `threads` of them train at a time. What an interrupted process has `decided` holds. `why` is why none is
    trained; None if all are, or while nothing is decided.
    """

    def __init__(self, peers: int = 1, threads: int = 1, *, decided: bool = False, why: str | None = None) -> None:
        self._peers, self._turns = peers, math.ceil(peers / threads)
        self._lock, self._decided = threading.Lock(), decided
        self.why = why

    @classmethod
    def resumed(cls, peers: int, threads: int, folders: Sequence[Path], rounds: int) -> AllOrNone:
        """The decision of an interrupted process, as far as these ranks' folders show one.

        A verdict or a saved state shows that all are trained, an unfinished baseline that was not stopped that none is.
        """
        found = [one for folder in folders if (one := read_peer_summary(folder)) is not None]
        effects = [one.worth for one in found if one.completed_rounds == rounds and one.worth is not None]
        if any(one.verdict for one in effects) or any(checkpoint.completed(one / FOLDER) for one in folders):
            return cls(peers, threads, decided=True)
        refused = [one.why for one in effects if one.is_unfinished and one.why != STOPPED]
        return cls(peers, threads, decided=bool(refused), why=refused[0] if refused else None)

    def decide(self, seconds: float, took: float) -> str | None:
        """Why none of the peers trains its baseline, which takes so many seconds after a run that took `took`."""
        allowed, needed = FREE_SECONDS + SHARE * took, self._turns * seconds
        with self._lock:
            if not self._decided and needed >= allowed:
                self.why = (
                    f"training {'the peer' if self._peers == 1 else f'{self._peers} peers'} alone takes about "
                    f"{duration(needed)}, more than the {duration(allowed)} by which the run may end later "
                    f"({FREE_SECONDS:g} s and {SHARE:.0%} of its time)"
                )
            self._decided = True
        return self.why


class BaselineTraining:
    """Trains a peer's local-only baseline when its rounds are over. It never raises and sends nothing.

    Args:
        baseline: What is trained; None where no copy of the model can be made.
        why: The reason for no comparison; None if all is well so far.
        limit: Decides for all peers of this process whether they have the time; None for any time.
        folder: Where the state is kept until all is trained; what is there goes on. None to keep none.
    """

    def __init__(
        self,
        baseline: LocalBaseline | None,
        why: str | None = None,
        *,
        limit: AllOrNone | None = None,
        folder: Path | None = None,
    ) -> None:
        self.baseline, self.why = baseline, why
        self._limit, self._folder = limit, folder
        self._began = self._saved = time.monotonic()
        self._ended: float | None = None

    def end(self, rounds: int | None = None, *, finished: bool = True) -> None:
        """Note that the peer's rounds are over: what is trained from now on makes it end later.

        `rounds` is how many they were, if a member list may have changed those that were planned; `finished`, whether
        the peer's own model is finished at home, as that of a peer that leaves is not.
        """
        if self._ended is None:
            self._ended = time.monotonic()
        if self.baseline is not None and rounds not in (None, self.baseline.rounds):
            self.baseline.plan(rounds, finish=finished)

    def finish(self, stopped: Callable[[], bool], tell: Callable[[str], None]) -> None:
        """After the last round: train if the time allows it; else `why` has the reason, and it can be trained later."""
        self.end()
        self._take_up()
        if self.baseline is None or self.why is not None:
            return
        try:
            self._train(self.baseline, stopped, tell)
        except DpeerError as error:
            self.why = str(error)
        except Exception as error:  # out of memory, say: that must not take the peer's own model
            self.why = describe(error)
        if self._folder is not None and self.baseline.done:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _take_up(self) -> None:
        """Go on from what a stopped comparison has saved."""
        if self._folder is None or self.baseline is None:
            return
        found, completed = checkpoint.latest(self._folder / checkpoint.FOLDER), checkpoint.completed(self._folder)
        if found is None or completed > self.baseline.rounds:  # of a run that had more rounds
            shutil.rmtree(self._folder, ignore_errors=True)
            return
        try:
            checkpoint.read(found, partial(self.baseline.load, completed=completed))
        except CheckpointError:
            self.baseline, self.why = None, f"{str(found)!r} cannot be read: remove it, and `dpeer worth` trains anew"

    def _train(self, baseline: LocalBaseline, stopped: Callable[[], bool], tell: Callable[[str], None]) -> None:
        began, begun, estimated = time.monotonic(), baseline.made, False
        took = (began if self._ended is None else self._ended) - self._began

        def enough() -> bool:
            nonlocal estimated
            spent = time.monotonic() - began
            if stopped():
                self.why = STOPPED
            elif not estimated and (spent > _TRIED or baseline.made == baseline.steps):
                estimated = True
                rest = spent / (baseline.made - begun) * (baseline.steps - baseline.made)
                self.why = None if self._limit is None else self._limit.decide(spent + rest, took)
                if self.why is None and rest > 2 * _TRIED:
                    tell(f"training the local-only baseline: about {duration(rest)} more; Ctrl-C puts it off")
            return self.why is not None

        if self._limit is not None:
            self.why = self._limit.why
        while not baseline.done and self.why is None:
            if stopped():
                self.why = STOPPED
            elif baseline.train_round(enough):
                self._save(baseline)

    @property
    def refused(self) -> bool:
        """Whether this process has not the time for it."""
        return self._limit is not None and self._limit.why is not None

    def _save(self, baseline: LocalBaseline) -> None:
        """Save the state after a round, if some time has gone by."""
        now = time.monotonic()
        if self._folder is None or baseline.done or now - self._saved < _SAVE_EVERY:
            return
        self._saved = now
        checkpoint.write(self._folder / checkpoint.FOLDER, checkpoint.State(baseline.completed, {}), baseline.save)


def copy_for_baseline(task: Task, mode: str, shares: str) -> Task | str | None:
    """A copy of the task for a comparison, before the peer's learner takes the task's model.

    Returns:
        None where no comparison is asked for, or nothing is shared anyway; a text is the reason why none is possible.
    """
    if mode == "never" or shares == "nothing":
        return None
    try:
        return independent_copy(task)
    except TaskError as error:
        return str(error)


def baseline_training(
    config: RunConfig,
    copied: Task | str | None,
    learner: TorchLearner,
    *,
    keep: Literal["last", "best"],
    folder: Path,
    resume: bool = False,
    process: AllOrNone | None = None,
) -> BaselineTraining | None:
    """The baseline that is trained after a peer's rounds, as its settings have it, of what `copy_for_baseline` gave.

    A peer that resumes goes on with what its earlier run has saved in the rank's folder. `process` decides for all
    peers of this process; None for a peer in a process of its own.
    """
    if copied is None or not resume:
        shutil.rmtree(folder / FOLDER, ignore_errors=True)
    if copied is None:
        return None
    if isinstance(copied, str):
        return BaselineTraining(None, copied)
    hyperparameters: Hyperparameters = config.training
    rank, run, meeting = config.rank, config.run, config.meeting
    # The algorithm's head may have a rate of its own, which `local` has not.
    if learner.about.finish_rate is not None:
        at_rate = Finish.parse(hyperparameters.finish)._replace(rate=learner.about.finish_rate)
        hyperparameters = hyperparameters.model_copy(update={"finish": str(at_rate)})
    made = LocalBaseline(
        copied, hyperparameters, learner.algorithm.gradients(hyperparameters),
        lambda number: rank >= meeting.size or meeting.at(number, rank).active, rank=rank, seed=config.training.seed,
        keep=keep, evaluate_on=run.evaluate_on, evaluate_every=run.evaluate_every,
        compute=learner.about.compute,
    )  # fmt: skip
    limit = None if run.alone == "always" else process or AllOrNone()
    return BaselineTraining(made, limit=limit, folder=folder / FOLDER)
