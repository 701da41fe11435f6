"""Validation of the options of built-in tasks; each error names the option, its value and what would be right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from dpeer.exceptions import TaskError, UnknownName
from dpeer.training.data.partitions import OWN

RANK = "{rank}"
"""Stands for the peer's rank in a path."""

_PLACEHOLDER = re.compile(r"\{[^{}/]*\}")


def text(task: str, option: str, value: Any, example: str) -> str:
    """An option that must be given, as text; a whole number may be the name of a column.

    Raises:
        TaskError: It is missing or something else.
    """
    if value is None:
        raise TaskError(f"task {task!r} needs --task-option {option}={example}")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value:
        raise TaskError(f"task {task!r}: task option {option} = {value!r}: expected text, such as {option}={example}")
    return value


def place(task: str, value: Any, rank: int, size: int, example: str, partition: str | None) -> str:
    """The path that the option ``path`` names for this rank.

    Raises:
        TaskError: It is missing or not text, or there is nothing for this rank; or each rank's own is to be divided.
        UnknownName: Something else than the rank stands in braces.
    """
    given = text(task, "path", value, example)
    check_placeholders(task, given)
    found = given.replace(RANK, str(rank))
    if found != given and partition != OWN:
        raise TaskError(
            f"task {task!r}: with path = {given!r} every rank reads data of its own, of which --partition {partition} "
            f"would leave it one share in {size}: leave --partition out, or give all ranks one path"
        )
    if found != given and not Path(found).expanduser().exists():
        raise TaskError(
            f"task {task!r}: there is no {found!r}: with path = {given!r} every rank, 0 to {size - 1}, reads one of "
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


def names(task: str, option: str, value: Any, least: int = 0) -> tuple[str, ...]:
    """An option that is a list of names; as text, they stand between commas.

    Raises:
        TaskError: It is something else, or has a name twice, or too few.
    """
    given = value.split(",") if isinstance(value, str) else value
    fits = isinstance(given, list | tuple) and all(isinstance(name, str | int) for name in given)
    found = tuple(str(name).strip() for name in given) if fits else ()
    if not fits or len(set(found)) != len(found) or len(found) < least:
        number = {0: "different names", 1: "one name or more"}.get(least, f"{least} different names or more")
        raise TaskError(f"task {task!r}: task option {option} = {value!r}: expected {number}, such as {option}=A,B")
    return found


def one_of(task: str, option: str, value: Any, choices: tuple[str, ...]) -> str:
    """An option that is one of a few words.

    Raises:
        UnknownName: It is none of them.
    """
    if value not in choices:
        raise UnknownName(f"{option} of task {task!r}", str(value), choices)
    return str(value)


def whole(task: str, option: str, value: Any, choices: range | tuple[int, ...], expected: str) -> int:
    """An option that is one of some whole numbers.

    Raises:
        TaskError: It is none of them.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value not in choices:
        raise TaskError(f"task {task!r}: task option {option} = {value!r}: expected {expected}")
    return value
