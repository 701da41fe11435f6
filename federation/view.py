"""View: what gets the progress of a run, which are rounds, ends, alerts, notes and waits of peers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from dpeer.results.training_alerts import Alert


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
