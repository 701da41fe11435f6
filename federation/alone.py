"""Training what a peer would have alone beside its rounds, in the time that the settings allow."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpeer.cores import own_cores
from dpeer.exceptions import CheckpointError, DpeerError, TaskError
from dpeer.federation.addresses import all_on_this_host
from dpeer.federation.defaults import kept, with_defaults
from dpeer.federation.options import options_of, with_options
from dpeer.federation.settings import Settings
from dpeer.results.units import duration
from dpeer.training import Hyperparameters, Task, TorchLearner, find_algorithm
from dpeer.training.algorithms.own import new_algorithm
from dpeer.training.alone import Alone, alone_budget, own_copy
from dpeer.training.errors import describe
from dpeer.training.finishing import finish_rate

FOLDER = "alone"
"""In a rank's folder, while its peer runs: the state of the model that is trained alone."""

FREE_SECONDS = 10.0
"""Seconds that the comparison may take of any run, however short."""

_SAVE_EVERY = 30.0
"""Seconds after which the state is saved again: a stopped run that is resumed trains this much twice at most."""

_TRIED = 0.5
"""Seconds of training from which it is estimated how long the rest will take."""


class AloneBeside:
    """The work of training a peer's own copy alone; `IdleWork` of dpeer.peer. It never raises and sends nothing.

    Args:
        alone: The copy; None where none can be made.
        why: Why not.
        mode: "auto": in the time that `share` allows; "always": to the end.
        share: The time that it may take besides, as a share of the run's.
        free: Whether the time in which the peer waits is nobody else's and costs nothing.
        folder: Where the state is kept between a stop and a resume; None to begin anew.

    Attributes:
        alone: The copy.
        why: Why there is no comparison; None if all is well so far.
    """

    def __init__(
        self,
        alone: Alone | None,
        why: str | None = None,
        *,
        mode: str = "auto",
        share: float = 0.25,
        free: bool = True,
        folder: Path | None = None,
    ) -> None:
        self.alone, self.why = alone, why
        self._always, self._share, self._free, self._folder = mode == "always", share, free, folder
        self._began = self._saved = time.monotonic()
        self._ended: float | None = None
        self._spent = self._charged = 0.0
        self._begun = 0

    def take_up(self, *, resume: bool) -> None:
        """Go on from what a stopped part of the run has saved; a new run removes it."""
        if self._folder is None:
            return
        found = max(self._folder.glob("round-*"), default=None)
        if resume and found is not None and self.alone is not None:
            try:
                self.alone.load(found, int(found.name.removeprefix("round-")) + 1)
                self._begun = self.alone.made
                return
            except (CheckpointError, ValueError):
                self.alone, self.why = None, f"{str(found)!r} cannot be read"
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def left(self) -> bool:
        """See `IdleWork`."""
        return self.alone is not None and self.why is None and not self.alone.done and self._allowed()

    def work(self, enough: Callable[[], bool]) -> None:
        """See `IdleWork`; time in which the peer waits counts where it is not free."""
        self._train(enough, charged=not self._free)

    def estimate(self) -> float | None:
        """The seconds that the rest will take; None before anything has been trained in this process."""
        if self.alone is None or self.alone.made == self._begun:
            return None
        return self._spent / (self.alone.made - self._begun) * (self.alone.steps - self.alone.made)

    def finish(self, stopped: Callable[[], bool], tell: Callable[[str], None]) -> None:
        """After the last round: train the rest if the time allows it, and say if not.

        Args:
            stopped: Whether to give up.
            tell: Gets a line before it takes long.
        """
        self._ended = time.monotonic()
        if self.alone is not None and self.left and self.estimate() is None:
            tried = time.monotonic() + _TRIED
            self._train(lambda: stopped() or time.monotonic() > tried, charged=True)
        rest = self.estimate()
        if self.left and rest is not None:
            allowed = self._most() - self._charged
            if not self._always and rest > allowed:
                self.why = self._too_long(rest)
            elif rest > 2 * _TRIED:
                tell(f"training this peer alone, to compare: about {duration(rest)} more; Ctrl-C leaves it out")
        while self.left and not stopped():
            self._train(stopped, charged=True)
        if self.alone is not None and self.why is None and not self.alone.done:
            self.why = "it was stopped" if stopped() else self._too_long(self.estimate() or 0.0)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _train(self, enough: Callable[[], bool], *, charged: bool) -> None:
        assert self.alone is not None
        began = time.monotonic()
        try:
            self.alone.work(lambda: enough() or (charged and not self._allowed(time.monotonic() - began)))
            self._save()
        except DpeerError as error:
            self.why = str(error)
        except Exception as error:  # out of memory, say: that must not end the peer's own training
            self.why = describe(error)
        seconds = time.monotonic() - began
        self._spent += seconds
        self._charged += seconds if charged else 0.0

    def _allowed(self, more: float = 0.0) -> bool:
        return self._always or self._charged + more < self._most()

    def _most(self) -> float:
        return max(FREE_SECONDS, self._share * ((self._ended or time.monotonic()) - self._began))

    def _too_long(self, rest: float) -> str:
        return (
            f"the rest of its training takes about {duration(rest)}, more than --alone-share {self._share:g} allows; "
            "--alone always trains it all"
        )

    def _save(self) -> None:
        """Save the state, if a round has just ended and some time has gone by."""
        now, alone = time.monotonic(), self.alone
        if self._folder is None or alone is None or not alone.between_rounds or alone.done:
            return
        if not alone.completed or now - self._saved < _SAVE_EVERY:
            return
        self._saved = now
        draft, final = self._folder / ".tmp", self._folder / f"round-{alone.completed - 1:08d}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        alone.save(draft)
        earlier = list(self._folder.glob("round-*"))
        draft.rename(final)
        for old in earlier:
            shutil.rmtree(old, ignore_errors=True)


