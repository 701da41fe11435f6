"""Runs a peer's tensor work on threads, so that the event loop keeps answering."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Worker:
    """Runs one peer's jobs: on an executor one at a time, because each is awaited, and one beside that for the disk.

    Args:
        executor: A daemon owns a single thread, so that thread-local and CUDA-stream state persist; peers of a
            simulation share as many threads as there are cores.
        disk: Runs the jobs that wait for the disk; `executor` does if None. With another one, a peer can train while
            its last round's checkpoint is flushed.
    """

    def __init__(self, executor: Executor, disk: Executor | None = None) -> None:
        self._executor = executor
        self._disk = disk or executor
        self._jobs: dict[Executor, asyncio.Future[Any]] = {}

    async def run(self, job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the job and return what it returns. Cancelling the wait does not stop a job that has begun."""
        return await self._run(self._executor, lambda: job(*args, **kwargs))

    async def write(self, job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a job that is mostly waiting for the disk, as `run` does."""
        return await self._run(self._disk, lambda: job(*args, **kwargs))

    async def _run(self, executor: Executor, job: Callable[[], T]) -> T:
        future = asyncio.wrap_future(executor.submit(job))
        self._jobs[executor] = future
        return await asyncio.shield(future)

    async def drain(self) -> BaseException | None:
        """Wait for the jobs that a cancelled `run` or `write` left behind; returns what one of them raised."""
        outcomes = await asyncio.gather(*self._jobs.values(), return_exceptions=True)
        return next((outcome for outcome in outcomes if isinstance(outcome, BaseException)), None)
