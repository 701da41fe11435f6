"""One peer on a terminal: a bar under its log lines."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dpeer.cli.terminal import Terminal


class Bar(AbstractContextManager["Bar"]):
    """Progress bar of completed rounds on a terminal; elsewhere nothing.

    It is drawn on threads of its own: `begin` and `completed` wait for nobody who does not read.

    Args:
        terminal: Where it is shown, under the lines.
        rounds: Number of rounds.
    """

    def __init__(self, terminal: Terminal, rounds: int) -> None:
        columns = (
            TextColumn("rounds"), BarColumn(), MofNCompleteColumn(), TextColumn("for"), TimeElapsedColumn(),
            TextColumn("left"), TimeRemainingColumn(compact=True),
        )  # fmt: skip
        console = terminal.console
        self._terminal = terminal
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._progress.add_task("rounds", total=rounds, start=False)

    def __enter__(self) -> Self:
        self._terminal.run(self._progress.start)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._terminal.run(self._progress.stop)

    def begin(self) -> None:
        """Rounds begin now: from here on the bar shows the time left."""
        self._progress.start_task(self._task)

    def completed(self, rounds: int) -> None:
        """So many rounds are completed."""
        self._progress.update(self._task, completed=rounds)
