"""`dpeer model`: the model of a killed peer, made from its checkpoint without neighbors or training."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpeer.exceptions import CheckpointError, ConfigurationError, OutputError
from dpeer.federation.config import RunConfig, resolve
from dpeer.federation.control_client import RANK, one_rank
from dpeer.federation.folders import naming
from dpeer.federation.rank_lock import held
from dpeer.federation.settings import Settings
from dpeer.peer import checkpoint
from dpeer.results.files import MODEL, SUMMARY, card_of
from dpeer.results.json_fields import table_or_empty
from dpeer.results.run_folders import read_object

KILLED = "killed"
"""The status of a peer that ended without a word before its last round, and whose model was made afterwards."""


@dataclass(frozen=True)
class Made:
    """The model that was made.

    Attributes:
        path: Where it is.
        status: How the peer ended.
        completed: How many rounds it had completed.
        rounds: How many were planned.
    """

    path: Path
    status: str
    completed: int
    rounds: int


def make_model(
    folder: Path, *, output: Path | None = None, overwrite: bool = False, say: Callable[[str], None] = lambda line: None
) -> Made:
    """Write the model, its card and the summary that a peer would have left after the round of its checkpoint.

    Args:
        folder: The rank's folder, or a run folder with one rank.
        output: Where the model goes, and its card beside it; the rank's folder then stays as it is. None for the
            rank's folder.
        overwrite: Whether a model of as many rounds, or of unknown ones, is replaced.
        say: Gets a line about what is damaged and not needed.

    Raises:
        ConfigurationError: The folder is none of a peer, or what the peer was made of (data, task) is not there.
        CheckpointError: The checkpoint is missing, damaged or of another version.
        OutputError: The peer runs, or a model is in the way.
    """
    folder = one_rank(folder)
    rank = _rank(folder)
    model = folder / MODEL if output is None else output
    with naming(model.parent), held(folder):
        settings = _settings(folder).model_copy(update={"out": folder.parent})
        completed = checkpoint.completed(folder)
        if not overwrite:
            _check_free(model, completed)
        return _write(resolve(settings, rank), folder, model, summarize=output is None, say=say)


def _rank(folder: Path) -> int:
    """The rank that a folder is of."""
    found = RANK.fullmatch(folder.resolve().name)
    if found is None:
        raise ConfigurationError(f"{str(folder)!r} is no rank's folder: it must be named so, such as rank-0")
    return int(found[1])


def _settings(folder: Path) -> Settings:
    """The settings that the peer was started with."""
    found = checkpoint.latest(folder / checkpoint.FOLDER)
    if found is None:
        raise CheckpointError(f"{str(folder)!r} has no checkpoint: its peer has completed no round, so it has no model")
    extra = checkpoint.noted(folder)
    if not extra:
        checkpoint.read(found, lambda learner: None)  # says what is damaged
    given = table_or_empty(table_or_empty(extra.get("about")).get("settings"))
    another = (
        f"checkpoint {str(found)!r} is of another version of dpeer: make the model with that one, or start the peer "
        "with its settings and --resume"
    )
    if not given:
        raise CheckpointError(f"{another} (it keeps no settings)")
    try:
        return Settings.model_validate_json(json.dumps(given))
    except ConfigurationError as error:
        raise CheckpointError(f"{another} ({error})") from error


def _check_free(model: Path, completed: int) -> None:
    """Refuse to replace a model unless it is of fewer rounds."""
    if not model.exists():
        return
    rounds = table_or_empty(read_object(card_of(model)).get("federation")).get("completed_rounds")
    if not isinstance(rounds, int) or rounds >= completed:
        of = f"of {rounds} rounds" if isinstance(rounds, int) else "of an unknown round"
        raise OutputError(
            f"{str(model)!r} is a model {of}, the checkpoint is of {completed}: give --overwrite to replace it, or "
            "--output FILE"
        )


def _write(config: RunConfig, folder: Path, model: Path, *, summarize: bool, say: Callable[[str], None]) -> Made:
    import torch

    from dpeer.federation.build import build
    from dpeer.peer.core.bodies import Outbox
    from dpeer.peer.member_files import read_lists
    from dpeer.peer.rank_folder import RankFolder

    if config.host.threads is not None:
        torch.set_num_threads(config.host.threads)
    parts = build(config, resume=True)
    used, _ = read_lists(folder)
    rounds = config.training.rounds if used is None else used.rounds
    files = RankFolder(replace(parts.peer, out=folder), parts.learner, Outbox(), {}, parts.facts, say, lambda: rounds)
    completed = files.take_up()
    summary: dict[str, Any] = read_object(folder / SUMMARY)
    stays = summary.get("completed_rounds") == completed  # it has more than a checkpoint
    ended = "done" if completed == rounds else KILLED
    status = str(summary.get("status")) if stays else ended
    files.conclude(status, model=model, summarize=summarize and not stays)
    return Made(model, status, completed, rounds)
