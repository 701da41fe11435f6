"""Writer of a round's progress (`--checkpoint-minutes`): to disk every so many seconds, while training goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from dpeer.peer.learner import SaveCopy, UnfinishedRound
from dpeer.peer.rank_folder import RankFolder
from dpeer.peer.worker import Worker


class UnfinishedWriter:
    """Writes copies of the progress of the round that a learner trains.

    A copy is made between two minibatches, on the thread that trains; the one for the disk writes it. The next is asked
    for once the last is on disk. A disk that refuses a copy costs a warning: the round itself is saved as ever.

    Args:
        progress: The learner's.
        files: Writes the copies.
        worker: Where they are written.
        seconds: Seconds of training between two copies.
        saved: Waits until all completed rounds are on disk.
        warn: Called on the event loop with a sentence if a copy could not be written.
    """

    def __init__(
        self,
        progress: UnfinishedRound,
        files: RankFolder,
        worker: Worker,
        seconds: float,
        saved: Callable[[], Awaitable[None]],
        warn: Callable[[str], None],
    ) -> None:
        self._progress, self._files, self._worker, self._seconds = progress, files, worker, seconds
        self._saved, self._warn = saved, warn
        self._writing: asyncio.Task[None] | None = None
        progress.keep()

    @asynccontextmanager
    async def during(self, number: int) -> AsyncIterator[None]:
        """Context in which round `number` is trained."""
        await self.written()
        over = asyncio.Event()
        self._writing = asyncio.create_task(self._repeat(number, over))
        try:
            yield
        finally:
            over.set()
            self._progress.ask(None)

    async def written(self) -> None:
        """Wait until a copy that was made is on disk."""
        if self._writing is not None:
            await asyncio.shield(self._writing)

    async def close(self, numbers: Iterable[int]) -> int | None:
        """When nothing trains any more: write how far one of these rounds is trained; returns which is on disk."""
        await self.written()
        for number in numbers:
            copied = await self._worker.run(self._progress.copied, number)
            if copied is not None:
                return number if await self._write(number, copied) else None
        return None

    async def _repeat(self, number: int, over: asyncio.Event) -> None:
        while not await _happens(over, self._seconds):
            copied = await self._copy(over)
            if copied is None:
                return
            await self._saved()
            await self._write(number, copied)

    async def _copy(self, over: asyncio.Event) -> SaveCopy | None:
        """The copy that the training gives at its next minibatch; None if it is over before."""
        loop = asyncio.get_running_loop()
        copied: asyncio.Future[SaveCopy] = loop.create_future()

        def take(copy: SaveCopy) -> None:
            loop.call_soon_threadsafe(copied.set_result, copy)

        self._progress.ask(take)
        ended = asyncio.ensure_future(over.wait())
        awaited: set[asyncio.Future[Any]] = {copied, ended}
        await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        return copied.result() if copied.done() else None

    async def _write(self, number: int, copied: SaveCopy) -> bool:
        try:
            await self._worker.write(self._files.save_unfinished, number, copied)
        except OSError as error:
            self._warn(
                f"how far round {number + 1} is trained cannot be saved: {error}; only a peer that ends in this round "
                "trains this part again"
            )
            return False
        return True


async def _happens(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event, for so long at most; returns whether it has happened."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
