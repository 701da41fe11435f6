"""Worker: runs one peer's tensor jobs and disk jobs on given executors, off the event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Worker:
    """Runs one peer's jobs: on an executor one at a time, because each is awaited, and one beside that for the disk.

    Args:
        executor: A daemon owns a single thread, so that thread-local and CUDA-stream state persist; peers of a
            simulation share one thread a core.
        disk: Runs the jobs that wait for the disk; `executor` does if None. With another one, a peer can train while
            its last round's checkpoint is flushed.
    """

    def __init__(self, executor: Executor, disk: Executor | None = None) -> None:
        self._executor = executor
        self._disk = disk or executor
        self._jobs: dict[Executor, Future[Any]] = {}

    async def run(self, job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the job and return what it returns. Cancelling the wait does not stop a job that has begun."""
        return await self._run(self._executor, lambda: job(*args, **kwargs))

    async def write(self, job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a job that is mostly waiting for the disk, as `run` does."""
        return await self._run(self._disk, lambda: job(*args, **kwargs))

    async def _run(self, executor: Executor, job: Callable[[], T]) -> T:
        running: Future[T] = executor.submit(job)
        self._jobs[executor] = running
        await _over(running)
        return running.result()

    async def drain(self) -> BaseException | None:
        """Wait for the jobs that a cancelled `run` or `write` left behind; returns what one of them raised."""
        for job in [*self._jobs.values()]:
            await _over(job)
        return next((error for job in self._jobs.values() if (error := job.exception()) is not None), None)


async def _over(job: Future[Any]) -> None:
    """Wait until a job is done; a cancelled wait leaves it as it is. One callback on the loop: others take three."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()

    def settle() -> None:
        if not over.done():
            over.set_result(None)

    def done(_: Future[Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the job is awaited no more
            loop.call_soon_threadsafe(settle)

    job.add_done_callback(done)
    await over
