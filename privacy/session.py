"""Privacy session of a peer: `open` returns a client-level, sample-level or noiseless one; the last is defined here."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from dpeer.exceptions import CheckpointError
from dpeer.privacy.client_session import ClientSession
from dpeer.privacy.config import PeerData, PrivacyConfig
from dpeer.privacy.ledger import Ledger
from dpeer.privacy.ledger_file import current
from dpeer.privacy.mechanism import Sparsifier
from dpeer.privacy.sample_session import SampleSession
from dpeer.privacy.soundness import check_found


class NoiselessSession:
    """A run without privacy: nothing is charged, and nothing is promised."""

    def begin(self) -> None:
        """Nothing has to be begun."""

    def charge_stated(self, rounds: Sequence[int]) -> None:
        """Nothing is charged."""

    def notes(self, parameters: int) -> list[str]:
        """No notes."""
        return []


Session: TypeAlias = NoiselessSession | ClientSession | SampleSession


def open(  # noqa: A001 - called as privacy.open
    config: PrivacyConfig,
    folder: Path,
    data: PeerData = PeerData(),  # noqa: B008 - frozen
    *,
    resume: bool = False,
    left: int | None = None,
) -> Session:
    """Open the privacy session of one peer, with its ledger in this folder.

    Args:
        config: Of the run, for this rank.
        folder: The rank's privacy folder.
        data: Of the peer.
        resume: Whether the run in the folder is continued.
        left: How many of the peer's rounds are still to come; None for all.

    Raises:
        CheckpointError: The ledger to continue is damaged, or of another mechanism or level.
        ConfigurationError: The settings or data are not sound at this level.
        TaskError: Groups are to be protected, and the task knows none.
    """
    asked, guarantee = config.settings, config.guarantee
    if asked.privacy == "none" or (guarantee is not None and not config.shares):
        if resume:
            _refuse_without(folder)
        return NoiselessSession()
    check_found(config.task, data.found, asked.privacy)
    if guarantee is None:
        return SampleSession(config, folder, data, resume=resume, left=left)
    ledger = Ledger(
        folder, dataclasses.asdict(guarantee), resume=resume, data=data.digest,
        # Between two checkpoints, and one while the checkpoint after it is written.
        keep=config.checkpoint_every + 1,
    )  # fmt: skip
    return ClientSession(
        guarantee, ledger, asked.target_epsilon, Sparsifier.parse(asked.sparsify), planned=config.rounds,
        size=config.size,
    )  # fmt: skip


def _refuse_without(folder: Path) -> None:
    """Refuse to continue a private run without privacy."""
    run, place = current(folder), f"the run in {str(folder.parent)!r}"
    if run.steps:
        raise CheckpointError(
            f"{place} has charged {run.steps} private steps: go on with its --privacy sample, or start a run in "
            "another --out"
        )
    if run.releases:
        raise CheckpointError(
            f"{place} has made {run.releases} private releases: go on with its --privacy client, or start a run in "
            "another --out"
        )
