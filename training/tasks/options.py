"""Paths of the data of each rank, in the options of built-in tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpeer.exceptions import TaskError
from dpeer.training.data.partitions import OWN
from dpeer.training.tasks import BUILTIN_TASKS

RANK = "{rank}"
"""Stands for the peer's rank in a path."""


def place(task: str, given: str | None, rank: int, size: int, example: str, partition: str) -> str:
    """The path that the option ``path`` names for this rank.

    Raises:
        TaskError: It is missing, or this rank has no file; or each rank's own is to be divided.
    """
    if given is None:
        raise TaskError(f"task {task!r} needs --task-option path={example}")
    found = given.replace(RANK, str(rank))
    if found != given and partition != OWN:
        raise TaskError(
            f"task {task!r}: with path = {given!r} every rank reads data of its own, of which --partition {partition} "
            f"would leave it one share in {size}: leave --partition out, or give all ranks one path"
        )
    if found != given and not Path(found).expanduser().exists():
        raise TaskError(
            f"task {task!r}: {found!r} does not exist: with path = {given!r} every rank, 0 to {size - 1}, reads one of "
            f"its own; this is rank {rank}"
        )
    return found


def check_own_data(peers: Sequence[tuple[str, Mapping[str, Any]]], partition: str | None) -> None:
    """Refuse one file for several peers of this host, if the task leaves each peer all that it reads.

    For commands that run all peers: on hosts of their own, peers may well have different files of one name.

    Args:
        peers: Each rank's task and task options.
        partition: What the user chose, if anything.

    Raises:
        TaskError: Two peers would hold the same samples.
    """
    first: dict[tuple[str, Path], int] = {}
    for rank, (task, options) in enumerate(peers):
        path = _data_path(task, options)
        if task not in BUILTIN_TASKS or path is None or (partition or BUILTIN_TASKS[task].partition) != OWN:
            continue
        found = Path(path.replace(RANK, str(rank))).expanduser().resolve()
        if (other := first.setdefault((task, found), rank)) != rank:
            raise TaskError(
                f"--task {task}: ranks {other} and {rank} would hold the same data{f' of {path!r}' if path else ''}: "
                f"divide them with --partition iid, or group, or give each rank its own, as path=site-{RANK}.csv does"
            )


def _data_path(task: str, options: Mapping[str, Any]) -> str | None:
    """The path of a rank's data; None where none is given, about which the task complains."""
    own = task in BUILTIN_TASKS and BUILTIN_TASKS[task].partition == OWN
    path = options.get("path") if own else options.get("data", "")
    return path if isinstance(path, str) else None
