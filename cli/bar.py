"""One peer on a terminal: a bar under its log lines."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Bar(AbstractContextManager["Bar"]):
    """Shows how many rounds are completed, where there is a terminal; elsewhere nothing.

    Args:
        console: Where it is shown; log lines go there, too.
        rounds: How many rounds there are.

    Attributes:
        handler: Writes log lines above the bar.
    """

    def __init__(self, console: Console, rounds: int) -> None:
        columns = (
            TextColumn("rounds"), BarColumn(), MofNCompleteColumn(), TextColumn("for"), TimeElapsedColumn(),
            TextColumn("left"), TimeRemainingColumn(compact=True),
        )  # fmt: skip
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._progress.add_task("rounds", total=rounds, start=False)
        self.handler: logging.Handler = _Lines(console) if console.is_terminal else logging.StreamHandler()

    def __enter__(self) -> Self:
        self._progress.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.__exit__(kind, error, trace)

    def begin(self) -> None:
        """Rounds begin now: from here on the time that is left is told."""
        self._progress.start_task(self._task)

    def completed(self, rounds: int) -> None:
        """So many rounds are completed."""
        self._progress.update(self._task, completed=rounds)


class _Lines(logging.Handler):
    """Prints log lines on a console, above what it redraws."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Print a line as it is."""
        self._console.print(self.format(record), markup=False, highlight=False, soft_wrap=True)
