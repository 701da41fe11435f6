"""A run of all peers on this machine: checks, runner, event loop (a thread's in notebooks), and DIR/summary.json."""

from __future__ import annotations

import asyncio
import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpeer.exceptions import Diverged, PeerFailed
from dpeer.federation import folders, trackers
from dpeer.federation.folders import naming, refuse_faults, working_folder_kept
from dpeer.federation.launcher import Launcher, Member
from dpeer.federation.policy import find, obey
from dpeer.federation.settings import Settings, check_own_data
from dpeer.federation.stop_signals import answer_on_loop
from dpeer.federation.view import View
from dpeer.peer.checkpoint import learner_folder
from dpeer.results.figures import metrics_by_rank
from dpeer.results.files import SUMMARY, rank_folder, write_json
from dpeer.results.run_folders import read_object, read_peer_summary, read_run_summary
from dpeer.results.summaries import PeerSummary
from dpeer.topology.settings import build_graph
from dpeer.training.state.file_names import saved_body

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
        for rank in range(settings.size):
            own = settings.of_rank(rank)
            if (policy := find(own.secret)) is not None:
                obey(policy.verdicts(dict(own), partial(own.origin, rank)))
        trackers.check(settings.log_to or ())
        build_graph(settings)  # one that does not exist shows before anything is started or removed
        folders.check(settings.out, range(settings.size), resume=resume, overwrite=overwrite)
        began = time.monotonic() - (wall_seconds(settings.out) if resume else 0.0)
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
        found = collect(out, settings.size, seconds, runner.status)
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
        loop = (runner.loop_factory or asyncio.new_event_loop)()

        def work() -> None:
            with asyncio.Runner(loop_factory=lambda: loop) as runs:
                runs.run(runner.run())

        def stop() -> None:
            self.interrupted = True
            with suppress(RuntimeError):  # the run has just ended
                loop.call_soon_threadsafe(runner.stop)

        with _answering(stop), ThreadPoolExecutor(1, "dpeer.run") as thread:
            running = thread.submit(work)
            while True:
                try:
                    # In slices: the signal may come to another thread, and then only this one's next instruction runs
                    # the handler.
                    while not running.done():
                        with suppress(TimeoutError):
                            running.exception(SLICE)
                    break
                except KeyboardInterrupt:  # of a handler of the caller's own
                    stop()
        running.result()


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


_COMMON = ("size", "topology", "algorithm", "task", "partition", "rounds", "seed", "spectral_gap")


def collect(out: Path, ranks: int, seconds: float, status: str | None = None) -> dict[str, Any]:
    """Read every peer's summary and write DIR/summary.json; a peer that left none counts as null.

    Args:
        out: The run's folder.
        ranks: Number of peers.
        seconds: Wall time of the whole run.
        status: How the run has ended, where faults may have taken peers away; None where the peers' summaries say.
    """
    peers = [read_peer_summary(rank_folder(out, rank)) for rank in range(ranks)]
    there = {rank: peer for rank, peer in enumerate(peers) if peer is not None}
    first = next(iter(there.values()), PeerSummary())

    def each(name: str) -> list[Any]:
        return [getattr(peer, name, None) for peer in peers]

    known = [value for value in each("accuracy") if value is not None]
    by_rank = metrics_by_rank(peers)
    spent = _privacy([peer.privacy for peer in there.values() if peer.privacy])
    summary = {
        **{name: getattr(first, name) for name in _COMMON},
        "status": _status(peers) if status is None else status,
        "completed_rounds": each("completed_rounds"),
        "kept_round": each("kept_round"),
        "accuracy": each("accuracy"),
        "accuracy_mean": _mean(known),
        "accuracy_std": pstdev(known) if known else None,
        "accuracy_min": min(known, default=None),
        "kept_point": each("kept_point"),
        "accuracy_mixed": each("accuracy_mixed"),
        "accuracy_mixed_mean": _mean(each("accuracy_mixed")),
        # With privacy they stay in each peer's own folder: they are read off training records without noise.
        **{
            f"{name}_mean": None if spent else _mean(each(name)) for name in ("training_accuracy", "generalization_gap")
        },
        **{f"accuracy_{name}_mean": _mean(each(f"accuracy_{name}")) for name in ("finished", "alone", "trained")},
        "test_loss": each("test_loss"),
        "test_loss_mixed": each("test_loss_mixed"),
        "metrics": by_rank,
        "metrics_mean": {name: _mean(values) for name, values in by_rank.items()},
        "consensus_distance": _consensus_distance(out, there),
        "body_parameters": first.body_parameters,
        "head_parameters": first.head_parameters,
        "extras": first.extras,
        "bytes_sent": sum(peer.bytes_sent or 0 for peer in there.values()),
        "wall_seconds": round(seconds, 3),
        "epsilon": spent["epsilon"] if spent else None,
        "delta": first.delta,
        "privacy": spent,
        "diverged": [rank for rank, peer in there.items() if peer.diverged],
        "warnings": _warnings(there),
        "worth": _worth(there, ranks),
        "lost": {str(rank): peer.lost for rank, peer in there.items() if peer.lost},
        "settings": first.settings or None,
    }
    write_json(out / SUMMARY, summary)
    return summary


