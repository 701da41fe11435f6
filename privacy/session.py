"""Privacy session of a peer: `open` returns a client-level, sample-level or noiseless one; the last is defined here."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from dpeer.exceptions import CheckpointError
from dpeer.privacy import history
from dpeer.privacy.client_session import ClientSession
from dpeer.privacy.config import PeerData, PrivacyConfig
from dpeer.privacy.history import LEDGER, current
from dpeer.privacy.ledger import Ledger
from dpeer.privacy.ledger_file import Run, read_or_none
from dpeer.privacy.mechanism import Sparsifier
from dpeer.privacy.sample_session import SampleSession
from dpeer.privacy.soundness import check_found


class NoiselessSession:
    """A run without privacy: its ledger records the first release, which lowers what later private runs may promise.

    Args:
        folder: The peer's privacy folder.
        data: SHA-256 (hex) of the peer's data; None where unknown.
        new_data: Whether the data are others than those of earlier runs in the folder.
    """

    def __init__(self, folder: Path, *, data: str | None = None, new_data: bool = False) -> None:
        self._folder, self._path, self._data, self._new_data = folder, folder / LEDGER, data, new_data
        self._recorded = False

    def begin(self) -> None:
        """Begin a new run. An earlier ledger without noise, of the same data, stays: a second adds nothing to it."""
        there = self._path.exists() and not self._suffices(read_or_none(self._path))
        # One that is stopped before its first release may be continued, and is to know how much was put aside.
        if there or self._new_data:
            history.begin(self._folder, None, self._data, new_data=self._new_data)

    def record(self) -> None:
        """Record that a body is about to be released without noise; it is on disk when this returns.

        Raises:
            OSError: The disk refused; nothing may be sent.
        """
        if self._recorded:
            return
        run = read_or_none(self._path)
        if not self._suffices(run):
            history.record_noiseless(self._folder, self._data, new_data=self._new_data or self._declared(run))
        self._recorded = True

    def notes(self, parameters: int) -> list[str]:
        """No notes."""
        return []

    def _suffices(self, run: Run | None) -> bool:
        """Whether a ledger has it that bodies trained on these data have left without noise."""
        return run is not None and run.noiseless and run.data == self._data

    def _declared(self, run: Run | None) -> bool:
        """Whether the run is resumed before its first release, and its data were declared new when it began."""
        if run is None or run.rounds or not run.new_data:
            return False
        return run.mechanism is None and self._data is not None and run.data == self._data


Session: TypeAlias = NoiselessSession | ClientSession | SampleSession


def open(  # noqa: A001 - called as privacy.open
    config: PrivacyConfig,
    folder: Path,
    data: PeerData = PeerData(),  # noqa: B008 - frozen
    *,
    resume: bool = False,
    left: int | None = None,
    receivers: Callable[[int], Sequence[int]] = lambda number: (),
) -> Session:
    """Open the privacy session of one peer, with its ledger in this folder.

    Args:
        config: Of the run, for this rank.
        folder: The rank's privacy folder.
        data: Of the peer.
        resume: Whether the run in the folder is continued.
        left: How many of the peer's rounds are still to come; None for all.
        receivers: The ranks that a round's release may be sent to.

    Raises:
        CheckpointError: The ledger to continue is damaged, or of another mechanism or level.
        BudgetTooSmall: Earlier runs in the folder have used up the budget.
        ConfigurationError: The settings or data are not sound at this level.
        TaskError: Groups are to be protected, and the task knows none.
    """
    asked, guarantee = config.settings, config.guarantee
    if asked.privacy == "none" or (guarantee is not None and not config.shares):
        if resume:
            _refuse_without(folder)
        return NoiselessSession(folder, data=data.digest, new_data=data.new)
    check_found(config.task, data.found, asked.privacy)
    if guarantee is None:
        return SampleSession(config, folder, data, resume=resume, left=left)
    ledger = Ledger(
        folder, dataclasses.asdict(guarantee), resume=resume, data=data.digest, new_data=data.new,
        # Between two checkpoints, and one while the checkpoint after it is written.
        keep=config.checkpoint_every + 1,
    )  # fmt: skip
    session = ClientSession(
        guarantee, ledger, asked.target_epsilon, Sparsifier.parse(asked.sparsify), receivers, planned=config.rounds,
        size=config.size,
    )  # fmt: skip
    session.check_budget(folder.parent)
    return session


def _refuse_without(folder: Path) -> None:
    """Refuse to continue a private run without privacy."""
    run, place = current(folder), f"the run in {str(folder.parent)!r}"
    if run.steps:
        raise CheckpointError(
            f"{place} has charged {run.steps} private steps: go on with its --privacy sample, or start over with "
            "--overwrite"
        )
    if run.releases:
        raise CheckpointError(
            f"{place} has made {run.releases} private releases: go on with its --privacy client, or start over with "
            "--overwrite"
        )
