"""Progress of runs on stderr: a table redrawn in place, plain lines, or the bar of one peer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from statistics import fmean
from typing import Any, Self

from rich.console import Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from dpeer.cli.tables import filled, plain_table
from dpeer.cli.terminal import Terminal
from dpeer.federation.view import RoundLines, View
from dpeer.results.training_alerts import Alert
from dpeer.results.units import decimals, size

_BAD = ("failed", "stopped")
_HEADS = ("rank", "round", "loss", "accuracy", "sent", "missed")


def open_view(terminal: Terminal, size: int, rounds: int, title: str) -> LiveTable | PlainLines:
    """The view that suits what stderr is."""
    kind = LiveTable if terminal.console.is_terminal else PlainLines
    return kind(terminal, size, rounds, title)


class Printer(View):
    """The lines that both views print; peers never wait for their reader."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._alerts: set[str] = set()

    def __exit__(self, *ended: object) -> None:
        self._terminal.flush()

    def say(self, line: str) -> None:
        """Print the line."""
        self._terminal.offer(line)

    def notes(self, notes: Sequence[str]) -> None:
        """Print the notes."""
        for note in notes:
            self._terminal.offer(f"rank 0: {note}")

    def alert(self, rank: int, alert: Alert) -> None:
        """Print that training goes wrong, once for each kind: the summary names all peers."""
        if alert.kind not in self._alerts:
            self._alerts.add(alert.kind)
            self._terminal.offer(f"rank {rank}: {alert.text}")


class PlainLines(Printer, RoundLines):
    """A line whenever all peers have completed a round."""

    def __init__(self, terminal: Terminal, size: int, rounds: int, title: str) -> None:
        Printer.__init__(self, terminal)
        RoundLines.__init__(self, size, rounds)
        self._title, self._waited_for = title, set[int]()

    def __enter__(self) -> Self:
        self._terminal.offer(self._title)
        return self

    def round(self, line: str) -> None:
        """Print the line."""
        self._terminal.offer(line)

    def status(self, rank: int, status: str) -> None:
        """Print how the peer ended if that is news."""
        if status != "done":
            self._terminal.offer(f"rank {rank} {status}")
        RoundLines.status(self, rank, status)

    def waiting(self, rank: int, neighbors: Sequence[int]) -> None:
        """Print for whom the peer waits; once for each of them."""
        if news := [neighbor for neighbor in neighbors if neighbor not in self._waited_for]:
            self._waited_for.update(news)
            named = f"rank{'s' if len(news) > 1 else ''} {', '.join(map(str, news))}"
            self._terminal.offer(f"rank {rank} has been waiting for {named} for a while")


class LiveTable(Printer):
    """A table that is redrawn in place, on threads of its own."""

    def __init__(self, terminal: Terminal, size: int, rounds: int, title: str) -> None:
        super().__init__(terminal)
        self._rounds, self._title = rounds, title
        self._status = dict.fromkeys(range(size), "starting")
        self._last: dict[int, Mapping[str, Any]] = {}
        self._accuracy: dict[int, float] = {}
        self._sent = Counter[int]()
        console = self._console = terminal.console
        columns = (BarColumn(), TaskProgressColumn(), TextColumn("for"), TimeElapsedColumn(), TextColumn("left"))
        self._progress = Progress(*columns, TimeRemainingColumn(compact=True), console=console)
        self._bar = self._progress.add_task("rounds", total=size * rounds)
        self._live = Live(get_renderable=self.drawing, console=console, refresh_per_second=4, vertical_overflow="crop")

    def __enter__(self) -> Self:
        self._terminal.run(self._live.start)
        return self

    def __exit__(self, *ended: object) -> None:
        self._terminal.run(self._live.stop)
        super().__exit__(*ended)

    def record(self, rank: int, entry: Mapping[str, Any]) -> None:
        """Show the round."""
        self._last[rank], self._status[rank] = entry, "running"
        self._sent[rank] += entry["bytes_sent"]
        if entry["accuracy"] is not None:
            self._accuracy[rank] = entry["accuracy"]
        self._progress.update(self._bar, completed=sum(one["round"] + 1 for one in self._last.values()))

    def status(self, rank: int, status: str) -> None:
        """Show how the peer ended."""
        self._status[rank] = status

    def waiting(self, rank: int, neighbors: Sequence[int]) -> None:
        """Show for whom the peer waits, until it has completed the round."""
        self._status[rank] = f"waits for {', '.join(map(str, neighbors))}"

    def drawing(self) -> Group:
        """The table and the bar as they are now."""
        return Group(self._table(), self._progress)

    def _table(self) -> Table:
        table = plain_table(title=self._title, title_justify="left")
        # More peers than lines: what fits, those that ended badly first; the last line is of all.
        room, every = max(1, self._console.height - 10), self._status
        shown = sorted(every, key=lambda rank: (every[rank] not in _BAD, rank))[:room]
        cells = []
        for rank in sorted(shown):
            entry = self._last.get(rank, {})
            number = f"{entry['round'] + 1}/{self._rounds}" if entry else "-"
            figures = decimals(entry.get("train_loss")), decimals(self._accuracy.get(rank)), size(self._sent[rank])
            missed = ", ".join(map(str, entry.get("missed", ()))) or "-"
            cells.append((str(rank), number, *figures, missed, every[rank]))
        if len(shown) < len(every):
            cells.append(("...", f"{len(every) - len(shown)} more", "", "", "", "", ""))
        accuracy = fmean(self._accuracy.values()) if self._accuracy else None
        cells.append(("all", "", "", decimals(accuracy), size(self._sent.total()), "", ""))
        filled(table, dict.fromkeys(_HEADS, "right") | {"state": "left"}, cells)
        for column in table.columns[1:-1] if self._console.width >= 76 else ():
            column.min_width = 8  # so that none moves from round to round
        return table


class Bar(AbstractContextManager["Bar"]):
    """Progress bar of completed rounds on a terminal; elsewhere nothing.

    It is drawn on threads of its own: `begin` and `completed` never wait for a reader.
    """

    def __init__(self, terminal: Terminal, rounds: int) -> None:
        columns = (
            TextColumn("rounds"), BarColumn(), MofNCompleteColumn(), TextColumn("for"), TimeElapsedColumn(),
            TextColumn("left"), TimeRemainingColumn(compact=True),
        )  # fmt: skip
        console = terminal.console
        self._terminal = terminal
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._rounds = rounds
        self._task = self._progress.add_task("rounds", total=rounds, start=False)

    def __enter__(self) -> Self:
        self._terminal.run(self._progress.start)
        return self

    def __exit__(self, *ended: object) -> None:
        self._terminal.run(self._progress.stop)

    def begin(self) -> None:
        """Show the time left from here on: rounds begin now."""
        self._progress.start_task(self._task)

    def completed(self, rounds: int) -> None:
        """Show so many rounds as completed; a member list may have added some."""
        self._rounds = max(self._rounds, rounds)
        self._progress.update(self._task, completed=rounds, total=self._rounds)
