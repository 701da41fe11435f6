"""Arguments of `dpeer status` and `dpeer top` that name peers: folders, addresses, federation files; looks at them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from dpeer.exceptions import ConfigurationError
from dpeer.federation.control_client import Place

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT = "dpeer-run"
"""The folder of a run that names no other."""


def targets_argument(command: F) -> F:
    """The arguments, and `--federation`."""
    command = click.option(
        "--federation", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
        help="Ask each rank where this federation file says that its status is served (serve).",
    )(command)  # fmt: skip
    return click.argument("targets", nargs=-1, metavar="[RUN|HOST:PORT]...")(command)


def looker(targets: Sequence[str], federation: Path | None) -> Callable[[], list[Place]]:
    """Looks at the peers that the arguments name.

    Args:
        targets: Folders and addresses; none for the folder of a run that names no other.
        federation: The federation file in place of them.

    Raises:
        ConfigurationError: Both are given.
    """
    from dpeer.federation.status_client import look_at, look_in_file, read_target

    _check(targets, federation)
    if federation is not None:
        return lambda: look_in_file(federation)
    found = [read_target(text) for text in targets or [DEFAULT]]
    return lambda: look_at(found)


def repeated_look(targets: Sequence[str], federation: Path | None) -> Callable[[], list[Place]]:
    """The same for a page: answers have the peers' last rounds, and a peer that is late holds up no other.

    Raises:
        ConfigurationError: Both are given, or the file cannot be read.
    """
    from dpeer.federation.repeated_look import RepeatedLook
    from dpeer.federation.status_client import looks_at, looks_in_file, read_target

    _check(targets, federation)
    if federation is not None:
        looks = looks_in_file(federation)
        return RepeatedLook(lambda: looks)
    found = [read_target(text) for text in targets or [DEFAULT]]
    return RepeatedLook(lambda: looks_at(found))


def _check(targets: Sequence[str], federation: Path | None) -> None:
    if federation is not None and targets:
        raise ConfigurationError(f"--federation {federation} and {targets[0]!r}: give one of them")
