"""View: what gets the progress of a run; in a notebook, one line below the cell, written anew as rounds complete."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from statistics import fmean
from types import TracebackType
from typing import Any

from dpeer.results.training_alerts import Alert
from dpeer.results.units import decimals, size


class View(AbstractContextManager["View"]):
    """Gets the progress of a run; this one shows nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def take(self, rank: int, event: Mapping[str, Any]) -> None:
        """Take a peer's progress (`dpeer.peer.peer.Report`)."""
        match event["kind"]:
            case "record":
                self.record(rank, event["entry"])
            case "waiting":
                self.waiting(rank, event["neighbors"])
            case "alert":
                self.alert(rank, Alert(**event["alert"]))

    def record(self, rank: int, entry: Mapping[str, Any]) -> None:
        """Take the line of metrics.jsonl of a round that a peer has completed."""

    def status(self, rank: int, status: str) -> None:
        """Take note that a peer has ended (done, stopped, failed)."""

    def alert(self, rank: int, alert: Alert) -> None:
        """Take a training alert of a peer; each kind comes once."""

    def waiting(self, rank: int, neighbors: Sequence[int]) -> None:
        """Take note that a peer's round has long been waiting for neighbors that are alive."""

    def say(self, line: str) -> None:
        """Take a line for the user, about the run as a whole."""

    def notes(self, notes: Sequence[str]) -> None:
        """Take rank 0's notes to the user, before it starts."""


class RoundLines(View):
    """Makes a line of each round, once all peers that still run have completed it."""

    def __init__(self, size: int, rounds: int) -> None:
        self._rounds, self._running, self._shown = rounds, {*range(size)}, -1
        self._entries: dict[int, dict[int, Mapping[str, Any]]] = {}

    def round(self, line: str) -> None:
        """Take the line of a round."""

    def record(self, rank: int, entry: Mapping[str, Any]) -> None:
        """Take the line of metrics.jsonl of a round that a peer has completed; one that comes back may have less."""
        if entry["round"] > self._shown:
            self._entries.setdefault(entry["round"], {})[rank] = entry
            self._complete()

    def status(self, rank: int, status: str) -> None:
        """Take note that a peer has ended: no round waits for it."""
        self._running.discard(rank)
        self._complete()

    def _complete(self) -> None:
        for number in sorted(self._entries):
            if self._running - self._entries[number].keys():
                return
            self._shown, entries = number, [*self._entries.pop(number).values()]
            losses, found = ([one[key] for one in entries if one[key] is not None] for key in _FIGURES)
            parts = [f"round {number + 1}/{self._rounds}", f"loss {decimals(fmean(losses) if losses else None)}"]
            if found:
                parts.append(f"accuracy {fmean(found):.4f} (lowest {min(found):.4f})")
            parts.append(f"sent {size(sum(one['bytes_sent'] for one in entries))}")
            # A peer that sat the round out mixed nothing: its missed neighbors were there.
            if lost := sorted({rank for one in entries if one["active"] for rank in one["missed"]}):
                parts.append(f"missed {', '.join(map(str, lost))}")
            self.round(", ".join(parts))


_FIGURES = ("train_loss", "accuracy")

_EVERY = 0.2
"""Seconds between two writings: short rounds would flood the page."""


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this code, and not a terminal or a script."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


class NotebookLine(RoundLines):
    """Writes the last round's line on stdout, over that of the one before."""

    def __init__(self, size: int, rounds: int) -> None:
        super().__init__(size, rounds)
        self._latest = self._written = ""
        self._at = -_EVERY

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._latest:
            self._over(self._latest)
            sys.stdout.write("\n")

    def round(self, line: str) -> None:
        """Write the line, if some time has gone by since the last one."""
        self._latest = line
        if time.monotonic() - self._at >= _EVERY:
            self._over(line)
            self._at = time.monotonic()

    def alert(self, rank: int, alert: Alert) -> None:
        """Write the alert above the line."""
        self.say(f"rank {rank}: {alert.text}")

    def say(self, line: str) -> None:
        """Write a line of its own."""
        self._over(line)
        sys.stdout.write("\n")
        self._written = ""

    def _over(self, line: str) -> None:
        sys.stdout.write("\r" * bool(self._written) + line.ljust(len(self._written)))
        sys.stdout.flush()
        self._written = line
