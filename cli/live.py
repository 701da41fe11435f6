"""A running federation on a terminal: a table and a progress bar, redrawn in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from statistics import fmean
from types import TracebackType
from typing import Any, Self

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from dpeer.cli.plain_view import PlainLines, Printer
from dpeer.cli.terminal import Terminal
from dpeer.results.units import decimals, size

_BAD = ("failed", "stopped")


def open_view(terminal: Terminal, size: int, rounds: int, title: str) -> LiveTable | PlainLines:
    """The view that suits what stderr is."""
    kind = LiveTable if terminal.console.is_terminal else PlainLines
    return kind(terminal, size, rounds, title)


@dataclass
class _Row:
    status: str = "starting"
    entry: Mapping[str, Any] = field(default_factory=dict)
    bytes_sent: int = 0
    accuracy: float | None = None
    completed: int = 0

    def update(self, entry: Mapping[str, Any]) -> None:
        self.entry = entry
        self.status = "running"
        self.completed = entry["round"] + 1
        self.bytes_sent += entry["bytes_sent"]
        if entry["accuracy"] is not None:
            self.accuracy = entry["accuracy"]


class LiveTable(Printer, AbstractContextManager["LiveTable"]):
    """A table that is redrawn in place, on threads of its own."""

    def __init__(self, terminal: Terminal, size: int, rounds: int, title: str) -> None:
        super().__init__(terminal)
        console = self._console = terminal.console
        self._rows = [_Row() for _ in range(size)]
        self._rounds = rounds
        self._title = title
        columns = (BarColumn(), TaskProgressColumn(), TextColumn("for"), TimeElapsedColumn(), TextColumn("left"))
        self._progress = Progress(*columns, TimeRemainingColumn(compact=True), console=console)
        self._bar = self._progress.add_task("rounds", total=size * rounds)
        self._live = Live(get_renderable=self._shown, console=console, refresh_per_second=4, vertical_overflow="crop")

    def __enter__(self) -> Self:
        self._terminal.run(self._live.start)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._terminal.run(self._live.stop)
        self._terminal.flush()

    def record(self, rank: int, entry: Mapping[str, Any]) -> None:
        """Show the round."""
        self._rows[rank].update(entry)
        self._progress.update(self._bar, completed=sum(row.completed for row in self._rows))

    def status(self, rank: int, status: str) -> None:
        """Show how the peer ended."""
        self._rows[rank].status = status

    def waiting(self, rank: int, neighbors: Sequence[int]) -> None:
        """Show for whom the peer waits, until it has completed the round."""
        self._rows[rank].status = f"waits for {', '.join(map(str, neighbors))}"

    def _shown(self) -> Group:
        return Group(self._table(), self._progress)

    def _table(self) -> Table:
        wide = self._console.width >= 76
        table = Table(title=self._title, title_justify="left")
        if not wide:
            table.box, table.pad_edge, table.padding = SIMPLE_HEAD, False, (0, 1, 0, 0)
        table.add_column("rank", justify="right")
        for name in ("round", "loss", "accuracy", "sent", "missed"):
            table.add_column(name, justify="right", min_width=8 if wide else None, no_wrap=True)
        table.add_column("state", no_wrap=True)
        # More peers than lines: what fits, those that ended badly first; the last line is of all.
        room = max(1, self._console.height - 10)
        shown = sorted(range(len(self._rows)), key=lambda rank: (self._rows[rank].status not in _BAD, rank))[:room]
        for rank in sorted(shown):
            row = self._rows[rank]
            entry = row.entry
            table.add_row(
                str(rank),
                f"{entry['round'] + 1}/{self._rounds}" if entry else "-",
                decimals(entry.get("train_loss")),
                decimals(row.accuracy),
                size(row.bytes_sent),
                missed(entry),
                row.status,
            )
        accuracies = [row.accuracy for row in self._rows if row.accuracy is not None]
        if len(shown) < len(self._rows):
            table.add_row("...", f"{len(self._rows) - len(shown)} more", "", "", "", "", "")
        table.add_section()
        table.add_row("all", "", "", decimals(fmean(accuracies) if accuracies else None), size(self._sent()), "", "")
        return table

    def _sent(self) -> int:
        return sum(row.bytes_sent for row in self._rows)


def missed(entry: Mapping[str, Any]) -> str:
    """The neighbors whose bodies a round lacks, as text."""
    return ", ".join(map(str, entry.get("missed", ()))) or "-"
