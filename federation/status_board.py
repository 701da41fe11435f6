"""Board on which a peer's event loop leaves its status, and from which threads read it without holding up the loop."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from dpeer.federation.status_document import KEPT, Document, document, history_line, running_peer
from dpeer.peer.snapshot import Snapshot

EVERY = 1.0
"""Seconds between two fillings where nothing happens."""


class StatusBoard:
    """The last snapshot and the last rounds of one peer.

    The event loop alone writes, and only replaces what stands there by new, frozen values. So a reader takes no lock,
    and whatever it does afterwards costs the loop nothing.

    Args:
        folder: The name of the rank's folder.
        take: Takes the peer's snapshot, on the event loop.
        private: Whether the data are protected: accuracy and losses are not shown then.
    """

    def __init__(self, folder: str, take: Callable[[], Snapshot], *, private: bool) -> None:
        self._folder, self._take, self._private = folder, take, private
        self._history: tuple[Mapping[str, Any], ...] = ()
        self._shown = (take(), time.monotonic())

    def follow(self, take: Callable[[], Snapshot]) -> None:
        """Take snapshots in another way from now on."""
        self._take = take
        self.fill()

    def fill(self) -> None:
        """Put the present snapshot on the board; called on the event loop.

        A peer never fails for the sake of its status: one that cannot be taken leaves the last, whose age shows it.
        """
        with contextlib.suppress(Exception):
            self._shown = (self._take(), time.monotonic())

    def add_round(self, entry: Mapping[str, Any]) -> None:
        """Put a round on the board, and the present snapshot; called on the event loop.

        Args:
            entry: The round's line of metrics.jsonl.
        """
        self._history = (*self._history[1 - KEPT :], history_line(entry, private=self._private))
        self.fill()

    def recall(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Begin the history with rounds of an earlier process; called on the event loop, before the first `add_round`.

        Args:
            entries: Their lines of metrics.jsonl, in order.
        """
        self._history = tuple(history_line(entry, private=self._private) for entry in entries[-KEPT:])

    async def keep_filled(self) -> None:
        """Fill the board once a second, until cancelled."""
        while True:
            self.fill()
            await asyncio.sleep(EVERY)

    def answer(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer a "status" request of the control socket, with the history where that is asked for; on the loop."""
        found = asdict(self._take())
        return found | {"history": list(self._history)} if request.get("history") is True else found

    def read(self) -> Document:
        """The document of this peer; any thread may call this."""
        (snapshot, taken), history = self._shown, self._history
        age = round(time.monotonic() - taken, 3)
        return document([running_peer(self._folder, asdict(snapshot), history, age=age)])
