"""Simulation with faults: unmodified peers on a virtual clock and a simulated network crash and resume.

Each rank has one *incarnation* after the other: a crash ends one at once, and the next one resumes from the
checkpoint, as a process would that was started with --resume.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from dpeer.exceptions import PeersMissing, Refused
from dpeer.federation.config import RunConfig
from dpeer.federation.view import View
from dpeer.peer.config import LivenessConfig
from dpeer.peer.logs import PeerLog
from dpeer.peer.peer import Outcome, Peer
from dpeer.peer.worker import Worker
from dpeer.simulation.faults import Fault, read_faults
from dpeer.simulation.network import Conditions, FaultyNetwork, FaultyTransport, later
from dpeer.simulation.simulation import Simulation, blaming
from dpeer.simulation.virtual_time import Process, RoundCosts, VirtualLoop, VirtualWorker

_LATENCY = 0.01
"""Seconds for which a message is under way. They are the same for all, so that peers in step train at the same time."""

_HALF = 0.5
"""The share of a round that is over when its faults happen: peers train."""


@dataclass(eq=False)
class _Incarnation:
    """A rank's process from its start to its end."""

    rank: int
    process: Process
    transport: FaultyTransport
    costs: RoundCosts
    worker: VirtualWorker
    peer: Peer | None = None
    task: asyncio.Task[None] | None = None
    outcome: Outcome | None = None
    error: str | None = None

    @property
    def running(self) -> bool:
        return self.task is not None and not self.task.done() and not self.process.dead


@dataclass
class _Rank:
    """The state of a rank that stays from one incarnation to the next."""

    config: RunConfig
    log: PeerLog
    current: _Incarnation
    dying: list[asyncio.Task[None]] = field(default_factory=list)


