"""Who is told what happens in a federation while it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol


class View(Protocol):
    """Told what happens in a federation."""

    def record(self, rank: int, entry: Mapping[str, Any]) -> None:
        """A peer has completed a round: its line of metrics.jsonl."""

    def status(self, rank: int, status: str) -> None:
        """A peer has ended (done, stopped, failed)."""

    def notes(self, notes: Sequence[str]) -> None:
        """What rank 0 says of itself before it starts."""


class Silent(AbstractContextManager["Silent"]):
    """A view that says nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def record(self, rank: int, entry: Mapping[str, Any]) -> None:
        """See `View.record`."""

    def status(self, rank: int, status: str) -> None:
        """See `View.status`."""

    def notes(self, notes: Sequence[str]) -> None:
        """See `View.notes`."""
