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
from dpeer.results.units import decimals


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


_EVERY = 0.2
"""Seconds between two writings: short rounds would flood the page."""


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this code, and not a terminal or a script."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


_FIGURES = ("train_loss", "accuracy")


class NotebookLine(View):
    """Writes the round that all peers have completed, and how they do, on stdout.

    Args:
        size: Number of peers.
        rounds: Number of rounds.
    """

    def __init__(self, size: int, rounds: int) -> None:
        self._rounds = rounds
        self._last: dict[int, Mapping[str, Any]] = {}
        self._running = {*range(size)}
        self._shown, self._written = "", -_EVERY

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write()
        if self._shown:
            sys.stdout.write("\n")

    def record(self, rank: int, entry: Mapping[str, Any]) -> None:
        """Take the line of metrics.jsonl of a round that a peer has completed."""
        self._last[rank] = entry
        if time.monotonic() - self._written >= _EVERY:
            self._write()

    def status(self, rank: int, status: str) -> None:
        """Take note that a peer has ended: no round waits for it."""
        if status != "done":
            self._running.discard(rank)

    def alert(self, rank: int, alert: Alert) -> None:
        """Write the alert above the line."""
        self.say(f"rank {rank}: {alert.text}")

    def say(self, line: str) -> None:
        """Write a line of its own."""
        self._over(line)
        sys.stdout.write("\n")
        self._shown = ""

    def _write(self) -> None:
        """Write where the run is over the line before, if a round is complete."""
        least = min((self._last[rank]["round"] + 1 if rank in self._last else 0 for rank in self._running), default=0)
        if not least:
            return
        parts = [f"round {least}/{self._rounds}"]
        found = {key: [one[key] for one in self._last.values() if one[key] is not None] for key in _FIGURES}
        if losses := found["train_loss"]:
            parts.append(f"loss {decimals(fmean(losses))}")
        if accuracies := found["accuracy"]:
            parts.append(f"accuracy {fmean(accuracies):.4f} (lowest {min(accuracies):.4f})")
        self._over(", ".join(parts))
        self._written = time.monotonic()

    def _over(self, line: str) -> None:
        sys.stdout.write("\r" * bool(self._shown) + line.ljust(len(self._shown)))
        sys.stdout.flush()
        self._shown = line
