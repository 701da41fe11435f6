"""Training of the local-only baseline beside a peer's rounds, in the time that the settings allow."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from dpeer.cores import own_cores
from dpeer.exceptions import CheckpointError, DpeerError, TaskError, describe
from dpeer.federation.addresses import all_on_this_host
from dpeer.federation.config import RunConfig, resolve
from dpeer.federation.run_settings import NetworkPart, RunPart
from dpeer.federation.settings import Settings
from dpeer.results.units import duration
from dpeer.training import Hyperparameters, Task, TorchLearner
from dpeer.training.algorithms.plugins import new_algorithm
from dpeer.training.fine_tuning import finish_rate
from dpeer.training.local_baseline import LocalBaseline, independent_copy, local_budget

FOLDER = "alone"
"""In a rank's folder, until the comparison is made: the state of the baseline."""

FREE_SECONDS = 10.0
"""Seconds by which a run may end later for the comparison, however short it is."""

STOPPED = "it was stopped"
"""The reason for no comparison after Ctrl-C."""

_SAVE_EVERY = 30.0
"""Seconds after which the state is saved again: a stopped run that is resumed trains this much twice at most."""

_TRIED = 0.5
"""Seconds of training from which it is estimated how long the rest will take."""


class BaselineTraining:
    """Trains a peer's local-only baseline, as `BackgroundWork` of dpeer.peer. It never raises and sends nothing.

    The rule: a run ends later for it by `FREE_SECONDS` and `share` of the run's time at most. Time in which the peer
    waits and has a core to itself delays nothing and does not count; elsewhere nothing is trained before the end.

    Args:
        baseline: What is trained; None where no copy of the model can be made.
        why: Why not.
        mode: "auto": what the rule allows; "always": to the end.
        share: See above.
        free: Whether the peer has a core to itself.
        part: The part of the allowed time that is this peer's, where several share the threads of a process.
        folder: Where the state is kept until all is trained; None to keep none.
        save_every: Seconds after which it is saved again.

    Attributes:
        baseline: See above.
        why: The reason for no comparison; None if all is well so far.
    """

    def __init__(
        self,
        baseline: LocalBaseline | None,
        why: str | None = None,
        *,
        mode: str = "auto",
        share: float = 0.25,
        free: bool = True,
        part: float = 1.0,
        folder: Path | None = None,
        save_every: float = _SAVE_EVERY,
    ) -> None:
        self.baseline, self.why = baseline, why
        self._always, self._share, self._free, self._part = mode == "always", share, free, part
        self._folder, self._save_every = folder, save_every
        self._began = self._saved = time.monotonic()
        self._ended: float | None = None
        self._spent = self._late = 0.0
        self._begun = 0

    def take_up(self, *, resume: bool) -> None:
        """Go on from what a stopped part of the run has saved; a new run removes it."""
        if self._folder is None:
            return
        found = max(self._folder.glob("round-*"), default=None)
        if resume and found is not None and self.baseline is not None:
            try:
                completed = int(found.name.removeprefix("round-")) + 1
                if completed <= self.baseline.rounds:  # in waiting time it may get ahead of a run that ends early
                    self.baseline.load(found, completed)
                    self._begun = self.baseline.made
                    return
            except (CheckpointError, ValueError):
                self.baseline, self.why = None, f"{str(found)!r} cannot be read"
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def left(self) -> bool:
        """See `BackgroundWork`."""
        return self._free and self._ended is None and self._unfinished

    @property
    def _unfinished(self) -> bool:
        return self.baseline is not None and self.why is None and not self.baseline.done

    def work(self, enough: Callable[[], bool]) -> None:
        """See `BackgroundWork`."""
        assert self.baseline is not None
        began = time.monotonic()
        try:
            self.baseline.work(enough)
            self._save()
        except DpeerError as error:
            self.why = str(error)
        except Exception as error:  # out of memory, say: that must not end the peer's own training
            self.why = describe(error)
        self._spent += time.monotonic() - began

    def estimate(self) -> float | None:
        """The seconds that the rest will take; None before anything has been trained in this process."""
        if self.baseline is None or self.baseline.made == self._begun:
            return None
        return self._spent / (self.baseline.made - self._begun) * (self.baseline.steps - self.baseline.made)

    def end(self) -> None:
        """Note that the run's rounds are over: what is trained from now on makes it end later."""
        if self._ended is None:
            self._ended = time.monotonic()

    def finish(self, stopped: Callable[[], bool], tell: Callable[[str], None]) -> None:
        """After the last round: train the rest if the time allows it; else `why` has the reason; later it can be.

        Args:
            stopped: Whether to give up.
            tell: Gets a line before it takes long.
        """
        self.end()
        if self._unfinished and self.estimate() is None:
            tried = time.monotonic() + _TRIED
            self._train_late(lambda: stopped() or time.monotonic() > tried)
        rest = self.estimate()
        if self._unfinished and rest is not None:
            if not self._always and rest > self._allowed() - self._late:
                self.why = self._too_long(rest)
            elif rest > 2 * _TRIED:
                tell(f"training the local-only baseline: about {duration(rest)} more; Ctrl-C puts it off")
        while self._unfinished and not stopped() and not self._over():
            self._train_late(stopped)
        if self._unfinished:
            self.why = STOPPED if stopped() else self._too_long(self.estimate() or 0.0)
        if self._folder is not None and self.baseline is not None and self.baseline.done:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _train_late(self, enough: Callable[[], bool]) -> None:
        """Train to the end of a round, within what is allowed, and count the time."""
        baseline, began = self.baseline, time.monotonic()
        assert baseline is not None
        completed = baseline.completed
        self.work(lambda: enough() or baseline.completed > completed or self._over(time.monotonic() - began))
        self._late += time.monotonic() - began

    def _over(self, more: float = 0.0) -> bool:
        return not self._always and self._late + more >= self._allowed()

    def _allowed(self) -> float:
        """By how many seconds the run may end later."""
        ended = time.monotonic() if self._ended is None else self._ended
        return self._part * (FREE_SECONDS + self._share * (ended - self._began))

    def _too_long(self, rest: float) -> str:
        return (
            f"the rest of its training takes about {duration(rest)}, more than the {FREE_SECONDS:g} s and "
            f"--alone-share {self._share:g} of the run's time that it may take"
        )

    def _save(self) -> None:
        """Save the state, if a round has just ended and some time has gone by."""
        now, baseline = time.monotonic(), self.baseline
        if self._folder is None or baseline is None or not baseline.between_rounds or baseline.done:
            return
        if not baseline.completed or now - self._saved < self._save_every:
            return
        self._saved = now
        draft, final = self._folder / ".tmp", self._folder / f"round-{baseline.completed - 1:08d}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        baseline.save(draft)
        earlier = list(self._folder.glob("round-*"))
        draft.rename(final)
        for old in earlier:
            shutil.rmtree(old, ignore_errors=True)


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
    copied: Task | str | None,
    learner: TorchLearner,
    hyperparameters: Hyperparameters,
    takes_part: Callable[[int], bool],
    run: RunPart,
    rank: int,
    *,
    keep: Literal["last", "best"],
    seed: int,
    folder: Path,
    free: bool = False,
    part: float = 1.0,
    rounds: int | None = None,
) -> BaselineTraining | None:
    """The baseline that is trained beside a peer, as its settings have it.

    Args:
        copied: What `copy_for_baseline` gave.
        learner: The peer's own.
        hyperparameters: The peer's.
        takes_part: Whether the peer takes part in a round.
        run: What the peer's run measures and compares.
        rank: The peer.
        keep: Which model is kept.
        seed: The seed of its batch order.
        folder: The rank's folder.
        free: Whether the peer has a core to itself.
        part: This peer's part of the allowed time, where several share the threads of a process.
        rounds: How many rounds a run has completed that has ended: only these are trained, each of which is saved.
    """
    if copied is None:
        shutil.rmtree(folder / FOLDER, ignore_errors=True)
        return None
    if isinstance(copied, str):
        return BaselineTraining(None, copied)
    # The algorithm's head may have a rate of its own, which `local` has not.
    hyperparameters = hyperparameters.model_copy(update={"finish_lr": learner.finish_rate})
    made = LocalBaseline(
        copied, hyperparameters, learner.algorithm.gradients(hyperparameters), takes_part, rank=rank, seed=seed,
        keep=keep, evaluate_on=run.evaluate_on, evaluate_every=run.evaluate_every,
        compute=learner.compute, rounds=rounds,
    )  # fmt: skip
    return BaselineTraining(
        made, mode=run.alone, share=run.alone_share, free=free, part=part, folder=folder / FOLDER,
        save_every=_SAVE_EVERY if rounds is None else 0.0,
    )  # fmt: skip


