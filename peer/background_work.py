"""Work that a peer does while it waits for others: it is nobody else's affair, and must not hold the round up."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from dpeer.peer.worker import Worker

T = TypeVar("T")

_SLICE = 0.25
"""Seconds after which work makes room for others at the latest: peers of a simulation share their threads."""


class IdleWork(Protocol):
    """Work that may be done in any number of parts."""

    @property
    def left(self) -> bool:
        """Whether there is some that may be done while the peer waits."""

    def work(self, enough: Callable[[], bool]) -> None:
        """Do some, until soon after `enough` gives True; called on the peer's worker, and never raises."""


class Idle:
    """Fills a peer's waiting times with work.

    Args:
        worker: The peer's.
        work: What is done; None for nothing.
    """

    def __init__(self, worker: Worker, work: IdleWork | None) -> None:
        self._worker, self._work = worker, work

    async def during(self, waiting: Coroutine[Any, Any, T]) -> T:
        """Await something, and work meanwhile; what is ready at once is not held up."""
        if self._work is None or not self._work.left:
            return await waiting
        awaited = asyncio.create_task(waiting)
        over = threading.Event()
        awaited.add_done_callback(lambda _: over.set())
        try:
            await asyncio.sleep(0)  # its first look
            while not awaited.done() and self._work.left:
                await self._worker.run(self._work.work, _until(over))
            return await awaited
        finally:
            over.set()
            awaited.cancel()
            await asyncio.gather(awaited, return_exceptions=True)


def _until(over: threading.Event) -> Callable[[], bool]:
    """Gives True when `over` is set, or when a slice's time is up."""
    end = time.monotonic() + _SLICE
    return lambda: over.is_set() or time.monotonic() > end
