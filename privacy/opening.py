"""Privacy of a peer at its start: an open session at client level, the terms of one at sample level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from dpeer.exceptions import CheckpointError, ConfigurationError
from dpeer.privacy.config import PeerData, PrivacyConfig
from dpeer.privacy.ledger import Ledger, current
from dpeer.privacy.mechanism import Sparsifier
from dpeer.privacy.sample_session import SampleSession, SampleTerms
from dpeer.privacy.session import ClientSession

_LISTED = 20
"""The most names found in data that an error lists."""

Session: TypeAlias = ClientSession | SampleSession


def open(  # noqa: A001 - called as privacy.open
    config: PrivacyConfig,
    folder: Path,
    data: PeerData = PeerData(),  # noqa: B008 - frozen
    *,
    resume: bool = False,
    left: int | None = None,
) -> ClientSession | SampleTerms | None:
    """Open the privacy session of one peer, with its ledger in this folder; None where nothing is charged.

    At sample level it is opened by the terms that this returns, once the steps of a round are known.

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
        if resume and (run := current(folder)).lines:
            raise CheckpointError(
                f"the run in {str(folder.parent)!r} is private: go on with its --privacy {run.level}, or start a run "
                "in another --out"
            )
        return None
    _check_found(config, data.found)
    if guarantee is None:
        return SampleTerms(config, folder, data, resume, left)
    # Bytes are kept between two checkpoints, and while the checkpoint after them is written.
    keep = config.checkpoint_every + 1
    ledger = Ledger(folder, guarantee.mechanism, resume=resume, data=data.digest, keep=keep)
    kept = Sparsifier.parse(asked.sparsify)
    return ClientSession(guarantee, ledger, asked.target_epsilon, config.rounds, config.size, kept)


def _check_found(config: PrivacyConfig, found: Mapping[str, Sequence[str]]) -> None:
    """Refuse options that were found in the peer's data: neighbors learn only settings and noised values."""
    if found:
        options = " ".join(f"--task-option {option}={_listed(names)}" for option, names in found.items())
        raise ConfigurationError(
            f"--privacy {config.settings.privacy} with task {config.task!r}: {' and '.join(found)} must be given, "
            "alike on all peers, for neighbors get to know them and must not learn them from the data; this peer's "
            f"data show {options} (name all that there can be)"
        )


def _listed(names: Sequence[str]) -> str:
    shown = ",".join(names[:_LISTED])
    return shown if len(names) <= _LISTED else f"{shown},... ({len(names)} in all)"
