"""New texts for a model that classifies texts: a file with a text in each line, or one of columns as in training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from dpeer.exceptions import TaskError, describe
from dpeer.training.data.text import BYTES, Tokens, read_tokens
from dpeer.training.data.text.tsv import TextColumns, TextRows, read_lines, read_texts
from dpeer.training.use.new_data import NewData

ENDINGS = (".txt", ".tsv")


def takes_texts(card: Mapping[str, Any]) -> bool:
    """Whether a model can be given texts: it was trained on a task with rows of texts."""
    return bool((card.get("model") or {}).get("texts"))


def read_new_texts(card: Mapping[str, Any], path: Path, tokenizer: str | None, *, labels: bool) -> NewData:
    """Read texts as the model of a card gets them.

    Args:
        card: The model's.
        path: A .txt with a text in each line, or a .tsv with the columns that the model was trained on.
        tokenizer: The tokenizer.json of the run; None for bytes.
        labels: Whether labels are needed.

    Raises:
        TaskError: The file cannot be read, has no such columns, or has no labels; or it is another tokenizer.
        ConfigurationError: The library that reads the tokenizer is not installed.
    """
    columns = TextColumns.from_json(card["model"]["texts"])
    tokens = _tokens(card, tokenizer)
    try:
        rows = _rows(path, columns)
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"{str(path)!r} cannot be read: {describe(error)}") from error
    if labels and rows.labels is None:
        raise TaskError(
            f"{str(path)!r} has no column {columns.label!r}, with which predictions could be compared: give a .tsv "
            "that has it"
        )
    (length,) = card["model"]["shape"]
    found = tokens.examples(rows.texts[0], rows.texts[1] if len(rows.texts) > 1 else None, length)
    keys = {"line": tuple(map(str, rows.lines)), **rows.others}
    targets = torch.tensor(rows.labels) if labels else None
    return NewData(torch.from_numpy(found).long(), targets, keys)


def _rows(path: Path, columns: TextColumns) -> TextRows:
    if path.suffix.lower() == ".tsv":
        return read_texts(repr(str(path)), path.read_bytes(), columns)
    if len(columns.texts) > 1:
        raise TaskError(
            f"{str(path)!r}: the model takes {len(columns.texts)} texts: give a .tsv with the columns "
            f"{', '.join(columns.texts)}"
        )
    lines = read_lines(path)
    return TextRows([lines], None, [*range(1, len(lines) + 1)], {}, [])


def _tokens(card: Mapping[str, Any], tokenizer: str | None) -> Tokens:
    """The tokenizer, if it is the one that the model was trained with."""
    trained = card["model"].get("tokenizer")
    if tokenizer is None and trained != BYTES.label:
        raise TaskError(f"the model was trained with {trained}: name that file with --tokenizer")
    found = BYTES if tokenizer is None else read_tokens(str(card.get("task")), tokenizer)
    if found.label != trained:
        raise TaskError(f"--tokenizer {tokenizer}: this is {found.label}, and the model was trained with {trained}")
    return found
