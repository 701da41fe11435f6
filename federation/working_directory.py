"""The folder in which a run is started: relative paths lead from it, wherever a user's task or algorithm goes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from dpeer.exceptions import ConfigurationError


@contextlib.contextmanager
def home_kept() -> Iterator[Path]:
    """The current folder; whatever folder the process changes to within the block, afterwards it is back there.

    Raises:
        ConfigurationError: The current folder was deleted.
    """
    home = current_folder()
    try:
        yield home
    finally:
        with contextlib.suppress(OSError):  # deleted in mid-run: nothing is left to go back to
            os.chdir(home)


def current_folder() -> Path:
    """The current folder.

    Raises:
        ConfigurationError: It was deleted.
    """
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise ConfigurationError("the current folder was deleted: change to one that exists (cd)") from error
