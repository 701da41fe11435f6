"""A cell in a worker process: run, stopped by a signal after its minibatch, gone on with from its checkpoint."""

from __future__ import annotations

import asyncio
import signal
import traceback
from types import FrameType
from typing import TYPE_CHECKING

from dpeer.exceptions import CheckpointError, DpeerError
from dpeer.experiments.launchers.launcher import Ended
from dpeer.federation.settings import Settings
from dpeer.federation.stop_signals import STOP_SIGNALS

if TYPE_CHECKING:
    from dpeer.federation.run import Runner

_asked = False
"""Whether this worker has been asked to stop."""


def run_one(settings: Settings) -> Ended:
    """Run one cell. A signal that came before stops it at once; after a stopped cell this worker runs no other.

    The signals that stop it are blocked when this is called, and after it.
    """
    global _asked
    if _asked:
        return Ended("stopped")
    try:
        signal.signal(signal.SIGINT, _note)  # a thread that an earlier run has left may let it through
        ended = _simulated(settings)
    except KeyboardInterrupt:
        ended = Ended("stopped")
    finally:
        signal.signal(signal.SIGINT, _note)  # closing the event loop has taken it away
    _asked = _asked or ended.status == "stopped"
    return ended


def run_anew() -> None:
    """Have this worker run cells although it was stopped: its next one is of another request."""
    global _asked
    _asked = False


def _note(number: int, frame: FrameType | None) -> None:
    global _asked
    _asked = True


def _simulated(settings: Settings) -> Ended:
    from dpeer.federation.folders import forget_releases, has_checkpoint
    from dpeer.simulation.run import simulate

    def drive(runner: Runner) -> None:
        with asyncio.Runner(loop_factory=runner.loop_factory) as loop:
            loop.run(_stopped_by_signals(runner))

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