def copy_apart(task: Task, settings: Settings, shares: str) -> Task | str | None:
    """A copy of the task for a comparison, before the peer's learner takes the task's model.

    Returns:
        None where no comparison is asked for, or nothing is shared anyway; a text says why there can be none.
    """
    if settings.alone in (None, "never") or shares == "nothing":
        return None
    try:
        return own_copy(task)
    except TaskError as error:
        return str(error)


def alone_beside(
    copied: Task | str | None,
    learner: TorchLearner,
    hyperparameters: Hyperparameters,
    takes_part: Callable[[int], bool],
    settings: Settings,
    rank: int,
    *,
    seed: int,
    folder: Path,
) -> AloneBeside | None:
    """What is trained beside a peer, as its settings have it.

    Args:
        copied: What `copy_apart` gave.
        learner: The peer's own.
        hyperparameters: The peer's.
        takes_part: Whether the peer takes part in a round.
        settings: The peer's.
        rank: The peer.
        seed: The seed of its batch order.
        folder: The rank's folder.
    """
    if copied is None:
        shutil.rmtree(folder / FOLDER, ignore_errors=True)
        return None
    if isinstance(copied, str):
        return AloneBeside(None, copied)
    # The algorithm's head may have a rate of its own, which `local` has not.
    hyperparameters = hyperparameters.model_copy(update={"finish_lr": learner.finish_rate})
    made = Alone(
        copied, hyperparameters, learner.algorithm.gradients(hyperparameters), takes_part, rank=rank, seed=seed,
        keep=kept(settings), evaluate_on=settings.evaluate_on, evaluate_every=settings.evaluate_every,
        compute=learner.compute,
    )  # fmt: skip
    return AloneBeside(
        made, mode=settings.alone or "auto", share=settings.alone_share, free=_is_free(settings),
        folder=folder / FOLDER,
    )  # fmt: skip


def as_alone(settings: Settings) -> Settings:
    """The settings of a run in which every peer is trained as its copy alone would be: what `--baseline local` runs.

    A run with privacy or of a paper's values keeps the baseline that its settings name.
    """
    local = {"algorithm": "local", "alone": "never"}
    if settings.privacy != "none" or settings.preset:
        return settings.model_copy(update=local)
    used, _ = _used(settings)
    own = find_algorithm(settings.algorithm).defaults
    changes = {name: getattr(used, name) for name in own if name in Hyperparameters.model_fields}
    ranks = {rank: one.model_copy(update=_budget(settings.of_rank(rank))) for rank, one in settings.rank.items()}
    return settings.model_copy(update={**changes, **_budget(settings), **local, "rank": ranks})


def _budget(settings: Settings) -> dict[str, Any]:
    used, h = _used(settings)
    algorithm = new_algorithm(find_algorithm(settings.algorithm), options_of(used))
    changes = alone_budget(h, algorithm.gradients(h))
    return changes if h.finish == "none" else {**changes, "finish_lr": finish_rate(h, algorithm.uses)}


def _used(settings: Settings) -> tuple[Settings, Hyperparameters]:
    """The settings and hyperparameters as a peer uses them."""
    used = with_options(with_defaults(settings), settings.model_fields_set)
    return used, Hyperparameters(**{name: getattr(used, name) for name in Hyperparameters.model_fields})


def _is_free(settings: Settings) -> bool:
    """Whether nobody else needs the core of a peer that waits."""
    return not all_on_this_host(settings) or len(own_cores()) >= settings.size
