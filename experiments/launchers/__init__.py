"""Launchers: where `dpeer compare` runs its cells, by name; a launcher is one file with a function `prepare`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpeer.experiments.launchers.launcher import OpenLauncher, Prepare

LAUNCHERS = {
    "local": "dpeer.experiments.launchers.local",
    "ray": "dpeer.experiments.launchers.ray_cluster",
    "slurm": "dpeer.experiments.launchers.slurm",
}
"""Modules by name, imported when they are used."""


def find_launcher(name: str, jobs: int | None, options: Mapping[str, Any], out: Path) -> OpenLauncher:
    """Find a launcher and check what it needs; nothing is started.

    Args:
        name: One of `LAUNCHERS`.
        jobs: Cells at a time; None for the launcher's own number.
        options: The launcher's options, by name.
        out: The comparison's folder.

    Raises:
        ConfigurationError: A library or command is missing, or an option is unknown or out of range.
    """
    prepare: Prepare = importlib.import_module(LAUNCHERS[name]).prepare
    return prepare(jobs, options, out)
