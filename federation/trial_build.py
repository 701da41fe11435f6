"""Trial build: a peer that is built as a start builds it, in a folder that is thrown away."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dpeer.federation.config import RunConfig
from dpeer.federation.folders import working_folder_kept
from dpeer.federation.host_checks import scratch_in
from dpeer.privacy.ledger import FOLDER
from dpeer.results.files import rank_folder

if TYPE_CHECKING:
    from dpeer.federation.build import PeerParts


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
