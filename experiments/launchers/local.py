"""Local launcher: each cell in a process of this machine, on a core of its own."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path

from dpeer.cores import own_cores
from dpeer.experiments.cells import Cell
from dpeer.experiments.launchers.launcher import Ended, Launcher, OpenLauncher
from dpeer.experiments.launchers.worker import run_one
from dpeer.federation import launcher as processes
from dpeer.federation.settings import Settings
from dpeer.federation.stop_signals import STOP_SIGNALS


def prepare(jobs: int | None, out: Path) -> OpenLauncher:
    """Cells in processes here, `jobs` or one a core at a time: two on one core would slow each other down."""

    @contextlib.contextmanager
    def opened(cells: Sequence[Cell]) -> Iterator[Launcher]:
        launcher = _Local(processes.server_context(), max(1, min(jobs or len(own_cores()), len(cells))))
        try:
            yield launcher
        finally:
            launcher.kill()

    return opened


class _Local:
    """A process for each cell that runs."""

    def __init__(self, context: ForkServerContext | SpawnContext, room: int) -> None:
        self._context, self.room = context, room
        here = own_cores() if room > 1 and hasattr(os, "sched_setaffinity") else []
        self._free: list[int | None] = [here[job % len(here)] if here else None for job in range(room)]
        self._running: dict[Connection, tuple[BaseProcess, Cell, int | None]] = {}

    def start(self, cell: Cell) -> None:
        """See `Launcher`."""
        receiver, sender = self._context.Pipe(duplex=False)
        core = self._free.pop(0)
        process = self._context.Process(target=_work, args=(sender, cell.settings, core))
        # It begins with these blocked, as its parent has them: they wait until it can handle them.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            processes.start(process)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        sender.close()
        self._running[receiver] = process, cell, core

    def ended(self, seconds: float) -> list[tuple[Cell, Ended]]:
        """See `Launcher`."""
        found = []
        for one in connection.wait(list(self._running), seconds):
            assert isinstance(one, Connection)
            process, cell, core = self._running.pop(one)
            try:
                ended = one.recv()
            except EOFError:
                ended = Ended("lost", "its process was killed (out of memory?); the same command goes on", 1)
            one.close()
            process.join()
            self._free.append(core)
            found.append((cell, ended))
        return found

    def stop(self) -> None:
        """See `Launcher`."""
        for process, _, _ in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid or 0, signal.SIGINT)

    def kill(self) -> None:
        """See `Launcher`."""
        for process, _, _ in self._running.values():
            process.kill()


def _work(sender: Connection, settings: Settings, core: int | None) -> None:
    # Ctrl-C reaches all of a terminal's foreground group; the parent passes it on, and twice would mean "at once".
    os.setpgid(0, 0)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_outlive, args=(parent.sentinel,), daemon=True).start()
    if core is not None:
        os.sched_setaffinity(0, {core})
    sender.send(run_one(settings))


def _outlive(parent: int) -> None:
    """End this process when its parent has ended, in whatever way: else the run folder would stay in use."""
    connection.wait([parent])
    os._exit(1)
