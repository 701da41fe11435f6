"""First weights (``--init-from``) in a private run: what they tell of the records behind them is in no ledger."""

from __future__ import annotations

from pathlib import Path

from dpeer.exceptions import ConfigurationError
from dpeer.training import Task
from dpeer.training.privacy_mark import Origin

_WAYS = {
    Origin.CLIENT: "a run with --privacy client has saved it, which trains without noise and protects messages alone",
    Origin.POST: "a run with --privacy sample --dp-head post has saved it, which ends with training without noise",
}
"""How records that somebody wanted to protect came into a file without noise."""


def check_first_weights(task: Task, file: Path | None, privacy: str) -> None:
    """Refuse, in a private run, first weights that records came into which a private run was to protect.

    Args:
        task: The peer's, with what its model has from the file.
        file: The file of the first weights.
        privacy: The level of privacy.

    Raises:
        ConfigurationError: They are such.
    """
    origin = None if task.initial is None else task.initial.origin
    if privacy == "none" or origin not in _WAYS:
        return
    raise ConfigurationError(
        f"--init-from {file}: {_WAYS[origin]}: with --privacy {privacy} its records would come "
        "back unprotected, since all peers need this file and begin from it: take a model of public data, or of a run "
        "with --privacy sample and --dp-head joint, alternate or frozen"
    )


def first_weights_notes(task: Task, file: Path | None, privacy: str) -> list[str]:
    """What the user is told at the start of a private run about first weights of a run without privacy."""
    if privacy == "none" or task.initial is None or task.initial.origin is not Origin.NONE:
        return []
    return [
        f"--init-from {file}: a run without --privacy has trained these weights: the records that it "
        "used are not protected by this run, so they must be public"
    ]
