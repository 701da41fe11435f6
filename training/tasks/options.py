"""Paths of the data of each rank, in the options of built-in tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpeer.exceptions import TaskError, UnknownName
from dpeer.training.data.partitions import OWN
from dpeer.training.tasks import BUILTIN_TASKS

RANK = "{rank}"
"""Stands for the peer's rank in a path."""

_PLACEHOLDER = re.compile(r"\{[^{}/]*\}")


def place(task: str, given: str | None, rank: int, size: int, example: str, partition: str) -> str:
    """The path that the option ``path`` names for this rank.

    Raises:
        TaskError: It is missing, or this rank has no file; or each rank's own is to be divided.
        UnknownName: Something else than the rank stands in braces.
    """
    if given is None:
        raise TaskError(f"task {task!r} needs --task-option path={example}")
    check_placeholders(task, given)
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


def check_placeholders(task: str, path: str) -> None:
    """Refuse braces that would not be replaced by the rank, unless a file is really called so.

    Raises:
        UnknownName: Something else than the rank stands in braces.
    """
    strange = next((word for word in _PLACEHOLDER.findall(path) if word != RANK), None)
    if strange is not None and not Path(path).expanduser().exists():
        raise UnknownName("placeholder", strange, [RANK], f"task option path = {path!r} of task {task!r}")


def check_own_data(peers: Sequence[tuple[str, Mapping[str, Any]]], partition: str | None) -> None:
    """Refuse one file for several peers of this host, if the task leaves each peer all that it reads; else several.

    For commands that run all peers: on hosts of their own, peers may well have different files of one name. Where all
    read a common pool, which is divided, each would take a share of another one, and nothing would fit together.

    Args:
        peers: Each rank's task and task options.
        partition: What the user chose, if anything.

    Raises:
        TaskError: Two peers would hold the same samples, or shares of different pools.
        UnknownName: Something else than the rank stands in braces in a path.
    """
    first: dict[tuple[str, Path], int] = {}
    pools: dict[str, tuple[Path, int]] = {}
    for rank, (task, options) in enumerate(peers):
        path = _data_path(task, options)
        if task not in BUILTIN_TASKS or path is None:
            continue
        if "path" in options:
            check_placeholders(task, path)
        found = Path(path.replace(RANK, str(rank))).expanduser().resolve()
        way = partition or BUILTIN_TASKS[task].partition
        if way != OWN:
            pool, other = pools.setdefault(task, (found, rank))
            if pool != found:
                raise TaskError(
                    f"--task {task}: ranks {other} and {rank} read {str(pool)!r} and {str(found)!r}, of each of which "
                    f"--partition {way} would leave them a share: use --partition own, or give all ranks one path"
                )
            continue
        other = first.setdefault((task, found), rank)
        if other != rank:
            raise TaskError(_shared_data(task, options, peers, other, rank))


def _shared_data(
    task: str, options: Mapping[str, Any], peers: Sequence[tuple[str, Mapping[str, Any]]], one: int, other: int
) -> str:
    path = _data_path(task, options) or ""
    everyone = all(_data_path(task, theirs) == path for _, theirs in peers)
    who = "every rank" if everyone and RANK not in path else f"ranks {one} and {other}"
    what, ending = ("rows", Path(path).suffix or ".csv") if task == "csv" else ("images", "")
    how = "group" if options.get("group") is not None else "iid (group, where a schema names one)"
    return (
        f"--task {task}: {who} would hold the same {what}{f' of {path!r}' if path else ''}: divide them with "
        f"--partition {how}"
        + (f", or give each rank its own with path=site-{RANK}{ending}" if "path" in options else "")
    )


def _data_path(task: str, options: Mapping[str, Any]) -> str | None:
    """The path of a rank's data; None where none is given, about which the task complains."""
    own = task in BUILTIN_TASKS and BUILTIN_TASKS[task].partition == OWN
    path = options.get("path") if own else options.get("data", "")
    return path if isinstance(path, str) else None