class FaultySimulation(Simulation):
    """A federation in one process, with the faults of a file.

    Args:
        configs: The peers', by rank.
        view: Shows the run.
        threads: How many train the peers; None for one a core.
    """

    def __init__(self, configs: Sequence[RunConfig], view: View, *, threads: int | None) -> None:
        super().__init__(configs, view, resume=False, threads=threads)
        size, file, network = len(configs), self._common.run.faults, self._common.network
        assert file is not None, "a run without faults is a Simulation"
        self.loop_factory = VirtualLoop
        plan = read_faults(file, size, self._common.training.rounds)
        self._round_seconds = plan.round_seconds
        conditions = Conditions(latency=(_LATENCY, _LATENCY))
        seed = f"network {self._common.training.seed}"
        self.network = FaultyNetwork(random.Random(seed), conditions)  # noqa: S311 - no secret
        self._injector = _FaultInjector(self, plan.fault, plan.round_seconds)
        self._liveness = LivenessConfig.after(network.dead_after)
        self._deadline: float | Literal["auto"] | None = None if network.deadline == "never" else network.deadline
        self._ranks: dict[int, _Rank] = {}
        self._known = {rank: f"inproc://rank-{rank}" for rank in range(size)}
        self._failure: BaseException | None = None
        self._changed = asyncio.Event()

    def stop(self) -> None:
        """Stop all peers after their current minibatch."""
        self._stopping = True
        self._injector.call_off()
        for rank in self._ranks.values():
            self._stop(rank.current)
        self._changed.set()

    # -- running ---------------------------------------------------------------------------------------------------

    def _worker(self) -> Worker:
        return VirtualWorker(process := Process(), RoundCosts(0.0, process), self._executor)

    async def _add(self, config: RunConfig, log: PeerLog) -> None:
        first = self._incarnation(config.rank)
        self._ranks[config.rank] = _Rank(config, log, first)
        await first.process.start(self._prepare(first, resume=False))

    async def _listen(self) -> None:
        for rank in self._ranks.values():
            assert rank.current.peer is not None, "made before"
            await rank.current.process.start(_listening(rank.current.peer))

    async def _play(self) -> list[Outcome]:
        for rank in self._ranks.values():
            self._start(rank.current, again=False)
        try:
            while self._failure is None and (self._injector.pending or self._any_running):
                self._changed.clear()
                await self._changed.wait()
        finally:
            ranks = self._ranks.values()
            tasks = [task for one in ranks for task in (*one.dying, one.current.task) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._failure is not None:
            raise self._failure
        self.status = self._status()
        return [one.current.outcome for one in self._ranks.values() if one.current.outcome is not None]

    @property
    def _any_running(self) -> bool:
        return any(one.current.running for one in self._ranks.values())

    def _incarnation(self, rank: int) -> _Incarnation:
        process = Process()
        costs = RoundCosts(self._round_seconds, process)
        worker = VirtualWorker(process, costs, self._executor)
        return _Incarnation(rank, process, self.network.transport(rank, process), costs, worker)

    async def _prepare(self, one: _Incarnation, *, resume: bool) -> None:
        rank = self._ranks[one.rank]
        one.peer = await self._peer(rank.config, one.transport, one.worker, rank.log, resume=resume)
        one.costs.share = lambda core=one.peer.core: core.round_budget.share  # type: ignore[misc]

    def _start(self, one: _Incarnation, *, again: bool) -> None:
        one.task = one.process.start(self._run(one, again=again))
        one.task.add_done_callback(lambda _: self._changed.set())

    async def _run(self, one: _Incarnation, *, again: bool) -> None:
        try:
            if again:
                await self._prepare(one, resume=True)
            assert one.peer is not None, "prepared"
            if again:
                await one.peer.listen()
            one.outcome = await blaming(one.rank, self._serve(one.peer))
        except (PeersMissing, Refused) as error:
            # Of a rank that comes back too late, or whose neighbors are gone: the others go on.
            one.error = str(error)
            self._ranks[one.rank].log.error("run-failed", message=str(error), reason=type(error).__name__)
        except Exception as error:
            if not one.process.dead:
                self._failure = self._failure or error
        finally:
            if not one.process.dead:
                one.transport.end(notice=True)

    def _happened(self, rank: int, event: dict[str, Any]) -> None:
        if event["kind"] == "completed" and not self._ranks[rank].current.running:
            return
        super()._happened(rank, event)
        if event["kind"] in ("connected", "completed"):
            self._injector.reached(event.get("round", -1) + 1)

    def _stop(self, one: _Incarnation) -> None:
        if one.peer is not None:
            one.peer.stop()
            one.worker.hurry()
        elif one.task is not None:
            one.task.cancel()

    def _status(self) -> str:
        """How the run has ended: done where a rank has come to its end, whatever became of the others."""
        ended = [one.current for one in self._ranks.values()]
        found = {one.outcome.status for one in ended if one.outcome is not None}
        if any(one.outcome is None and one.error is None and not one.process.dead for one in ended):
            found.add("stopped")
        return "stopped" if "stopped" in found else "done" if "done" in found else "failed"

    # -- for the fault injector --------------------------------------------------------------------------------------

    def running(self, rank: int) -> Process | None:
        """The process of a rank that runs; None if it does not."""
        current = self._ranks[rank].current
        return current.process if current.running else None

    def apart(self, ranks: Collection[int]) -> list[int]:
        """All other ranks."""
        return [rank for rank in self._ranks if rank not in ranks]

    def note(self, rank: int, what: str, reason: str) -> None:
        """Write a fault to a rank's log."""
        self._ranks[rank].log.warning("fault", message=f"{what}, as --faults says", reason=reason)

    def crash(self, rank: int) -> None:
        """End a rank's process at once."""
        one = self._ranks[rank].current
        assert self._disagreement is not None, "made before the peers begin"
        self._disagreement.without(rank)
        one.process.kill()
        one.worker.hurry()  # else its coroutines would wait for its jobs, and log meanwhile that all others are silent
        one.transport.end(notice=True)
        assert one.task is not None, "it runs"
        one.task.cancel()

    def restart(self, rank: int) -> None:
        """Start a rank that has crashed from its checkpoint."""
        if self._stopping:
            return
        here = self._ranks[rank]
        if here.current.task is not None:
            here.dying.append(here.current.task)
        here.current = self._incarnation(rank)
        self._start(here.current, again=True)
        self._changed.set()


async def _listening(peer: Peer) -> None:
    await peer.listen()


class _FaultInjector:
    """Injects the planned faults, each in its round.

    Args:
        simulation: The federation.
        planned: The faults.
        round_seconds: The seconds of a round.

    Attributes:
        pending: The number of ranks that are down and will start again.
    """

    def __init__(self, simulation: FaultySimulation, planned: Sequence[Fault], round_seconds: float) -> None:
        self.pending = 0
        self._simulation, self._round = simulation, round_seconds
        self._planned = sorted(planned, key=lambda fault: fault.round)
        self._off = False

    def reached(self, number: int) -> None:
        """Note that a peer begins a round."""
        due = [one for one in self._planned if one.round <= number]
        self._planned = self._planned[len(due) :]
        for fault in due:
            later(_HALF * self._round, partial(self._inject, fault))

    def call_off(self) -> None:
        """Inject no more faults."""
        self._off, self.pending = True, 0

    def _inject(self, fault: Fault) -> None:
        """Let a fault happen to those of its ranks that run."""
        ranks = [rank for rank in sorted(fault.ranks) if self._simulation.running(rank) is not None]
        if self._off or not ranks:
            return
        match fault.what:
            case "crash":
                for rank in ranks:
                    self._crash(rank, fault.lasts)
            case "cut":
                self._cut(fault)
            case "slow":
                for rank in ranks:
                    self._slow(rank, fault.times, fault.lasts)
        for rank in ranks:
            self._simulation.note(rank, _WORDS[fault.what], fault.what)

    def _crash(self, rank: int, rounds: float | None) -> None:
        self._simulation.crash(rank)
        if rounds is not None:
            self.pending += 1
            self._end_after(rounds, partial(self._restart, rank))

    def _restart(self, rank: int) -> None:
        self.pending -= 1
        self._simulation.restart(rank)

    def _cut(self, fault: Fault) -> None:
        network, rest = self._simulation.network, self._simulation.apart(fault.ranks)
        pairs = [pair for one in sorted(fault.ranks) for other in rest for pair in ((one, other), (other, one))]
        for pair in pairs:
            network.hold(*pair)

        def heal() -> None:
            for pair in pairs:
                network.release(*pair)

        self._end_after(fault.lasts, heal)

    def _slow(self, rank: int, times: float, rounds: float | None) -> None:
        process = self._simulation.running(rank)
        assert process is not None, "looked at by the caller"
        process.slow(times)
        self._end_after(rounds, partial(process.slow, 1 / times))

    def _end_after(self, rounds: float | None, end: Callable[[], None]) -> None:
        if rounds is not None:
            later(rounds * self._round, partial(self._end, end))

    def _end(self, end: Callable[[], None]) -> None:
        if not self._off:
            end()


_WORDS = {"crash": "killed", "cut": "cut off from all other ranks", "slow": "slow"}
