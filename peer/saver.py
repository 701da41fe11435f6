"""Saver: has a completed round saved while the next one trains, whose body and heartbeats wait for that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from dpeer.peer.rank_folder import RankFolder
from dpeer.peer.worker import Worker
from dpeer.results.records import RoundRecord


class Saver:
    """Completes rounds: a copy is made in memory, then written beside the next round.

    Args:
        files: The peer's; they make the copy and write it.
        worker: Where both is done: the copy on the thread that trains, the writing on the one for the disk.
        on_completed: Called with the round, on the event loop, when it is complete and the next has not begun.
        on_saved: Called with the round's line of metrics.jsonl, on the event loop, when that is written and so is the
            checkpoint, if one is due after this round.

    Attributes:
        files: As given.
    """

    def __init__(
        self,
        files: RankFolder,
        worker: Worker,
        on_completed: Callable[[int], None],
        on_saved: Callable[[dict[str, Any]], None],
    ) -> None:
        self.files, self._worker = files, worker
        self._on_completed, self._on_saved = on_completed, on_saved
        self._completed = self._saved = -1
        self._writing: asyncio.Task[None] | None = None
        self._held_back: list[Callable[[], None]] = []

    def begin(self, number: int) -> None:
        """Begin with round `number`: those before it are saved."""
        self._completed = self._saved = number - 1

    async def complete(self, record: RoundRecord, *, over: bool = False) -> None:
        """Complete a round; when this returns the learner may go on, and the round is being written.

        The round before must be saved (`saved`), so only one copy exists at a time.

        Args:
            record: Its line of metrics.jsonl.
            over: Whether this peer has sat it out, and may sit it out again after a crash.
        """
        entry = record.as_dict()
        await self._worker.run(self.files.complete, entry, over=over)
        self._note_completed(entry)
        self._writing = asyncio.create_task(self._write(entry))

    def once_saved(self, call: Callable[[], None]) -> None:
        """Call once all completed rounds are saved: now, if they are."""
        if self._writing is None:
            call()
        else:
            self._held_back.append(call)

    async def saved(self) -> None:
        """Wait until all completed rounds are saved, and the calls held back are made.

        Raises:
            OSError: The disk refused; no call that was held back is made.
        """
        if self._writing is not None:
            await asyncio.shield(self._writing)

    async def close(self) -> BaseException | None:
        """When no round is running any more: write a checkpoint of the last completed round, if it lacks one.

        Messages held back never leave.

        Returns:
            What went wrong, if it did: then nothing more is written.
        """
        self._held_back.clear()
        try:
            await self.saved()
            await self._worker.write(self.files.save, now=True)
        except Exception as error:
            return error
        if (last := self.files.progress.last) is not None:
            self._note(last)  # stopped while it was completed
        return None

    async def _write(self, entry: dict[str, Any]) -> None:
        await self._worker.write(self.files.save)
        self._note(entry)
        self._writing = None
        for call in self._held_back:
            call()
        self._held_back.clear()

    def _note(self, entry: dict[str, Any]) -> None:
        self._note_completed(entry)
        if self._saved < entry["round"]:
            self._saved = entry["round"]
            self._on_saved(entry)

    def _note_completed(self, entry: dict[str, Any]) -> None:
        if self._completed < entry["round"]:
            self._completed = entry["round"]
            self._on_completed(entry["round"])
