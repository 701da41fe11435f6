"""Predictions as a csv file."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from dpeer.atomic import replacing
from dpeer.exceptions import OutputError
from dpeer.training.use.model import Predictions

PREDICTED, PROBABILITY = "predicted", "probability_"


def write_predictions(found: Predictions, path: Path) -> None:
    """Write a line for each row, so that readers see the whole file or none.

    Raises:
        OutputError: The file cannot be written.
    """
    try:
        with replacing(path) as draft, draft.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([*_unlike(found), *_headings(found)])
            columns = [*found.keys.values(), *_columns(found)]
            writer.writerows(zip(*columns, strict=True))
    except OSError as error:
        raise OutputError(f"--output {str(path)!r} cannot be written: {error.strerror}") from error


def _unlike(found: Predictions) -> Iterator[str]:
    """The names of the keys; one that is also a heading of ours is told apart."""
    ours = {*_headings(found)}
    return (f"{name} (input)" if name in ours else name for name in found.keys)


def _headings(found: Predictions) -> list[str]:
    if found.classes:
        return [PREDICTED, *(f"{PROBABILITY}{name}" for name in found.classes)]
    width = 1 if found.outputs.ndim < 2 else found.outputs.shape[1]
    return [PREDICTED] if width == 1 else [f"{PREDICTED}_{number}" for number in range(width)]


def _columns(found: Predictions) -> list[list[str]]:
    """The cells by column; a number has as many digits as tell its bits."""
    if not found.classes:
        return [[str(value) for value in column] for column in found.outputs.reshape(len(found), -1).numpy().T]
    return [found.labels, *([str(value) for value in column] for column in found.probabilities.T)]
