"""Worker processes that run the missing cells of a comparison."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import connection, util
from types import FrameType
from typing import TYPE_CHECKING, Any

from dpeer.cores import own_cores
from dpeer.exceptions import CellFailed, CheckpointError, DpeerError
from dpeer.experiments.cells import Cell
from dpeer.federation import forking
from dpeer.federation.settings import Settings
from dpeer.federation.stop_signals import STOP_SIGNALS, stop_signals

if TYPE_CHECKING:
    from dpeer.federation.run import Runner

Tell = Callable[[str], None]

_LOOK_EVERY = 0.5
"""Seconds after which a signal is noticed at the latest."""


@dataclass(frozen=True)
class _Ended:
    """How a cell ended, in values that can be sent between processes."""

    status: str
    error: str | None = None
    exit_code: int = 0
    traceback: str = ""


def run_cells(cells: Sequence[Cell], jobs: int, tell: Tell) -> bool:
    """Run every cell that is not done; returns whether all are, False if it was stopped by Ctrl-C.

    Args:
        cells: The cells that have to be there.
        jobs: How many run at a time, each on a core of its own: two on one core would slow each other down.
        tell: Called with a line for each cell that has ended.

    Raises:
        OutputError: A folder holds another run, or cannot be written; nothing has been run.
        CellFailed: A cell failed; those that were running have been stopped, and can be gone on with.
    """
    for cell in cells:
        cell.check()
    missing = [cell for cell in cells if not cell.done]
    if not missing:
        return True
    jobs = max(1, min(jobs, len(missing)))
    context = forking.context()
    cores = context.SimpleQueue()
    here = own_cores() if hasattr(os, "sched_setaffinity") else [-1]
    for job in range(jobs):
        cores.put(here[job % len(here)] if jobs > 1 else -1)
    with _stoppable() as stop, ProcessPoolExecutor(jobs, context, _prepare, (cores,)) as pool:
        return _Work(missing, pool, stop, tell).run(jobs)


class _Stop:
    """Handles Ctrl-C: remembers that it came, and passes it on to the workers."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: pass it on to the workers; asked again, exit."""
        if self.asked:
            for child in multiprocessing.active_children():
                child.kill()
            # Else a helper process complains of semaphores that were left.
            util._run_finalizers(0)  # type: ignore[attr-defined]
            os.write(2, b"dpeer: interrupted; the same command goes on\n")
            os._exit(130)
        self.ask()

    def ask(self) -> None:
        """Stop the running cells after their current minibatch."""
        self.asked = True
        for child in multiprocessing.active_children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid or 0, signal.SIGINT)


@contextlib.contextmanager
def _stoppable() -> Iterator[_Stop]:
    stop = _Stop()
    before = {number: signal.signal(number, stop) for number in stop_signals()}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Work:
    """Cells and the pool that makes them."""

    def __init__(self, missing: Sequence[Cell], pool: ProcessPoolExecutor, stop: _Stop, tell: Tell) -> None:
        self._left, self._pool, self._stop, self._tell = list(missing), pool, stop, tell
        self._running: dict[Future[_Ended], Cell] = {}

    def run(self, jobs: int) -> bool:
        """Make all cells; returns False if stopped.

        Raises:
            CellFailed: A cell failed.
        """
        failure: CellFailed | None = None
        while True:
            # One a worker: cells in the pool's queue would still be run after Ctrl-C.
            while self._left and len(self._running) < jobs and not self._stop.asked:
                self._submit(self._left.pop(0))
            if not self._running:
                break
            # Two signals at once may both be taken by a library's own thread. That this one has to handle them it then
            # finds only when it wakes.
            for future in wait(self._running, timeout=_LOOK_EVERY, return_when=FIRST_COMPLETED).done:
                failed = self._end(future)
                failure = failure or failed
                if failed is not None and not self._stop.asked:
                    self._stop.ask()
        if failure is not None:
            raise failure
        return not self._stop.asked

    def _submit(self, cell: Cell) -> None:
        cell.claim()
        # A worker begins with these blocked, as its parent has them: they wait until it can handle them.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            with forking.without_main():
                self._running[self._pool.submit(run_one, cell.settings)] = cell
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)

    def _end(self, future: Future[_Ended]) -> CellFailed | None:
        cell = self._running.pop(future)
        try:
            ended = future.result()
        except BrokenProcessPool:
            if self._stop.asked:
                return None
            ended = _Ended("failed", "its process was killed (out of memory?); the same command goes on", 1)
        if ended.error is not None:
            failed = CellFailed(f"{cell.folder.name}: {ended.error}", ended.exit_code)
            failed.add_note(ended.traceback)  # the worker's own, for --debug
            return failed
        if ended.status == "done":
            self._tell(cell.folder.name)
        elif not self._stop.asked:  # a signal went to the worker alone
            self._stop.ask()
        return None


_asked = False
"""In a worker: whether it has been asked to stop."""


def _prepare(cores: Any) -> None:
    # Ctrl-C reaches all of a terminal's foreground group; the parent passes it on, and twice would mean "at once".
    os.setpgid(0, 0)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_outlive, args=(parent.sentinel,), daemon=True).start()
    core = cores.get()
    if core >= 0:
        os.sched_setaffinity(0, {core})


def _outlive(parent: int) -> None:
    """End this worker when its parent has ended, in whatever way: else the run folder would stay in use."""
    connection.wait([parent])
    os._exit(1)


def run_one(settings: Settings) -> _Ended:
    """Run one cell. A signal that came before stops it at once; after a stopped cell this worker runs no other."""
    global _asked
    if _asked:
        return _Ended("stopped")
    try:
        signal.signal(signal.SIGINT, _note)  # a thread that an earlier run has left may let it through
        ended = _simulated(settings)
    except KeyboardInterrupt:
        ended = _Ended("stopped")
    finally:
        signal.signal(signal.SIGINT, _note)  # closing the event loop has taken it away
    _asked = _asked or ended.status == "stopped"
    return ended


def _note(number: int, frame: FrameType | None) -> None:
    global _asked
    _asked = True


def _drive(runner: Runner) -> None:
    with asyncio.Runner(loop_factory=runner.loop_factory) as loop:
        loop.run(_stopped_by_signals(runner))


async def _stopped_by_signals(runner: Runner) -> None:
    # They wait until here: as an exception, one would end an import or the making of the event loop half-way.
    for number in STOP_SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, runner.stop)
    if _asked:
        runner.stop()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    try:
        await runner.run()
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)


def _simulated(settings: Settings) -> _Ended:
    from dpeer.federation.folders import forget_releases, has_checkpoint
    from dpeer.simulation.run import simulate

    settings = settings.model_copy(update={"alone": "never"})  # `local` is a row of its own where it is asked for
    begun = has_checkpoint(settings.out) and settings.faults is None  # with faults it can only begin anew
    try:
        try:
            if not begun:
                forget_releases(settings.out)
            result = simulate(settings, resume=begun, overwrite=not begun, drive=_drive)
        except CheckpointError:
            if not begun:
                raise
            # Killed, not stopped: its files do not go together.
            forget_releases(settings.out)
            result = simulate(settings, overwrite=True, drive=_drive)
    except DpeerError as error:
        return _Ended("failed", str(error), error.exit_code, traceback.format_exc())
    except Exception as error:
        return _Ended("failed", f"unexpected {type(error).__name__}: {error}", 1, traceback.format_exc())
    return _Ended(str(result.summary.get("status", "stopped")))
