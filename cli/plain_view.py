"""Progress of a running federation as plain lines, for output that is no terminal."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from statistics import fmean
from types import TracebackType
from typing import Any, Self

from dpeer.cli.terminal import Terminal
from dpeer.results.training_alerts import Alert
from dpeer.results.units import decimals, size

_SHORT = {
    "diverged": "training has diverged",
    "jump": "the loss has jumped",
    "fast": "the learning rates are too fast",
    "flat": "the loss has stayed flat",
    "majority": "no better than the most frequent class",
    "threshold": "no better than the most frequent class, by a threshold that hides what is learned",
}

_TOLD = 8
"""Of more peers with the same sign nothing is printed until the end."""


class Printer:
    """The lines that both views print. The peers never wait for whoever reads them."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._signs: dict[str, list[int]] = {}

    def say(self, line: str) -> None:
        """Print the line."""
        self._terminal.offer(line)

    def notes(self, notes: Sequence[str]) -> None:
        """Print the notes."""
        for note in notes:
            self._terminal.offer(f"rank 0: {note}")

    def sign(self, rank: int, sign: Alert) -> None:
        """Say that a peer's training goes wrong: in full of the first peer, and in a word of the others."""
        seen = self._signs.setdefault(sign.kind, [])
        seen.append(rank)
        if len(seen) == 1:
            self._terminal.offer(f"rank {rank}: {sign.text}")
        elif len(seen) <= _TOLD:
            self._terminal.offer(f"rank {rank}: {_SHORT[sign.kind]}, like rank {seen[0]}")


class PlainLines(Printer, AbstractContextManager["PlainLines"]):
    """A line whenever all peers have completed a round."""

    def __init__(self, terminal: Terminal, size: int, rounds: int, title: str) -> None:
        super().__init__(terminal)
        self._size = size
        self._rounds = rounds
        self._title = title
        self._entries: dict[int, dict[int, Mapping[str, Any]]] = {}
        self._gone: set[int] = set()
        self._waited_for: set[int] = set()
        self._first: tuple[int, float] | None = None  # a round, and when it was printed

    def __enter__(self) -> Self:
        self._terminal.offer(self._title)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._terminal.flush()

    def record(self, rank: int, entry: Mapping[str, Any]) -> None:
        """Note the round; print it when everybody has completed it."""
        self._entries.setdefault(entry["round"], {})[rank] = entry
        self._flush()

    def status(self, rank: int, status: str) -> None:
        """Print how the peer ended if that is news."""
        if status != "done":
            self._terminal.offer(f"rank {rank} {status}")
        self._gone.add(rank)
        self._flush()

    def waiting(self, rank: int, neighbors: Sequence[int]) -> None:
        """Print for whom the peer waits; once for each of them, whoever waits."""
        if news := [neighbor for neighbor in neighbors if neighbor not in self._waited_for]:
            self._waited_for.update(news)
            named = f"rank{'s' if len(news) > 1 else ''} {', '.join(map(str, news))}"
            self._terminal.offer(f"rank {rank} has been waiting for {named} for a while")

    def _flush(self) -> None:
        for number in sorted(self._entries):
            entries = self._entries[number]
            if len(entries) + len(self._gone - entries.keys()) < self._size:
                return
            del self._entries[number]
            losses = [entry["train_loss"] for entry in entries.values() if entry["train_loss"] is not None]
            found = [entry["accuracy"] for entry in entries.values() if entry["accuracy"] is not None]
            parts = [f"round {number + 1}/{self._rounds}", f"loss {decimals(fmean(losses) if losses else None)}"]
            if found:
                parts.append(f"accuracy {fmean(found):.4f} (lowest {min(found):.4f})")
            parts.append(f"sent {size(sum(entry['bytes_sent'] for entry in entries.values()))}")
            # Who sat the round out mixed nothing, and those that it did not hear were there.
            if lost := sorted({rank for entry in entries.values() if entry["active"] for rank in entry["missed"]}):
                parts.append(f"missed {', '.join(map(str, lost))}")
            if left := self._left(number):
                parts.append(left)
            self._terminal.offer(", ".join(parts))

    def _left(self, number: int) -> str:
        """The time that the rest of the run will take, as text; empty if it is too early or too short to say."""
        now = time.monotonic()
        if self._first is None:
            self._first = (number, now)
            return ""
        began, since = self._first
        seconds = (now - since) / (number - began) * (self._rounds - 1 - number)
        return f"{seconds / 60:.0f} min left" if seconds >= 60 else ""
