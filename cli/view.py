"""What a running federation looks like: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from statistics import fmean
from types import TracebackType
from typing import Any, Protocol, Self

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.table import Table

_BAD = ("failed", "stopped")


class View(Protocol):
    """Told what happens in a federation."""

    def record(self, rank: int, entry: Mapping[str, Any]) -> None:
        """A peer has completed a round: its line of metrics.jsonl."""

    def status(self, rank: int, status: str) -> None:
        """A peer has ended (done, stopped, failed)."""

    def notes(self, notes: Sequence[str]) -> None:
        """What rank 0 says of itself before it starts."""


def open_view(console: Console, size: int, rounds: int, title: str) -> LiveTable | PlainLines:
    """The view that suits the console."""
    return LiveTable(console, size, rounds, title) if console.is_terminal else PlainLines(console, size, rounds, title)


@dataclass
class _Row:
    status: str = "starting"
    entry: Mapping[str, Any] = field(default_factory=dict)
    bytes_sent: int = 0
    accuracy: float | None = None

    def update(self, entry: Mapping[str, Any]) -> None:
        self.entry = entry
        self.status = "running"
        self.bytes_sent += entry["bytes_sent"]
        if entry["accuracy"] is not None:
            self.accuracy = entry["accuracy"]


class _Printer:
    """What both views print in lines."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._diverged: set[int] = set()

    def notes(self, notes: Sequence[str]) -> None:
        """Print them."""
        for note in notes:
            self._print(f"rank 0: {note}")

    def _warn_if_diverged(self, rank: int, entry: Mapping[str, Any]) -> None:
        if entry["train_loss"] is None and rank not in self._diverged:
            self._diverged.add(rank)
            self._print(
                f"rank {rank}: training has diverged in round {entry['round'] + 1}, the loss is not finite: lower the "
                "learning rates, or look for NaN in its data"
            )

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


class LiveTable(_Printer, AbstractContextManager["LiveTable"]):
    """A table that is redrawn in place."""

    def __init__(self, console: Console, size: int, rounds: int, title: str) -> None:
        super().__init__(console)
        self._rows = [_Row() for _ in range(size)]
        self._rounds = rounds
        self._title = title
        self._live = Live(get_renderable=self._table, console=console, refresh_per_second=4, vertical_overflow="crop")

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def record(self, rank: int, entry: Mapping[str, Any]) -> None:
        """Show the round."""
        self._rows[rank].update(entry)
        self._warn_if_diverged(rank, entry)

    def status(self, rank: int, status: str) -> None:
        """Show how the peer ended."""
        self._rows[rank].status = status

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
        room = max(1, self._console.height - 9)
        shown = sorted(range(len(self._rows)), key=lambda rank: (self._rows[rank].status not in _BAD, rank))[:room]
        for rank in sorted(shown):
            row = self._rows[rank]
            entry = row.entry
            table.add_row(
                str(rank),
                f"{entry['round'] + 1}/{self._rounds}" if entry else "-",
                number(entry.get("train_loss")),
                number(row.accuracy),
                size(row.bytes_sent),
                missed(entry),
                row.status,
            )
        accuracies = [row.accuracy for row in self._rows if row.accuracy is not None]
        if len(shown) < len(self._rows):
            table.add_row("...", f"{len(self._rows) - len(shown)} more", "", "", "", "", "")
        table.add_section()
        table.add_row("all", "", "", number(fmean(accuracies) if accuracies else None), size(self._sent()), "", "")
        return table

    def _sent(self) -> int:
        return sum(row.bytes_sent for row in self._rows)


class PlainLines(_Printer, AbstractContextManager["PlainLines"]):
    """A line whenever all peers have completed a round."""

    def __init__(self, console: Console, size: int, rounds: int, title: str) -> None:
        super().__init__(console)
        self._size = size
        self._rounds = rounds
        self._title = title
        self._entries: dict[int, dict[int, Mapping[str, Any]]] = {}
        self._gone: set[int] = set()

    def __enter__(self) -> Self:
        self._print(self._title)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def record(self, rank: int, entry: Mapping[str, Any]) -> None:
        """Note the round; print it when everybody has completed it."""
        self._warn_if_diverged(rank, entry)
        self._entries.setdefault(entry["round"], {})[rank] = entry
        self._flush()

    def status(self, rank: int, status: str) -> None:
        """Print how the peer ended if that is news."""
        if status != "done":
            self._print(f"rank {rank} {status}")
        self._gone.add(rank)
        self._flush()

    def _flush(self) -> None:
        for reached in sorted(self._entries):
            entries = self._entries[reached]
            if len(entries) + len(self._gone - entries.keys()) < self._size:
                return
            del self._entries[reached]
            losses = [entry["train_loss"] for entry in entries.values() if entry["train_loss"] is not None]
            found = [entry["accuracy"] for entry in entries.values() if entry["accuracy"] is not None]
            parts = [f"round {reached + 1}/{self._rounds}", f"loss {number(fmean(losses) if losses else None)}"]
            if found:
                parts.append(f"accuracy {fmean(found):.4f} (lowest {min(found):.4f})")
            parts.append(f"sent {size(sum(entry['bytes_sent'] for entry in entries.values()))}")
            if lost := sorted({rank for entry in entries.values() for rank in entry["missed"]}):
                parts.append(f"missed {', '.join(map(str, lost))}")
            self._print(", ".join(parts))


def number(value: float | None) -> str:
    """Four decimals, or a dash."""
    return "-" if value is None else f"{value:.4f}"


def size(count: int) -> str:
    """Bytes for people: 1.2 MB (powers of ten)."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def missed(entry: Mapping[str, Any]) -> str:
    """Which neighbors the round had to do without."""
    return ", ".join(map(str, entry.get("missed", ()))) or "-"
