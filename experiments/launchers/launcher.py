"""Interface of a launcher: starts cells, reports how each has ended, stops them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from dpeer.experiments.cells import Cell

Status = Literal["done", "stopped", "failed", "lost"]


@dataclass(frozen=True)
class Ended:
    """How a cell ended, in values that can be sent between processes.

    Attributes:
        status: `done`; `stopped` by a signal, after its last minibatch; `failed` with an error of its own; `lost` with
            its worker, so that only files are left.
        error: What failed, or why the worker is lost.
        exit_code: Of an error.
        traceback: The worker's own.
    """

    status: Status
    error: str | None = None
    exit_code: int = 0
    traceback: str = ""


class Launcher(Protocol):
    """Runs cells somewhere. One thread calls all methods but `kill`."""

    @property
    def room(self) -> int:
        """Number of cells that are started at a time."""

    def start(self, cell: Cell) -> None:
        """Start a cell, which its caller has claimed.

        Raises:
            DpeerError: It cannot be started here.
        """

    def ended(self, seconds: float) -> Sequence[tuple[Cell, Ended]]:
        """Wait for at most so many seconds until a started cell has ended; the cells that have."""

    def stop(self) -> None:
        """Stop all started cells after their current minibatch; each still ends, as `ended` returns it."""

    def kill(self) -> None:
        """End all started cells at once, from a signal's handler: this process ends next."""


OpenLauncher = Callable[[Sequence[Cell]], AbstractContextManager[Launcher]]
"""Opens a launcher for these cells."""

Prepare = Callable[[int | None, Path], OpenLauncher]
"""What a launcher's module calls `prepare`; see `dpeer.experiments.launchers.find_launcher`."""
