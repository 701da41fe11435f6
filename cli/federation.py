"""What `dpeer cluster` and `dpeer simulate` share: a run of all peers from set-up to summary."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from rich.console import Console

from dpeer.cli import folders, summary
from dpeer.cli.graph import build_graph, take_part
from dpeer.cli.launcher import Launcher, Member
from dpeer.cli.live import open_view
from dpeer.cli.settings import Settings
from dpeer.cli.view import View
from dpeer.exceptions import PeerFailed

Mode = Literal["cluster", "simulate"]


@dataclass(frozen=True)
class Result:
    """How the run of a whole federation ended.

    Attributes:
        summary: What DIR/summary.json holds; empty if it was stopped before rounds began.
        exit_code: That of the first peer that failed on the way, else 0.
        failure: Which peer that was, and its last error.
    """

    summary: Mapping[str, Any]
    exit_code: int = 0
    failure: str | None = None


class _Runner(Protocol):
    @property
    def connected(self) -> bool: ...

    async def run(self) -> Any: ...

    def stop(self) -> None: ...


def run_federation(
    settings: Settings,
    mode: Mode = "cluster",
    *,
    resume: bool = False,
    overwrite: bool = False,
    new_data: bool = False,
    console: Console | None = None,
) -> Result:
    """Run all peers of a federation on this machine and sum up what they left in `settings.out`.

    Args:
        settings: The federation's.
        mode: One process a peer, or all in this one; the results are the same to the bit.
        resume: Continue a stopped run.
        overwrite: Remove an earlier run.
        new_data: The data are others than those of earlier runs in the folder: what these released does not count.
        console: Where progress is shown; stderr by default.

    Raises:
        DpeerError: as documented in dpeer.exceptions; nothing of an earlier run has been removed.
    """
    console = console or Console(stderr=True)
    graph = build_graph(settings)  # one that does not exist shows before anything is started or removed
    folders.check(settings.out, range(settings.size), resume=resume, overwrite=overwrite, new_data=new_data)
    if not resume:
        (settings.out / folders.DISAGREEMENT).unlink(missing_ok=True)
    else:
        folders.check_together(settings.out, take_part(graph, settings), settings.rounds)
    title = f"{mode}: {settings.size} peers, {settings.topology}, {settings.algorithm} on {settings.task}"
    began = time.monotonic() - (summary.wall_seconds(settings.out) if resume else 0.0)
    with open_view(console, settings.size, settings.rounds, title) as view:
        runner = _runner(settings, mode, view, resume=resume, new_data=new_data)
        asyncio.run(_interruptible(runner))
    failed = runner.first_failure if isinstance(runner, Launcher) else None
    if failed is not None and not runner.connected:
        error = PeerFailed(_failure(failed), failed.exit_code or 1)
        error.add_note(failed.traceback)  # the peer's own, for --debug
        raise error
    if not runner.connected:
        return Result({})
    found = summary.collect(settings.out, settings.size, time.monotonic() - began)
    return Result(found) if failed is None else Result(found, failed.exit_code or 1, _failure(failed))


def _runner(settings: Settings, mode: Mode, view: View, *, resume: bool, new_data: bool) -> _Runner:
    if mode == "cluster":
        return Launcher(settings, view, resume=resume, new_data=new_data)
    from dpeer.cli.simulation import Simulation  # imports torch, which a launcher does not need

    return Simulation(settings, view, resume=resume, new_data=new_data)


async def _interruptible(runner: _Runner) -> Any:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, runner.stop)
    return await runner.run()


def _failure(member: Member) -> str:
    return f"rank {member.rank}: {member.error or f'ended with exit code {member.exit_code}'}"
