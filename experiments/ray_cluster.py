"""Ray launcher: each cell a task of a Ray cluster, with a CPU and perhaps a GPU; a lost node's cells run elsewhere."""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dpeer.exceptions import ConfigurationError
from dpeer.experiments.cells import ASKED, Cell
from dpeer.experiments.launchers import Ended, Launcher, OpenLauncher, run_one
from dpeer.federation.settings import Settings
from dpeer.federation.stop_signals import stop_signals
from dpeer.optional_libraries import check_libraries
from dpeer.results.files import SUMMARY

if TYPE_CHECKING:
    from ray import ObjectRef

_REACHED_WITHIN = 10.0
"""Seconds in which a cluster's port takes a connection."""

_SEEN_WITHIN = 60.0
"""Seconds after which a file that another host has written shows at the latest; NFS keeps what it knows so long."""

_LOOK_EVERY = 0.5

_RETRIES = 3
"""How often a lost cell is started again; it goes on after its last completed round."""

_SHARED = "--out and the working folder must be on a file system that all hosts share"


def prepare(jobs: int | None, out: Path) -> OpenLauncher:
    """Cells as Ray tasks: `jobs` of them at a time, or as many as the cluster has room for.

    Raises:
        ConfigurationError: Ray is not installed.
    """
    check_libraries("--launcher ray", "ray", ray="ray")

    @contextlib.contextmanager
    def opened(cells: Sequence[Cell]) -> Iterator[Launcher]:
        with _connected(os.environ.get("RAY_ADDRESS", "auto"), out / "ray.log"):
            yield _Ray(jobs or len(cells))

    return opened


@contextlib.contextmanager
def _connected(address: str, log: Path) -> Iterator[None]:
    """A connection to a Ray cluster, unless this process has one already.

    Raises:
        ConfigurationError: No cluster is there.
    """
    import ray

    if ray.is_initialized():  # by a script that goes on using it
        yield
        return
    # Ray would take SIGTERM from the one who stops the comparison.
    handlers = {number: signal.getsignal(number) for number in stop_signals()}
    # Else Ray warns of a later version, in which it leaves CUDA_VISIBLE_DEVICES alone where no GPU is asked for.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        _reach(address)
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise ConfigurationError(
            f"--launcher ray: no Ray cluster at {address!r}: begin one with `ray start --head`, or name another by "
            "RAY_ADDRESS=HOST:PORT"
        ) from error
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    try:
        # A thread of Ray prints on stdout what nodes report, each of them a thousand characters: no place for that in a
        # comparison's JSON, nor beside its progress.
        with log.open("a", encoding="utf-8", buffering=1) as file, contextlib.redirect_stdout(file):
            try:
                yield
            finally:
                ray.shutdown()
    finally:
        if not log.stat().st_size:
            log.unlink()


def _reach(address: str) -> None:
    """Connect to a cluster's port once: Ray itself tries for minutes.

    Raises:
        OSError: Nothing listens there.
    """
    found = re.fullmatch(r"(?:ray://)?\[?([^/]+?)\]?:([0-9]{1,5})", address)
    if found is not None:
        socket.create_connection((found[1], int(found[2])), _REACHED_WITHIN).close()


class _Ray:
    """Cells as tasks of a Ray cluster, which starts those again that are lost with their worker or node."""

    def __init__(self, room: int) -> None:
        import ray

        self.room, self._ray = room, ray
        self._task = ray.remote(max_retries=_RETRIES, max_calls=1)(_run)
        self._running: dict[ObjectRef[Ended], Cell] = {}

    def start(self, cell: Cell) -> None:
        """See `Launcher`."""
        gpus = float(cell.settings.device.startswith("cuda"))
        task = self._task.options(num_cpus=1.0, num_gpus=gpus, name=f"dpeer {cell.folder.name}")
        settings = cell.settings.model_copy(update={"out": cell.folder.absolute(), "threads": 1})
        self._running[task.remote(settings, str(Path.cwd()))] = cell

    def ended(self, seconds: float) -> list[tuple[Cell, Ended]]:
        """See `Launcher`."""
        # Only one at a time is waited for: of more, `wait` returns those that end until the last of so many does.
        done, _ = self._ray.wait(list(self._running), num_returns=1, timeout=seconds)
        return [(cell, _seen(cell, self._outcome(one))) for one in done for cell in [self._running.pop(one)]]

    def stop(self) -> None:
        """See `Launcher`."""
        # An interrupt to a task's main thread; those that wait for a node go first, so that none of them begins.
        for one in reversed(self._running):
            self._ray.cancel(one)

    def kill(self) -> None:
        """See `Launcher`: the tasks of a driver that is gone are ended by their nodes."""

    def _outcome(self, one: ObjectRef[Ended]) -> Ended:
        errors = self._ray.exceptions
        try:
            return self._ray.get(one)
        except errors.TaskCancelledError:
            return Ended("stopped")
        except errors.RayTaskError as error:  # its worker cannot even begin
            last = str(error).strip().rpartition("\n")[2]
            return Ended("failed", f"a Ray worker cannot run it ({last}): is dpeer there?", 2, str(error))
        except errors.RayError as error:
            return Ended(
                "lost", f"its worker is lost ({type(error).__name__}, out of memory?); the same command goes on", 1
            )


def _run(settings: Settings, home: str) -> Ended:
    """Run a cell on the main thread of a Ray worker, which ends with it; relative paths start from `home`."""
    # Ray cancels by an interrupt. Another signal ends the worker, and the cell goes on elsewhere.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        for path in (settings.out / ASKED, Path(home)):
            if not _comes(path.exists):
                return Ended("failed", f"no {str(path)!r} on {platform.node()}: {_SHARED}", 2)
        with contextlib.chdir(home):
            return run_one(settings, {signal.SIGINT})
    except KeyboardInterrupt:
        return Ended("stopped")


def _seen(cell: Cell, ended: Ended) -> Ended:
    """How a cell ended, as its files show here: those that another host has written may take a while."""
    if ended.status != "done" or _comes(lambda: cell.done):
        return ended
    return Ended("failed", f"done on its host, and no {str(cell.folder / SUMMARY)!r} here shows it: {_SHARED}", 2)


def _comes(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + _SEEN_WITHIN
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(_LOOK_EVERY)
    return True
