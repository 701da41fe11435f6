"""Runs the missing cells of a comparison: starts them, and stops them at Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event

from dpeer.exceptions import CellFailed, DpeerError
from dpeer.experiments.cells import Cell
from dpeer.experiments.launchers.launcher import Ended, Launcher, OpenLauncher
from dpeer.federation.stop_signals import asked_to_stop

Tell = Callable[[str], None]

_LOOK_EVERY = 0.5
"""Seconds after which a signal is noticed at the latest."""


def run_cells(cells: Sequence[Cell], open_launcher: OpenLauncher, tell: Tell) -> bool:
    """Run every cell that is not done; returns whether all are, False if it was stopped by Ctrl-C.

    Args:
        cells: The cells that have to be there.
        open_launcher: Where they run.
        tell: Called with the name of each cell that has ended.

    Raises:
        OutputError: A folder holds another run, or cannot be written; nothing has been run.
        CellFailed: A cell failed; those that were running have been stopped, and can be gone on with.
        DpeerError: The launcher cannot be used.
    """
    for cell in cells:
        cell.check()
    missing = [cell for cell in cells if not cell.done]
    if not missing:
        return True
    opened: list[Launcher] = []

    def kill() -> None:
        for one in opened:
            one.kill()

    with asked_to_stop(kill) as asked, open_launcher(missing) as launcher:
        opened.append(launcher)
        return _Work(missing, launcher, asked, tell).run()


class _Work:
    """Cells and the launcher that runs them."""

    def __init__(self, missing: Sequence[Cell], launcher: Launcher, asked: Event, tell: Tell) -> None:
        self._left, self._launcher, self._asked, self._tell = list(missing), launcher, asked, tell
        self._running = 0

    def run(self) -> bool:
        """Run all cells; returns False if stopped.

        Raises:
            DpeerError: A cell failed, or could not be started; the others have been stopped.
        """
        failure: DpeerError | None = None
        stopped = False
        while True:
            while self._left and self._running < self._launcher.room and not self._asked.is_set():
                try:
                    self._start(self._left.pop(0))
                except DpeerError as error:
                    failure = failure or error
                    self._asked.set()
            if self._asked.is_set() and not stopped:
                stopped = True
                self._launcher.stop()
            if not self._running:
                break
            # Two signals at once may both be taken by a library's own thread. That this one has to handle them it then
            # finds only when it wakes.
            for cell, ended in self._launcher.ended(_LOOK_EVERY):
                self._running -= 1
                failed = self._end(cell, ended)
                failure = failure or failed
        if failure is not None:
            raise failure
        return not self._asked.is_set()

    def _start(self, cell: Cell) -> None:
        cell.claim()
        self._launcher.start(cell)
        self._running += 1

    def _end(self, cell: Cell, ended: Ended) -> CellFailed | None:
        """Note how a cell has ended; returns the failure that ends the comparison, if this is one."""
        if ended.status == "done":
            self._tell(cell.folder.name)
            return None
        asked = self._asked.is_set()
        self._asked.set()
        if ended.status == "stopped" or (asked and ended.status == "lost"):
            return None  # by Ctrl-C, or a signal to the worker alone
        failed = CellFailed(f"{cell.folder.name}: {ended.error}", ended.exit_code)
        failed.add_note(ended.traceback)  # the worker's own, for --debug
        return failed
