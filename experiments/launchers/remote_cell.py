"""Remote cell: sent to another host of a shared folder, run if that host fits, done once its files show here."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from dpeer import __version__
from dpeer.exceptions import OutputError
from dpeer.experiments.cells import ASKED, Cell
from dpeer.experiments.launchers.launcher import Ended
from dpeer.experiments.launchers.worker import run_anew, run_one
from dpeer.federation.rank_lock import held
from dpeer.federation.settings import Settings
from dpeer.federation.stop_signals import STOP_SIGNALS
from dpeer.results.files import SUMMARY, rank_folder
from dpeer.results.reading import read_run_summary

_SEEN_WITHIN = 60.0
"""Seconds after which a file that another host has written shows at the latest; NFS keeps what it knows so long."""

_LOOK_EVERY = 0.5


@dataclass(frozen=True)
class Order:
    """A cell as it is sent to another host.

    Attributes:
        settings: The cell's, with an absolute folder.
        home: The folder that relative paths of the settings start from.
        versions: The versions of dpeer and torch that the comparison's own host has.
    """

    settings: Settings
    home: str
    versions: tuple[str, str]


def order(cell: Cell, cores: int) -> Order:
    """The order for a cell.

    Args:
        cell: The cell.
        cores: The cores that it may use; its results do not depend on them.
    """
    settings = cell.settings
    update = {"out": settings.out.absolute(), "workers": settings.workers or cores}
    return Order(settings.model_copy(update=update), str(Path.cwd()), _versions())


def run_order(order: Order, also: Collection[signal.Signals] = (), seen_within: float = _SEEN_WITHIN) -> Ended:
    """Run an ordered cell on this host's main thread; signals and working folder are as before at its end.

    A cell that a process still runs, of a host that was taken for lost or of an earlier request, is waited for.

    Args:
        order: The cell.
        also: Signals that stop it besides `STOP_SIGNALS`.
        seen_within: Seconds to look for the cell's folder.
    """
    numbers = (*STOP_SIGNALS, *also)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    handlers = {number: signal.getsignal(number) for number in numbers}
    run_anew()
    try:
        if (wrong := _unfit(order, seen_within)) is not None:
            return Ended("failed", f"on {platform.node()}: {wrong}", 2)
        with contextlib.chdir(order.home):
            if not _freed(order.settings.out, numbers):
                return Ended("stopped")
            if _done(order.settings.out):
                return Ended("done")
            return run_one(order.settings, numbers)
    except KeyboardInterrupt:  # before its rounds
        return Ended("stopped")
    finally:
        for number, handler in handlers.items():
            if handler is not None:
                signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def seen(cell: Cell, ended: Ended, seconds: float = _SEEN_WITHIN) -> Ended:
    """How a cell ended elsewhere, as its files show here: those that another host has written may take a while.

    Args:
        cell: The cell.
        ended: What its worker has reported.
        seconds: How long to look.
    """
    if ended.status != "done" or _comes(lambda: cell.done, seconds):
        return ended
    return Ended("failed", f"done on its host, and {str(cell.folder / SUMMARY)!r} does not show it here", 2)


def _unfit(order: Order, seconds: float) -> str | None:
    """What this host lacks; None if it can run the cell."""
    if (here := _versions()) != order.versions:
        asked, found = (f"dpeer {dpeer} with torch {torch}" for dpeer, torch in (order.versions, here))
        return f"{found}, and the comparison has {asked}: other versions give other bits, install the same everywhere"
    out = order.settings.out
    if not _comes((out / ASKED).exists, seconds):
        return f"no {str(out)!r}: --out must be on a file system that all hosts share"
    if not os.access(order.home, os.X_OK):
        return f"no {order.home!r}, the working folder that relative paths start from: begin where all hosts see it"
    return None


def _freed(out: Path, stop_signals: Collection[signal.Signals]) -> bool:
    """Wait until no process runs a cell; False if a signal comes before."""
    while not (come := signal.sigpending() & {*stop_signals}):
        try:
            with held(rank_folder(out, 0)):
                return True
        except OutputError:
            time.sleep(_LOOK_EVERY)
    signal.sigwait(come)  # it has had its effect
    return False


def _done(out: Path) -> bool:
    summary = read_run_summary(out)
    return summary is not None and summary.status == "done"


def _comes(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(min(_LOOK_EVERY, seconds))
    return True


def _versions() -> tuple[str, str]:
    import torch  # a command that starts no cell does without

    return __version__, str(torch.__version__)
