"""`dpeer.load_model`: finds the model that a peer has left in its folder, and loads it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpeer.exceptions import CheckpointError, ConfigurationError
from dpeer.federation.control_client import one_rank
from dpeer.results.card import FORMAT
from dpeer.results.files import CARD, METRICS, MODEL, parse

if TYPE_CHECKING:
    from torch import nn

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
