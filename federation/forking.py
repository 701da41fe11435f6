"""Processes that are forked from one that has torch in memory, so that each is there at once and shares that memory."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from typing import Any

from dpeer.federation.child import STOP_SIGNALS


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
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    return server
