"""Launchers: where `dpeer compare` runs its cells, the loop that runs them, and the processes of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from dpeer.cores import own_cores
from dpeer.exceptions import CellFailed, CheckpointError, DpeerError
from dpeer.federation import launcher as processes
from dpeer.federation.settings import Settings
from dpeer.federation.stop_signals import STOP_SIGNALS, asked_to_stop

if TYPE_CHECKING:
    from dpeer.experiments.cells import Cell
    from dpeer.federation.run import Runner

LAUNCHERS = {"local": "dpeer.experiments.launchers", "ray": "dpeer.experiments.ray_cluster"}
"""Modules with a function `prepare` by name, imported when they are used."""

_LOOK_EVERY = 0.5
"""Seconds after which a signal is noticed at the latest."""


@dataclass(frozen=True)
class Ended:
    """How a cell ended, in values that can be sent between processes.

    Attributes:
        status: `done`; `stopped` by a signal, after its last minibatch; `failed` with an error of its own; `lost` with
            its worker, so that only files are left.
    """

    status: Literal["done", "stopped", "failed", "lost"]
    error: str | None = None
    exit_code: int = 0
    traceback: str = ""


class Launcher(Protocol):
    """Runs cells somewhere. One thread calls all methods but `kill`."""

    @property
    def room(self) -> int:
        """Number of cells that are started at a time."""

    def start(self, cell: Cell) -> None:
        """Start a cell, which its caller has claimed.

        Raises:
            DpeerError: It cannot be started here.
        """

    def ended(self, seconds: float) -> Sequence[tuple[Cell, Ended]]:
        """Wait for at most so many seconds until a started cell has ended; the cells that have."""

    def stop(self) -> None:
        """Stop all started cells after their current minibatch; each still ends, as `ended` returns it."""

    def kill(self) -> None:
        """End all started cells at once, from a signal's handler: this process ends next."""


OpenLauncher = Callable[[Sequence["Cell"]], AbstractContextManager[Launcher]]
"""Opens a launcher for these cells."""


def find_launcher(name: str, jobs: int | None, out: Path) -> OpenLauncher:
    """Find a launcher and check what it needs; nothing is started.

    Raises:
        ConfigurationError: A library is missing.
    """
    opened: OpenLauncher = importlib.import_module(LAUNCHERS[name]).prepare(jobs, out)
    return opened


def run_cells(cells: Sequence[Cell], open_launcher: OpenLauncher, tell: Callable[[str], None]) -> bool:
    """Run every cell that is not done, and call `tell` with the name of each that has ended.

    Returns:
        Whether all are done; False if Ctrl-C stopped it.

    Raises:
        OutputError: A folder holds another run, or cannot be written; nothing has been run.
        CellFailed: A cell failed; those that were running have been stopped, and can be gone on with.
        DpeerError: The launcher cannot be used.
    """
    for cell in cells:
        cell.check()
    left = [cell for cell in cells if not cell.done]
    if not left:
        return True
    opened: list[Launcher] = []
    failure: DpeerError | None = None
    running, stopped = 0, False

    def kill() -> None:
        for one in opened:
            one.kill()

    with asked_to_stop(kill) as asked, open_launcher(left) as launcher:
        opened.append(launcher)
        while True:
            while left and running < launcher.room and not asked.is_set():
                cell = left.pop(0)
                try:
                    cell.claim()
                    launcher.start(cell)
                    running += 1
                except DpeerError as error:
                    failure = failure or error
                    asked.set()
            if asked.is_set() and not stopped:
                stopped = True
                launcher.stop()
            if not running:
                break
            # Two signals at once may both be taken by a library's own thread. That this one has to handle them it then
            # finds only when it wakes.
            for cell, ended in launcher.ended(_LOOK_EVERY):
                running -= 1
                if ended.status == "done":
                    tell(cell.folder.name)
                    continue
                if ended.status == "failed" or (ended.status == "lost" and not asked.is_set()):
                    failure = failure or _failed(cell, ended)
                asked.set()  # else by Ctrl-C, or a signal to the worker alone
        if failure is not None:
            raise failure
        return not asked.is_set()


def _failed(cell: Cell, ended: Ended) -> CellFailed:
    failed = CellFailed(f"{cell.folder.name}: {ended.error}", ended.exit_code)
    failed.add_note(ended.traceback)  # the worker's own, for --debug
    return failed


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
        # The fork server's environment is that of the first run of this process.
        process = self._context.Process(target=_work, args=(sender, cell.settings, core, dict(os.environ)))
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


def _work(sender: Connection, settings: Settings, core: int | None, environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
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


def run_one(settings: Settings, signals: Collection[signal.Signals] = STOP_SIGNALS) -> Ended:
    """Run one cell; this process runs no other. The signals stop it, and are blocked before and after."""
    try:
        return _simulated(settings, signals)
    except KeyboardInterrupt:  # before its rounds, and not blocked
        return Ended("stopped")
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a thread of the run may let it through


def _simulated(settings: Settings, signals: Collection[signal.Signals]) -> Ended:
    from dpeer.federation.folders import forget_releases, has_checkpoint
    from dpeer.simulation.run import simulate

    def drive(runner: Runner) -> None:
        with asyncio.Runner(loop_factory=runner.loop_factory) as loop:
            loop.run(_stopped_by(signals, runner))

    settings = settings.model_copy(update={"alone": "never"})  # `local` is a row of its own where it is asked for
    begun = has_checkpoint(settings.out) and settings.faults is None  # with faults it can only begin anew
    try:
        try:
            if not begun:
                forget_releases(settings.out)
            result = simulate(settings, resume=begun, overwrite=not begun, drive=drive)
        except CheckpointError:
            if not begun:
                raise
            # Killed, not stopped: its files do not go together.
            forget_releases(settings.out)
            result = simulate(settings, overwrite=True, drive=drive)
    except DpeerError as error:
        return Ended("failed", str(error), error.exit_code, traceback.format_exc())
    except Exception as error:
        return Ended("failed", f"unexpected {type(error).__name__}: {error}", 1, traceback.format_exc())
    if result.failure is not None:
        return Ended("failed", result.failure, result.exit_code)
    return Ended("done" if result.summary.get("status") == "done" else "stopped")


async def _stopped_by(signals: Collection[signal.Signals], runner: Runner) -> None:
    # They wait until here: as an exception, one would end an import or the making of the event loop half-way.
    for number in signals:
        asyncio.get_running_loop().add_signal_handler(number, runner.stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
    try:
        await runner.run()
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
