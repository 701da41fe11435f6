"""partition.json and preparation.json in a rank's folder: which samples it holds, and how rows become inputs.

Both follow from settings and data, so a run that is resumed writes them anew, if its checkpoint has the same hashes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpeer.exceptions import CheckpointError
from dpeer.peer import checkpoint
from dpeer.results.files import PARTITION, PREPARATION, finite, write_json
from dpeer.results.json_fields import table_or_empty

_CHANGES = {
    "samples": "other samples are held out or divided (--partition, --test-split, --keep, --validation, --task-option, "
    "the files?)",
    "preparation": "rows become inputs in another way (the schema, --standardize, the file?)",
    "content": "the data have changed (--task-option, the files?)",
}
"""By key of `hashes`, what another hash says and what may be the cause; rows prepared otherwise are other content."""


def partition_of(task: str, way: str | None, parts: Mapping[str, list[int]], content: str | None) -> dict[str, Any]:
    """The content of partition.json.

    Args:
        task: The task's name.
        way: How the common pool was divided.
        parts: The places of the rank's samples in the pool, by the data set they are for.
        content: SHA-256 of all samples; None where unknown.
    """
    hashed = hashlib.sha256(json.dumps(dict(parts)).encode()).hexdigest()
    return {"task": task, "partition": way, **parts, "sha256": hashed, "content_sha256": content}


def hashes(partition: Mapping[str, Any] | None, preparation: Mapping[str, Any] | None) -> dict[str, str]:
    """What checkpoints keep of both files' content; nothing of one that the data do not have."""
    found: dict[str, str | None] = {}
    if partition is not None:
        found |= {"samples": partition["sha256"], "content": partition["content_sha256"]}
    if preparation is not None:
        stated = json.dumps(finite(preparation), sort_keys=True)
        found["preparation"] = hashlib.sha256(stated.encode()).hexdigest()
    return {name: one for name, one in found.items() if one is not None}


def check_same_data(folder: Path, partition: Mapping[str, Any] | None, preparation: Mapping[str, Any] | None) -> None:
    """Refuse data that are not those of a rank's checkpoint, if it has one.

    Raises:
        CheckpointError: They are others.
    """
    about = checkpoint.noted(folder).get("about")
    if about is None:  # none, or a damaged one, which its reader names
        return
    before, now = table_or_empty(table_or_empty(about).get("files")), hashes(partition, preparation)
    for name, change in _CHANGES.items():
        if before.get(name) != now.get(name):
            raise CheckpointError(
                f"{str(folder)!r} holds a run on other data: {change}; use what the run began with, or start over in "
                "another --out"
            )


def save_data_files(
    folder: Path, partition: Mapping[str, Any] | None, preparation: Mapping[str, Any] | None, *, resume: bool
) -> None:
    """Write both files of a rank; None for one that its data do not have.

    Raises:
        CheckpointError: When resuming, the data are others.
    """
    if resume:
        check_same_data(folder, partition, preparation)
    for name, content in ((PARTITION, partition), (PREPARATION, preparation)):
        (folder / name).unlink(missing_ok=True)
        if content is not None:
            write_json(folder / name, content, indent=None if name == PARTITION else 1)  # thousands of numbers
