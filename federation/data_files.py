"""partition.json and preparation.json in a rank's folder: which samples it holds, and how rows become inputs.

Both follow from settings and data. So one that is missing or damaged is made again when a run is resumed, if the
checkpoint says that it comes out as it was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpeer.exceptions import CheckpointError
from dpeer.peer import checkpoint
from dpeer.results.files import PARTITION, PREPARATION, finite, parse, write_json
from dpeer.results.json_fields import table_or_empty

_COMPARED = (
    (
        "sha256",
        "how the data are divided has",
        "--partition, --test-split, --keep, --validation, --task-option, the files",
    ),
    ("content_sha256", "the data have", "--task-option, the files"),
)
"""What must not change before a run is resumed, by key of partition.json; and what may have changed it."""


def partition_of(task: str, way: str | None, parts: Mapping[str, list[int]], content: str | None) -> dict[str, Any]:
    """The content of partition.json.

    Args:
        task: The task's name.
        way: How the common pool was divided.
        parts: The places of the rank's samples in the pool, by the data set they are for.
        content: SHA-256 of all samples; None where unknown.
    """
    return {"task": task, "partition": way, **parts, "sha256": _hash_of_parts(parts), "content_sha256": content}


def hashes(partition: Mapping[str, Any] | None, preparation: Mapping[str, Any] | None) -> dict[str, str]:
    """What checkpoints keep of both contents, by the file's name."""
    found = {} if partition is None else {PARTITION: _hash({key: partition[key] for key, *_ in _COMPARED})}
    return found if preparation is None else found | {PREPARATION: _hash(finite(preparation))}


def save_data_files(
    folder: Path, partition: Mapping[str, Any] | None, preparation: Mapping[str, Any] | None, *, resume: bool
) -> list[str]:
    """Write both files of a rank; None for one that its data do not have.

    Returns:
        What to warn of, a sentence each: a file was damaged or missing and was made again.

    Raises:
        CheckpointError: When resuming, one is another than the run began with, or that is unknown.
    """
    warnings = (
        _save_preparation(folder, preparation, resume=resume),
        _save_partition(folder, partition, resume=resume),
    )
    return [line for line in warnings if line is not None]


def _save_partition(folder: Path, partition: Mapping[str, Any] | None, *, resume: bool) -> str | None:
    path = folder / PARTITION
    if resume and checkpoint.completed(folder):
        _check_held_out(path, partition, folder)
    if not resume or partition is None:
        _write(path, partition)
        return None
    before = _whole_partition(path)
    if before is None:
        return _make_again(path, partition, hashes(partition, None), folder)
    for key, what, where in _COMPARED:
        if before.get(key) != partition[key]:
            raise CheckpointError(
                f"{str(path)!r} is of other samples than this run would use: {what} changed ({where}?); use what "
                "the run began with, or start over in another --out"
            )
    return None


def _check_held_out(path: Path, partition: Mapping[str, Any] | None, folder: Path) -> None:
    """Refuse a run of a task of one's own that holds samples out and resumes one that did not, or the reverse."""
    began_with = path.exists() or PARTITION in _kept(folder)
    if partition is None and began_with:
        now, then = "trains on", "held out: leave --keep and --validation out"
    elif partition is not None and partition["partition"] is None and not began_with:
        now, then = "holds out", "trained on: use --keep last"
    else:
        return
    raise CheckpointError(
        f"{str(folder)!r}: this run {now} samples for validation that the run it resumes {then}, or start over in "
        "another --out"
    )


def _save_preparation(folder: Path, preparation: Mapping[str, Any] | None, *, resume: bool) -> str | None:
    path = folder / PREPARATION
    if not resume or (preparation is None and not path.exists()):
        _write(path, preparation)
        return None
    if preparation is None:
        return None
    before, now = _read(path), hashes(None, preparation)
    if before == preparation:
        return None
    if before is not None and _kept(folder).get(PREPARATION) != now[PREPARATION]:
        raise CheckpointError(
            f"{str(path)!r} is another preparation than this run would use: the schema, --standardize or the file "
            "have changed; use what the run began with, or start over in another --out"
        )
    return _make_again(path, preparation, now, folder)


def _make_again(path: Path, content: Mapping[str, Any], now: Mapping[str, str], folder: Path) -> str:
    """Write a file that is missing or damaged if it is the one that the run began with.

    Returns:
        What to warn of.
    """
    state = "damaged" if path.exists() else "missing"
    if checkpoint.completed(folder) > 0 and _kept(folder).get(path.name) != now[path.name]:
        raise CheckpointError(
            f"{str(path)!r} is {state}, and cannot be made again: the data or the settings have changed since the run "
            "began; restore the file or what has changed, or start over in another --out"
        )
    _write(path, content)
    return f"{str(path)!r} was {state}: it was made again from the same data and settings"


def _kept(folder: Path) -> Mapping[str, Any]:
    """The hashes in a rank's checkpoint, by the file's name."""
    return table_or_empty(table_or_empty(checkpoint.noted(folder).get("about")).get("files"))


def _write(path: Path, content: Mapping[str, Any] | None) -> None:
    path.unlink(missing_ok=True)
    if content is not None:
        write_json(path, content, indent=None if path.name == PARTITION else 1)  # thousands of numbers


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _whole_partition(path: Path) -> dict[str, Any] | None:
    """A partition.json whose lists agree with its hash; None without one."""
    content = _read(path)
    if content is None:
        return None
    parts = {key: value for key, value in content.items() if isinstance(value, list)}
    return content if content.get("sha256") == _hash_of_parts(parts) else None


def _hash_of_parts(parts: Mapping[str, list[int]]) -> str:
    return hashlib.sha256(json.dumps(dict(parts)).encode()).hexdigest()


def _hash(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
