"""A run of all peers on this machine: checks, runner, event loop (a thread's in notebooks), and summary."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from dpeer.exceptions import Diverged, PeerFailed
from dpeer.federation import folders, summary, trackers
from dpeer.federation.folders import naming, refuse_faults, working_folder_kept
from dpeer.federation.keys import check_operators
from dpeer.federation.launcher import Launcher, Member
from dpeer.federation.policy import find, obey
from dpeer.federation.settings import Settings, check_own_data
from dpeer.federation.stop_signals import answer_on_loop
from dpeer.federation.view import View
from dpeer.topology.settings import build_graph

OpenView = Callable[[], AbstractContextManager[View]]
"""Opens the view of a run, once it is clear that the run can begin."""

OpenRunner = Callable[[View], "Runner"]
"""Makes what runs the peers: processes (`cluster`), or peers in this process (`dpeer.simulation.run.simulate`)."""


@dataclass(frozen=True)
class Result:
    """How the run of a whole federation ended.

    Attributes:
        summary: What DIR/summary.json holds; empty if the run was stopped before rounds began.
        exit_code: The exit code of the first peer that failed on the way; else 0.
        failure: That peer's rank and its last error; None if none failed.

    A run that has diverged did not fail; see `check_converged`.
    """

    summary: dict[str, Any]
    exit_code: int = 0
    failure: str | None = None


def check_converged(result: Result, out: Path) -> None:
    """Refuse the result of a run that is done and has diverged; its files are written.

    Raises:
        Diverged: At the end the loss or the parameters of a peer are not finite; names the ranks.
    """
    ranks = result.summary.get("diverged") or []
    if ranks and result.summary.get("status") == "done":
        raise Diverged(ranks, str(out))


class Runner(Protocol):
    """Runs all peers of a federation."""

    @property
    def connected(self) -> bool:
        """Whether every peer has met its neighbors, so that rounds have begun."""

    @property
    def loop_factory(self) -> Callable[[], asyncio.AbstractEventLoop] | None:
        """Makes the event loop that it must run on; None for any."""

    @property
    def status(self) -> str | None:
        """How the run has ended, where faults may have taken peers away; None where all peers' summaries say."""

    async def run(self) -> Any:
        """Run every peer to its end."""

    def stop(self) -> None:
        """Stop all peers after their current minibatch."""

    def kill(self) -> None:
        """End all peers at once."""


Drive = Callable[[Runner], None]
"""Runs a runner on an event loop, to its end, and stops it when it is asked to."""


def drive_by_signals(runner: Runner) -> None:
    """Run on this thread, the main one; Ctrl-C and other stop signals stop the run."""
    with asyncio.Runner(loop_factory=runner.loop_factory) as loop:
        loop.run(_interruptible(runner))


def cluster(
    settings: Settings,
    *,
    resume: bool = False,
    overwrite: bool = False,
    encrypt: bool = False,
    open_view: OpenView = View,
    drive: Drive = drive_by_signals,
) -> Result:
    """Run all peers of a federation on this machine, each in a process of its own; see `run_federation`.

    With `encrypt` they have keys that are made for this run.
    """
    refuse_faults(settings, resume=resume)
    return run_federation(
        settings, lambda view: Launcher(settings, view, resume=resume, encrypt=encrypt),
        resume=resume, overwrite=overwrite, open_view=open_view, drive=drive,
    )  # fmt: skip


def run_federation(
    settings: Settings,
    open_runner: OpenRunner,
    *,
    resume: bool,
    overwrite: bool,
    open_view: OpenView,
    drive: Drive,
) -> Result:
    """Run all peers of a federation on this machine and sum up what they left in `settings.out`.

    Where settings, folders or the graph are refused, nothing of an earlier run has been removed.
    """
    with working_folder_kept():
        out = settings.out.absolute()  # now: a task may change to another folder
        check_own_data(settings)
        check_operators(settings)
        for rank in range(settings.size):
            own = settings.of_rank(rank)
            if (policy := find(own.secret)) is not None:
                obey(policy.verdicts(dict(own), partial(own.origin, rank)))
        trackers.check(settings.log_to or ())
        build_graph(settings)  # one that does not exist shows before anything is started or removed
        folders.check(settings.out, range(settings.size), resume=resume, overwrite=overwrite)
        began = time.monotonic() - (summary.wall_seconds(settings.out) if resume else 0.0)
        with open_view() as view:
            runner = open_runner(view)
            drive(runner)
        return _result(settings, out, runner, time.monotonic() - began)


def _result(settings: Settings, out: Path, runner: Runner, seconds: float) -> Result:
    failed = runner.first_failure if isinstance(runner, Launcher) else None
    if failed is not None and not runner.connected:
        error = PeerFailed(_failure(failed), failed.exit_code or 1)
        error.add_note(failed.traceback)  # the peer's own, for --debug
        raise error
    if not runner.connected:
        return Result({})
    with naming(out, settings.out):
        found = summary.collect(out, settings.size, seconds, runner.status)
    if runner.status is not None and found["status"] == "failed":
        return Result(found, 1, f"no rank came to the end of the run: {settings.faults} left none")
    return Result(found) if failed is None else Result(found, failed.exit_code or 1, _failure(failed))


async def _interruptible(runner: Runner) -> None:
    answer_on_loop(lambda number: runner.stop(), lambda number: runner.kill())
    await runner.run()


def _failure(member: Member) -> str:
    return f"rank {member.rank}: {member.error or f'ended with exit code {member.exit_code}'}"


SLICE = 0.5
"""Seconds after which Ctrl-C is answered at the latest."""


class BackgroundLoop:
    """Runs on a thread with an event loop of its own, while this thread waits and listens for Ctrl-C.

    Attributes:
        interrupted: Whether Ctrl-C came.
    """

    def __init__(self) -> None:
        self.interrupted = False

    def __call__(self, runner: Runner) -> None:
        """Run to the end, or until all peers have stopped after Ctrl-C."""
        failures: list[BaseException] = []
        loop, ended = (runner.loop_factory or asyncio.new_event_loop)(), threading.Event()

        def work() -> None:
            try:
                with asyncio.Runner(loop_factory=lambda: loop) as runs:
                    runs.run(runner.run())
            except BaseException as error:
                failures.append(error)
            finally:
                ended.set()

        def stop() -> None:
            self.interrupted = True
            with suppress(RuntimeError):  # the run has just ended
                loop.call_soon_threadsafe(runner.stop)

        with _answering(stop):
            threading.Thread(target=work, name="dpeer.run").start()
            while True:
                try:
                    # In slices: the signal may come to another thread, and then only this one's next instruction runs
                    # the handler.
                    while not ended.wait(SLICE):
                        pass
                    break
                except KeyboardInterrupt:  # of a handler of the caller's own
                    stop()
        if failures:
            raise failures[0]


@contextmanager
def _answering(stop: Callable[[], None]) -> Iterator[None]:
    """Within it Ctrl-C calls `stop` and raises nothing: a second exception would end what answers the first.

    Nothing changes where another handler answers Ctrl-C already, or on another thread than the main one.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, lambda number, frame: stop())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
