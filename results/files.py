"""The files of a run folder: their names, and the writer and parser of their JSON."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpeer.atomic import flush, replacing

SUMMARY = "summary.json"
"""In a run folder: the results of all peers. In a rank's folder: the results of this peer."""

METRICS = "metrics.jsonl"
"""In a rank's folder: a line for each round."""

LOG = "log.jsonl"
"""In a rank's folder: the events, a line each."""

MODEL = "model.safetensors"
"""In a rank's folder: the model that predicts."""

CARD = "model.json"
"""In a rank's folder: the card of the model that predicts."""

PARTITION = "partition.json"
"""In a rank's folder, where its samples are of a common pool: which ones it holds."""

PREPARATION = "preparation.json"
"""In a rank's folder, where its data are a table: how rows become the model's inputs."""

ROWS = "test-rows.json"
"""In a rank's folder: how the model that predicts does on each row that was evaluated. It is never sent."""

RELEASED = "released.json"
"""In a rank's folder: the last round that it has trained and released, completed or not, and the rounds that it knows
itself to have completed where --resume has dropped their lines."""

MEMBERS = "members.json"
"""In a rank's folder: the member lists that count and wait, as operators have signed them."""

DISAGREEMENT = "disagreement.jsonl"
"""In the run folder of a simulation: how far apart the bodies are, a line for each round."""


def rank_folder(out: Path, rank: int) -> Path:
    """One rank's folder in a run folder."""
    return out / f"rank-{rank}"


def card_of(model: Path) -> Path:
    """Where the card of a model is: beside it, under the same name."""
    return model.with_suffix(".json")


_FINITE = frozenset({type(None), bool, int, str})
"""Types of most values of a line, which stay as they are."""


def finite(value: Any) -> Any:
    """The value with NaN and infinities, which JSON does not know, replaced by None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if type(value) in _FINITE:
        return value
    if isinstance(value, Mapping):
        return {key: entry if type(entry) in _FINITE else finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [entry if type(entry) in _FINITE else finite(entry) for entry in value]
    return value


def write_json(path: Path, content: Mapping[str, Any], *, indent: int | None = 1, mode: int = 0o666) -> None:
    """Write a JSON file so that readers see the old content or the new, never a part; `mode` is that of a new file."""
    replace(path, json.dumps(finite(content), indent=indent) + "\n", mode=mode)


def write_rows(folder: Path, measure: str, values: Sequence[float]) -> None:
    """Write a figure of each row into a rank's folder: 1 or 0 for right and wrong (accuracy), or losses (test_loss)."""
    plain = [int(value) for value in values] if measure == "accuracy" else list(values)
    write_json(folder / ROWS, {"measure": measure, "rows": plain}, indent=None, mode=0o600)


def replace(path: Path, content: str, *, mode: int = 0o666) -> None:
    """Write a file so that readers see the old content or the new, never a part; after a power loss, too."""
    with replacing(path, mode=mode) as draft:
        draft.write_text(content)
        flush(draft)  # else its name can be on disk before its content is
    flush(Path(os.path.realpath(path)).parent)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for their owner alone; their names are on disk then.

    Else a power loss could remove a rank's folder, and with it every record of the rank's releases.
    """
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(exist_ok=True)  # for its error where it is a file
    for one in missing:
        flush(one.parent)


def parse(text: str) -> dict[str, Any] | None:
    """The JSON object in a text; None if it holds none."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):  # RecursionError: brackets within brackets, thousands deep
        return None
    return content if isinstance(content, dict) else None


def count_lines(path: Path) -> int:
    """How many lines a file has; 0 without one."""
    return len(path.read_text(errors="replace").splitlines()) if path.exists() else 0
