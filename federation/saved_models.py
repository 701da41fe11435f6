"""Models of peers that have ended: loaded by `dpeer.load_model`, or made of a checkpoint for `dpeer model`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dpeer.exceptions import CheckpointError, ConfigurationError, OutputError
from dpeer.federation.config import RunConfig, resolve
from dpeer.federation.control_client import RANK, held, one_rank
from dpeer.federation.folders import naming
from dpeer.federation.settings import Settings
from dpeer.peer import checkpoint
from dpeer.results.card import FORMAT
from dpeer.results.files import CARD, METRICS, MODEL, SUMMARY, parse
from dpeer.results.json_fields import table_or_empty
from dpeer.results.run_folders import read_object

if TYPE_CHECKING:
    from torch import nn

    from dpeer.federation.build import PeerParts
    from dpeer.peer.rank_folder import RankFolder
    from dpeer.training.use.model import TrainedModel


def model_folder(run: Path) -> Path:
    """The folder that has a model: the one that is named, or its only ``rank-R``.

    Raises:
        ConfigurationError: It has none, or several.
    """
    if (run / MODEL).is_file():
        return run
    place = one_rank(run)
    if (place / MODEL).is_file():
        return place
    began = any(run.rglob(METRICS))
    advice = "it is written when a peer ends or is stopped" if began else "no peer has completed a round here"
    raise ConfigurationError(f"{str(run)!r} has no {MODEL}: {advice}")


def read_card(folder: Path) -> dict[str, Any]:
    """The card of the model in a rank's folder.

    Raises:
        CheckpointError: It is missing, damaged or of a later version.
    """
    path = folder / CARD
    try:
        card = parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(f"no {str(path)!r} lies beside the model") from error
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{str(path)!r} cannot be read: {error}") from error
    if card is None or card.get("format") != FORMAT:
        what = (
            "holds no JSON object" if card is None else f"has format {card.get('format')!r}, this dpeer reads {FORMAT}"
        )
        raise CheckpointError(f"{str(path)!r} {what}")
    return card


def load_model(
    folder: str | Path, *, module: nn.Module | None = None, tokenizer: str | Path | None = None
) -> TrainedModel:
    """Load the model that a peer has ended with, without the data that it was trained on.

    Args:
        folder: A rank's folder, or a run folder with one: it needs model.safetensors and model.json of it.
        module: A model of the same make, which gets the saved values. It is made as in the run if None: a built-in one
            from its name, that of a task of your own by the task's factory, which may then read its data.
        tokenizer: The tokenizer.json of the run, for texts, where it is not bytes.

    Raises:
        CheckpointError: The files are missing or damaged, or of another model than `module`.
        ConfigurationError: The folder is missing, or how to make the model is unknown.
    """
    if not isinstance(folder, str | Path):
        raise ConfigurationError(f"folder = {folder!r}: expected a path")
    place = model_folder(Path(folder).expanduser())
    card = read_card(place)
    from dpeer.training.use.model import (
        TrainedModel,
        restored,  # torch
    )

    try:
        return TrainedModel(restored(card, place / MODEL, module), card, None if tokenizer is None else str(tokenizer))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{str(place / CARD)!r} is damaged: {error!r}") from error


KILLED = "killed"
"""The status of a peer that ended without a word before its last round, and whose model was made afterwards."""


class SavedPeer(NamedTuple):
    """A peer that is built again, with the state of its checkpoint, and the rounds it had completed, of how many."""

    config: RunConfig
    """As it was started, but for what was changed."""
    parts: PeerParts
    files: RankFolder
    completed: int
    rounds: int


def saved_peer(folder: Path, say: Callable[[str], None], **changes: Any) -> SavedPeer:
    """The peer of a rank's folder, which the caller holds; nothing in it is written.

    Args:
        folder: The rank's folder.
        say: Gets a line about what is damaged and not needed.
        changes: Settings that are others than at the start.

    Raises:
        ConfigurationError: The folder is none of a peer, or what the peer was made of (data, task) is not there.
        CheckpointError: The checkpoint is missing, damaged, of another version or of other data.
    """
    import torch

    from dpeer.federation.build import build
    from dpeer.peer.core.bodies import Outbox
    from dpeer.peer.member_files import read_lists
    from dpeer.peer.rank_folder import RankFolder

    rank = RANK.fullmatch(folder.resolve().name)
    if rank is None:
        raise ConfigurationError(f"{str(folder)!r} is no rank's folder: it must be named so, such as rank-0")
    settings = _settings(folder).model_copy(update={"out": folder.parent, **changes})
    config = resolve(settings, int(rank[1]))
    if config.host.threads is not None:
        torch.set_num_threads(config.host.threads)
    parts = build(config, resume=True)
    used, _ = read_lists(folder)
    rounds = config.training.rounds if used is None else used.rounds
    files = RankFolder(replace(parts.peer, out=folder), parts.learner, Outbox(), {}, parts.facts, say, lambda: rounds)
    return SavedPeer(config, parts, files, files.take_up(), rounds)


def _settings(folder: Path) -> Settings:
    """The settings that the peer was started with."""
    found = checkpoint.latest(folder / checkpoint.FOLDER)
    if found is None:
        raise CheckpointError(f"{str(folder)!r} has no checkpoint: its peer has completed no round, so it has no model")
    extra = checkpoint.noted(folder)
    if not extra:
        checkpoint.read(found, lambda learner: None)  # says what is damaged
    try:
        return Settings.model_validate_json(json.dumps(table_or_empty(extra.get("about"))["settings"]))
    except (KeyError, ConfigurationError) as error:
        raise CheckpointError(
            f"checkpoint {str(found)!r} is of another version of dpeer ({error}): use that one, or start the peer with "
            "its settings and --resume"
        ) from error


class Made(NamedTuple):
    """The model that was made: where it is, how its peer ended, and after how many rounds, of how many."""

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
        overwrite: Whether an existing model is replaced.
        say: Gets a line about what is damaged and not needed.

    Raises:
        DpeerError: As for `saved_peer`.
        OutputError: The peer runs, or a model is in the way; or the rank's folder keeps another model by choice.
    """
    folder = one_rank(folder)
    model = folder / MODEL if output is None else output
    with naming(model.parent), held(folder):
        if model.exists() and not overwrite:
            raise OutputError(f"{str(model)!r} exists: give --overwrite to replace it, or --output FILE")
        peer = saved_peer(folder, say)
        summary: dict[str, Any] = read_object(folder / SUMMARY)
        stays = summary.get("completed_rounds") == peer.completed  # it has more than a checkpoint
        if output is None and stays and summary.get("kept_point") in ("alone", "blend"):
            raise OutputError(
                f"{str(model)!r}: the run keeps another model than the federated one there (kept_point = "
                f"{summary['kept_point']!r} in {SUMMARY}): give --output FILE for the federated one"
            )
        ended = "done" if peer.completed == peer.rounds else KILLED
        status = str(summary.get("status")) if stays else ended
        peer.files.conclude(status, model=model, summarize=output is None and not stays)
        return Made(model, status, peer.completed, peer.rounds)
