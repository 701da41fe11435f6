"""Built-in tasks: their options, each rank's path, and a cache of their data, read once for all peers of a process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field

from dpeer.exceptions import ConfigurationError, TaskError, UnknownName
from dpeer.training.data.partitions import OWN, parse
from dpeer.training.data.pool import Data, Pool
from dpeer.training.errors import blame
from dpeer.training.keyword_options import defaults, validated
from dpeer.training.randomness import Purpose, stream
from dpeer.training.task import Task
from dpeer.training.tasks import BUILTIN_TASKS, Choices
from dpeer.training.tasks.pooled import divide, pooled_task


def builtin_task(spec: str, rank: int, size: int, seed: int, given: Mapping[str, Any], choices: Choices) -> Task:
    """Make a rank's built-in task; arguments as for `load_task`.

    Raises:
        UnknownName: No such option, or no such partition.
        TaskError: An option is missing, or the data cannot be read.
        ConfigurationError: A schema was given to a task that reads no table.
        PartitionError: The data cannot be divided as asked.
    """
    task = BUILTIN_TASKS[spec]
    partition = choices.partition or task.partition
    parse(partition)
    scaled = task.standardize if choices.standardize is None else choices.standardize
    reader = task.reader()
    options, counts = _options(spec, reader, given)
    if task.path:
        options["path"] = _place(spec, options.get("path"), rank, size, task.path, partition)
    if choices.schema is not None:
        if "schema" not in defaults(reader):
            raise ConfigurationError(f"--schema {choices.schema} is for --task csv: task {spec!r} reads no table")
        options["schema"] = str(choices.schema)
    with blame(f"task {spec!r} failed"):
        data = read(reader, options, seed, **counts)
        bound = choices.model_copy(update={"partition": partition, "standardize": scaled})
        return pooled_task(data, rank, size, seed, bound, model=task.model)


def _options(spec: str, reader: Callable[..., Data], given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The reader's options, each of its type and within its limits, and the numbers of samples."""
    known = {name for name in defaults(reader) if name not in Choices.model_fields}
    counts = set() if BUILTIN_TASKS[spec].path else {*defaults(_samples)}
    for name in given:
        if name in Choices.model_fields:
            raise TaskError(f"task {spec!r}: {name!r} is not a task option; use --{name.replace('_', '-')}")
        if name not in known | counts:
            raise UnknownName("task option", name, sorted(known | counts) or ["(none)"], f"task {spec!r}")

    def wrong(name: str, message: str) -> TaskError:
        if name not in given:
            return TaskError(f"task {spec!r} needs --task-option {name}={BUILTIN_TASKS[spec].path or '...'}")
        return TaskError(f"task {spec!r}: task option {name} = {given[name]!r}: {message}")

    asked, drawn = ({name: given[name] for name in given if name in names} for names in (known, counts))
    return validated(reader, asked, wrong), validated(_samples, drawn, wrong)


RANK = "{rank}"
"""Stands for the peer's rank in a path."""


def _place(task: str, given: str | None, rank: int, size: int, example: str, partition: str) -> str:
    """The path that the option ``path`` names for this rank."""
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
    """
    first: dict[tuple[str, Path], int] = {}
    for rank, (task, options) in enumerate(peers):
        builtin = BUILTIN_TASKS.get(task)
        if builtin is None or (partition or builtin.partition) != OWN:
            continue
        path = options.get("path") if builtin.path else options.get("data", "")
        if not isinstance(path, str):  # the task complains of it
            continue
        found = Path(path.replace(RANK, str(rank))).expanduser().resolve()
        if (other := first.setdefault((task, found), rank)) != rank:
            raise TaskError(
                f"--task {task}: ranks {other} and {rank} would hold the same data{f' of {path!r}' if path else ''}: "
                f"divide them with --partition iid, or group, or give each rank its own, as path=site-{RANK}.csv does"
            )


Count = Annotated[int, Field(ge=1)]


def _samples(*, train_samples: Count | None = None, test_samples: Count | None = None) -> None:
    """Options of all tasks but those on own data: how many samples of each pool are drawn at random."""


def read(reader: Callable[..., Data], options: Mapping[str, Any], seed: int, **counts: int | None) -> Data:
    """Read a data set, with `options` for its reader, or so many of its samples, drawn at random by the seed."""
    return _read(reader, tuple(options.items()), _marks(options), seed, **counts)


def forget() -> None:
    """Drop the data sets that were read: a process that has all its peers needs only their parts."""
    _read.cache_clear()
    divide.cache_clear()  # it keeps what it divided, too


def _marks(options: Mapping[str, Any]) -> tuple[tuple[int, ...], ...]:
    """What changes with the files and folders that options name."""
    found = []
    for value in options.values():
        with suppress(OSError, ValueError, RuntimeError):  # most options name no file
            if isinstance(value, str):
                stat = Path(value).expanduser().stat()
                found.append((stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns))
    return tuple(found)


@lru_cache(maxsize=1)
def _read(
    reader: Callable[..., Data],
    options: tuple[tuple[str, Any], ...],
    marks: tuple[tuple[int, ...], ...],
    seed: int,
    train_samples: int | None = None,
    test_samples: int | None = None,
) -> Data:
    found = reader(**dict(options))
    train = _some("train_samples", found.train, train_samples, seed, 0)
    test = found.test if found.test is None else _some("test_samples", found.test, test_samples, seed, 1)
    return replace(found, train=train, test=test)


def _some(option: str, pool: Pool, count: int | None, seed: int, which: int) -> Pool:
    if count is None:
        return pool
    if count > len(pool):
        raise TaskError(f"task option {option} = {count}: expected a number of samples, 1 to {len(pool)}")
    rows = np.sort(stream(seed, Purpose.SUBSET, which).permutation(len(pool))[:count])
    index = torch.from_numpy(rows)
    return Pool(
        pool.inputs[index],
        pool.targets[index],
        None if pool.groups is None else pool.groups[rows],
        None if pool.stretches is None else pool.stretches[rows],
        rows,
        len(pool),
    )
