"""A cell in a worker process: run, stopped by a signal after its minibatch, gone on with from its checkpoint."""

from __future__ import annotations

import asyncio
import signal
import traceback
from collections.abc import Collection
from typing import TYPE_CHECKING

from dpeer.exceptions import CheckpointError, DpeerError
from dpeer.experiments.launchers.launcher import Ended
from dpeer.federation.settings import Settings
from dpeer.federation.stop_signals import STOP_SIGNALS

if TYPE_CHECKING:
    from dpeer.federation.run import Runner


def run_one(settings: Settings, signals: Collection[signal.Signals] = STOP_SIGNALS) -> Ended:
    """Run one cell; this process runs no other.

    Args:
        settings: The cell's.
        signals: Those that stop it, blocked when this is called and after it.
    """
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