def renew(out: Path) -> None:
    """Collect DIR/summary.json anew from the peers' summaries, if it exists: a comparison was made later."""
    run, content = read_run_summary(out), read_object(out / SUMMARY)
    if run is not None and run.size is not None and "rank" not in content:
        collect(out, run.size, wall_seconds(out), run.status if run.settings.get("faults") else None)


def _warnings(peers: Mapping[int, PeerSummary]) -> dict[str, list[int]]:
    """The ranks whose logs warn of something, by kind."""
    kinds = {kind for peer in peers.values() for kind in peer.warnings}
    return {kind: [rank for rank, peer in peers.items() if kind in peer.warnings] for kind in sorted(kinds)}


def _worth(peers: Mapping[int, PeerSummary], ranks: int) -> list[dict[str, Any] | None] | None:
    """The effect of federating on each peer; None where no peer measured it."""
    found = {rank: peer.worth for rank, peer in peers.items() if peer.worth is not None}
    if not found:
        return None
    return [asdict(found[rank]) if rank in found else None for rank in range(ranks)]


def _status(peers: Sequence[PeerSummary | None]) -> str:
    """Failed if a peer left no summary; stopped if one was stopped; else done, by those that are members to the end."""
    if any(peer is None for peer in peers):
        return "failed"
    ended = [peer.status for peer in peers if peer and peer.status not in ("left", "evicted")]
    return "done" if ended.count("done") == len(ended) > 0 else "stopped"


def wall_seconds(out: Path) -> float:
    """The seconds that an earlier part of the run took, from its summary; 0 without one."""
    earlier = read_run_summary(out)
    return 0.0 if earlier is None else earlier.wall_seconds or 0.0


def _privacy(peers: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The privacy entry of the peer that has spent most, without the figures of its last update."""
    if not peers:
        return None
    most = max(peers, key=lambda spent: math.inf if spent["epsilon"] is None else spent["epsilon"])
    return {name: value for name, value in most.items() if name in _SPENT}


_SPENT = (
    "guarantee", "epsilon", "delta", "releases", "mode", "steps", "sampling_rate", "noise_multiplier",
)  # fmt: skip


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _consensus_distance(out: Path, ranks: Iterable[int]) -> float | None:
    """sqrt(mean over peers of ||u_i - mean u||^2), from the checkpoints: what predicts may be another model.

    None where nothing is shared.
    """
    bodies = [body for rank in ranks if (body := _body(rank_folder(out, rank))) is not None]
    if not bodies:
        return None
    mean = np.mean(bodies, axis=0)
    return math.sqrt(fmean(float(np.sum((body - mean) ** 2)) for body in bodies))


def _body(folder: Path) -> NDArray[np.float64] | None:
    """A peer's body after its last completed round; None if it has no checkpoint, or shares nothing."""
    learner = learner_folder(folder)
    body = None if learner is None else saved_body(learner)
    return None if body is None else body.astype(np.float64)
