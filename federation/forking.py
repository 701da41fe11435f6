"""The fork server of `dpeer cluster`: child processes start with torch imported, in shared memory."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from dpeer.federation.stop_signals import STOP_SIGNALS

_LONGEST_FOLDER = 60
"""The longest folder in bytes for sockets: macOS allows 103 in all, and multiprocessing adds up to 32."""


def start(process: BaseProcess) -> None:
    """Start a process, `without_main`."""
    with without_main():
        process.start()


@contextmanager
def without_main() -> Iterator[None]:
    """Processes started within it do not import the caller's script: without a main guard they would run it again."""
    main: dict[str, Any] = vars(sys.modules["__main__"])
    kept: dict[str, Any] = {name: main.pop(name) for name in ("__file__", "__spec__") if name in main}
    main["__spec__"] = None
    try:
        yield
    finally:
        main.update(kept)


def context(libraries: Collection[str] = ()) -> ForkServerContext | SpawnContext:
    """Fork from a server that has torch in memory; spawn where forking is unsafe (macOS).

    Args:
        libraries: Modules that the server is to import besides; without effect if it runs already, and if it cannot.
    """
    if sys.platform == "darwin":
        return multiprocessing.get_context("spawn")
    server = multiprocessing.get_context("forkserver")
    # dpeer's comes last: it hides what has been imported from the garbage collector.
    server.set_forkserver_preload([*libraries, "dpeer.federation.preload"])
    # (It would be started by the fork server's start, and unblock the signals.)
    resource_tracker.ensure_running()
    # What is started inherits that stop signals are not for it, from its first instruction on; for this process
    # they are only late.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        with _short_folder():
            forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    return server


def socket_folder() -> str:
    """A folder for temporary files whose name is short enough for sockets in it, whatever TMPDIR is."""
    usual = tempfile.gettempdir()
    return usual if len(os.fsencode(Path(usual).absolute())) <= _LONGEST_FOLDER else "/tmp"  # noqa: S108 - mkdtemp's


@contextmanager
def _short_folder() -> Iterator[None]:
    """Multiprocessing makes its socket in such a folder."""
    before, tempfile.tempdir = tempfile.tempdir, socket_folder()
    try:
        yield
    finally:
        tempfile.tempdir = before