def local_settings(settings: Settings) -> Settings:
    """The settings of a run in which every peer trains its local-only baseline: the run of `--baseline local`.

    A run with privacy or of a paper's values keeps the baseline that its settings name.
    """
    local = {"algorithm": "local", "alone": "never"}
    if settings.privacy != "none" or settings.preset:
        return settings.model_copy(update=local)
    config = resolve(settings, 0)
    own = config.algorithm.defaults
    changes = {name: getattr(config.training, name) for name in own if name in Hyperparameters.model_fields}
    ranks = {
        rank: one.model_copy(update=_budget(resolve(settings.of_rank(rank), rank)))
        for rank, one in settings.rank.items()
    }
    return settings.model_copy(update={**changes, **_budget(config), **local, "rank": ranks})


def _budget(config: RunConfig) -> dict[str, Any]:
    h = config.hyperparameters
    algorithm = new_algorithm(config.algorithm, config.options)
    changes = local_budget(h, algorithm.gradients(h))
    return changes if h.finish == "none" else {**changes, "finish_lr": finish_rate(h, algorithm.uses)}


def has_own_core(network: NetworkPart, size: int, workers: int | None) -> bool:
    """Whether a peer has a core to itself; `workers` threads are shared by all peers of a process."""
    if workers is not None:
        return workers >= size
    return not all_on_this_host(network, size) or len(own_cores()) >= size
