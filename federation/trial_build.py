"""Trial build: a peer as a start builds it, in a folder that is thrown away, and what a private one would promise."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dpeer.exceptions import ConfigurationError
from dpeer.federation import config
from dpeer.federation.config import RunConfig
from dpeer.federation.folders import refuse_faults, working_folder_kept
from dpeer.federation.starting import Starting
from dpeer.privacy import Session
from dpeer.privacy.ledger import FOLDER
from dpeer.results.files import rank_folder

if TYPE_CHECKING:
    from dpeer.federation.build import PeerParts


def scratch_in(folder: Path) -> Path | None:
    """Where temporary files go if the system has no folder for them: near a rank's; None if it has one."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        return nearest_existing(folder)
    return None


def nearest_existing(path: Path) -> Path:
    """The path, or the folder nearest above it that exists."""
    path = path.absolute()
    return next(one for one in (path, *path.parents) if one.exists())


@contextlib.contextmanager
def built_aside(config: RunConfig, *, resume: bool = False) -> Iterator[tuple[RunConfig, PeerParts, Path]]:
    """A peer in a copy of its folder, which goes when the block ends: its config there, its parts, and an empty folder.

    Nothing in its own folder is changed: files of privacy are copies, all others links.

    Raises:
        ConfigurationError: The peer cannot start.
        TaskError: The task's model or data raised.
    """
    from dpeer.federation.build import build  # torch takes seconds: other mistakes show at once
    from dpeer.federation.checks import check_plugins

    folder = rank_folder(config.run.out, config.rank)
    with working_folder_kept(), tempfile.TemporaryDirectory(prefix="dpeer-", dir=scratch_in(folder)) as scratch:
        check_plugins(config)
        copy = rank_folder(Path(scratch) / "run", config.rank)
        copy.mkdir(parents=True)
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.name == FOLDER:
                shutil.copytree(path, copy / FOLDER)
            elif path.is_dir() or path.is_file():
                (copy / path.name).symlink_to(path.absolute())
        there = dataclasses.replace(config, run=config.run.model_copy(update={"out": copy.parent}))
        parts = build(there, resume=resume)
        empty = Path(scratch) / "empty"
        empty.mkdir()
        yield there, parts, empty


def planned_privacy(file: Path, rank: int) -> tuple[Session, int, list[str]]:
    """Build a rank's peer as a start does, in a folder that is thrown away; nothing is trained, charged or written.

    Args:
        file: The federation file.
        rank: The rank whose data are here.

    Returns:
        The session, how many values get noise at once, and the lines of the start about privacy, the guarantee first.

    Raises:
        ConfigurationError: The peer cannot start, or its run is not private.
        TaskError: The task's model or data raised.
    """
    settings = config.load(file, {})
    own = Starting(settings, rank).own
    refuse_faults(settings, resume=False)
    if own.privacy == "none":
        raise ConfigurationError(
            f"--federation {str(file)!r}: privacy is none there, so nothing is promised: choose sample or client"
        )
    with built_aside(config.resolve(own, rank)) as (_, parts, _):
        pass
    session, about = parts.learner.session, parts.learner.about
    if session is None:
        raise ConfigurationError(
            f"--federation {str(file)!r}: with algorithm {own.algorithm} nothing is shared, so nothing is released"
        )
    return session, session.noised(about.shared_values, about.trained_together), parts.promises
