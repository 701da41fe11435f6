"""Local launcher: cells in worker processes of this machine, each on a core of its own."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, util
from pathlib import Path
from typing import Any

from dpeer.cores import own_cores
from dpeer.experiments.cells import Cell
from dpeer.experiments.launchers.launcher import Ended, Launcher, OpenLauncher
from dpeer.experiments.launchers.worker import run_one
from dpeer.federation import forking
from dpeer.federation.stop_signals import STOP_SIGNALS


def prepare(jobs: int | None, out: Path) -> OpenLauncher:
    """Cells in processes here, `jobs` or one a core at a time: two on one core would slow each other down."""

    @contextlib.contextmanager
    def opened(cells: Sequence[Cell], show: Callable[[str], None]) -> Iterator[Launcher]:
        workers = max(1, min(jobs or len(own_cores()), len(cells)))
        context = forking.context()
        cores = context.SimpleQueue()
        here = own_cores() if hasattr(os, "sched_setaffinity") else [-1]
        for job in range(workers):
            cores.put(here[job % len(here)] if workers > 1 else -1)
        with ProcessPoolExecutor(workers, context, _prepare_worker, (cores,)) as pool:
            yield _Local(pool, workers)

    return opened


class _Local:
    """A pool of worker processes; one cell a worker: cells in the pool's queue would still be run after Ctrl-C."""

    restarts = False

    def __init__(self, pool: ProcessPoolExecutor, workers: int) -> None:
        self._pool, self.room = pool, workers
        self._running: dict[Future[Ended], Cell] = {}

    def start(self, cell: Cell) -> None:
        """See `Launcher`."""
        # A worker begins with these blocked, as its parent has them: they wait until it can handle them.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            with forking.without_main():
                self._running[self._pool.submit(run_one, cell.settings)] = cell
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)

    def ended(self, seconds: float) -> list[tuple[Cell, Ended]]:
        """See `Launcher`."""
        futures = wait(self._running, timeout=seconds, return_when=FIRST_COMPLETED).done
        return [(self._running.pop(future), _outcome(future)) for future in futures]

    def stop(self) -> None:
        """See `Launcher`."""
        for child in multiprocessing.active_children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid or 0, signal.SIGINT)

    def kill(self) -> None:
        """See `Launcher`."""
        for child in multiprocessing.active_children():
            child.kill()
        # Else a helper process complains of semaphores that were left.
        util._run_finalizers(0)  # type: ignore[attr-defined]


def _outcome(future: Future[Ended]) -> Ended:
    try:
        return future.result()
    except BrokenProcessPool:
        return Ended("lost", "its process was killed (out of memory?); the same command goes on", 1)


def _prepare_worker(cores: Any) -> None:
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
