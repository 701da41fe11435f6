"""View: the interface of a run's progress display, which gets rounds, ends, alerts, notes and waits of peers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol

from dpeer.results.training_alerts import Alert


class View(Protocol):
    """Gets the progress of a run."""

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


class Silent(AbstractContextManager["Silent"]):
    """A view that shows nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def record(self, rank: int, entry: Mapping[str, Any]) -> None:
        """See `View.record`."""

    def status(self, rank: int, status: str) -> None:
        """See `View.status`."""

    def alert(self, rank: int, alert: Alert) -> None:
        """See `View.alert`."""

    def waiting(self, rank: int, neighbors: Sequence[int]) -> None:
        """See `View.waiting`."""

    def say(self, line: str) -> None:
        """See `View.say`."""

    def notes(self, notes: Sequence[str]) -> None:
        """See `View.notes`."""
