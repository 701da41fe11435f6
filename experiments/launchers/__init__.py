"""Launchers: where `dpeer compare` runs its cells, by name; a launcher is one file with a function `prepare`."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpeer.experiments.launchers.launcher import OpenLauncher, Prepare

LAUNCHERS = {
    "local": "dpeer.experiments.launchers.local",
    "ray": "dpeer.experiments.launchers.ray_cluster",
}
"""Modules by name, imported when they are used."""


def find_launcher(name: str, jobs: int | None, out: Path) -> OpenLauncher:
    """Find a launcher and check what it needs; nothing is started.

    Args:
        name: One of `LAUNCHERS`.
        jobs: Cells at a time; None for the launcher's own number.
        out: The comparison's folder.

    Raises:
        ConfigurationError: A library is missing.
    """
    prepare: Prepare = importlib.import_module(LAUNCHERS[name]).prepare
    return prepare(jobs, out)
