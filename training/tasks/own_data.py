"""Check of the data paths of all peers of a host: own data differ from peer to peer, a common pool does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpeer.exceptions import TaskError
from dpeer.training.data.partitions import OWN
from dpeer.training.tasks import BUILTIN_TASKS
from dpeer.training.tasks.options import RANK, check_placeholders


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
        path = _path(task, options)
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
            raise TaskError(_message(task, options, peers, other, rank))


def _message(
    task: str, options: Mapping[str, Any], peers: Sequence[tuple[str, Mapping[str, Any]]], one: int, other: int
) -> str:
    path = _path(task, options) or ""
    everyone = all(_path(task, theirs) == path for _, theirs in peers)
    who = "every rank" if everyone and RANK not in path else f"ranks {one} and {other}"
    what, ending = ("rows", Path(path).suffix or ".csv") if task == "csv" else ("images", "")
    how = "group" if options.get("group") is not None else "iid (or dirichlet:0.3)"
    return (
        f"--task {task}: {who} would hold the same {what}{f' of {path!r}' if path else ''}: divide them with "
        f"--partition {how}"
        + (f", or give each rank its own with path=site-{RANK}{ending}" if "path" in options else "")
    )


def _path(task: str, options: Mapping[str, Any]) -> str | None:
    """The path of a rank's data; None where none is given, about which the task complains."""
    own = task in BUILTIN_TASKS and BUILTIN_TASKS[task].partition == OWN
    path = options.get("path") if own else options.get("data", "")
    return path if isinstance(path, str) else None
