"""Resume checks: partition.json, preparation.json and the ledger of a rank, beside its checkpoint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpeer.exceptions import CheckpointError
from dpeer.peer import checkpoint
from dpeer.peer.config import Counted
from dpeer.privacy.ledger import FOLDER, LEDGER, current, uncharged
from dpeer.results.files import METRICS, PARTITION, PREPARATION, RELEASED, finite, write_json
from dpeer.results.json_fields import table_or_empty, whole
from dpeer.results.records import MetricsFile
from dpeer.results.run_folders import read_metrics, read_object
from dpeer.training.state.file_names import REST

_CHANGES = {
    "samples": "other samples are held out or divided (--partition, --test-split, --keep, --validation, --task-option, "
    "the files?)",
    "preparation": "rows become inputs in another way (the schema, --standardize, the file?)",
    "content": "the data have changed (--task-option, the files?)",
}
"""By key of `hashes`, what another hash says and what may be the cause; rows prepared otherwise are other content."""


def partition_of(task: str, way: str | None, parts: Mapping[str, list[int]], content: str | None) -> dict[str, Any]:
    """The content of partition.json: of each data set the places of the rank's samples in the common pool."""
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
    """Refuse data that are not those of a rank's checkpoint, if it has one."""
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
    """Write both files of a rank, None for one that its data do not have; on resuming, other data are refused."""
    if resume:
        check_same_data(folder, partition, preparation)
    for name, content in ((PARTITION, partition), (PREPARATION, preparation)):
        (folder / name).unlink(missing_ok=True)
        if content is not None:
            write_json(folder / name, content, indent=None if name == PARTITION else 1)  # thousands of numbers


def counted(folder: Path, *, resume: bool, stated: int) -> Counted:
    """The rounds up to which a rank's ledger has all releases.

    Rounds without a line in it are in metrics.jsonl, in released.json once --resume has dropped their lines, or in the
    checkpoint: nothing was released in them. An adoption counts by its checkpoint alone: a peer that is killed before
    that may run its round.

    Where no run is continued the ledger has none of this run's; `stated` is what `--rounds-released` says.
    """
    if not resume:
        return Counted(stated, stated)
    noted = read_object(folder / RELEASED)
    known, sent = MetricsFile(folder / METRICS).known
    known = max(known, whole(noted.get("known")) or 0)
    sent = max(sent, whole(noted.get("sent")) or 0, *(number + 1 for number in current(folder / FOLDER).rounds))
    return Counted(max(stated, sent, known, checkpoint.completed(folder)), max(stated, sent))


def check_ledger(folder: Path) -> None:
    """Refuse to go on with a run whose ledger has lost private releases; the error says which file proves it."""
    there, run, why = folder / FOLDER, current(folder / FOLDER), ""
    for what, kept in (("releases", run.releases), ("steps", run.steps)):
        if (told := _recorded(folder, what)) > kept:
            why = f"it has {kept} private {what}, metrics.jsonl or the checkpoint tell of {told}"
    if lost := uncharged(there):
        why = f"it lacks the line of {lost[-1].name}, which may have been sent"
    if why:
        raise CheckpointError(
            f"the privacy ledger {str(there / LEDGER)!r} is damaged ({why}): restore the file as it was last (an older "
            "copy will not do), or start a run in another --out"
        )


def is_private(folder: Path) -> bool:
    """Whether a rank's folder has a ledger, or another file that tells of private releases or steps."""
    there = folder / FOLDER
    told = _recorded(folder, "releases") or _recorded(folder, "steps")
    return bool((there / LEDGER).exists() or uncharged(there) or told)


def _recorded(folder: Path, what: str) -> int:
    """How many private releases, or steps, metrics.jsonl or the newest checkpoint have; 0 without privacy."""
    learner = checkpoint.learner_folder(folder)
    told = [line.privacy.get(what) for line in read_metrics(folder).lines if line.privacy]
    told.append(None if learner is None else read_object(learner / REST).get(what))
    return max(whole(count) or 0 for count in told)
