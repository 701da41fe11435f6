"""Simulation with faults: unmodified peers on a virtual clock and a simulated network crash, freeze and resume.

Each rank has one *incarnation* after the other: a crash ends one at once, and the next one resumes from the
checkpoint, as a process would that was started with --resume. Ranks that join are made when their change is due.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from dpeer.exceptions import PeersMissing, Refused
from dpeer.federation.config import RunConfig
from dpeer.federation.planned_changes import Growth
from dpeer.federation.view import View
from dpeer.peer import LivenessConfig, Outcome, Peer, Worker
from dpeer.peer.core.epoch import Member
from dpeer.peer.core.schedule import Schedule
from dpeer.peer.logs import PeerLog
from dpeer.results.files import rank_folder
from dpeer.results.reading import read_entries
from dpeer.simulation.faults import PlannedFault, expand, read_faults
from dpeer.simulation.network import Conditions, FaultyNetwork, FaultyTransport, later
from dpeer.simulation.operator_contact import SimulatedContact
from dpeer.simulation.simulation import Simulation, blaming
from dpeer.simulation.virtual_time import Process, RoundCosts, VirtualLoop, VirtualWorker

_NO_MEMBER = ("left", "evicted")
"""How a rank ends that an epoch has made no member any more."""

_LATENCY = 0.01
"""Seconds for which a message is under way. They are the same for all, so that peers in step train at the same time."""


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
    schedule: Schedule | None = None
    incarnations: int = 1
    completed_at: dict[int, float] = field(default_factory=dict)
    dying: list[asyncio.Task[None]] = field(default_factory=list)
    joined_at: float = 0.0


class FaultySimulation(Simulation):
    """A federation in one process, with the faults of a file.

    Args:
        configs: The first members', by rank.
        view: Shows the run.
        new_data: The data are others than those of earlier runs in the folders.
        joiners: The configurations of those that join, by rank.
        secret: The secret key of the operator that signs changes.
    """

    def __init__(
        self,
        configs: Sequence[RunConfig],
        view: View,
        *,
        new_data: bool = False,
        joiners: Mapping[int, RunConfig] | None = None,
        secret: bytes = b"",
    ) -> None:
        super().__init__(configs, view, resume=False, new_data=new_data)
        size, file, network = len(configs), self._common.run.faults, self._common.network
        rounds, seed = self._common.training.rounds, self._common.training.seed
        assert file is not None, "a run without faults is a Simulation"
        self.loop_factory = VirtualLoop
        self._joiners, self._secret = joiners or {}, secret
        self._plan = read_faults(file, size, rounds)
        planned = expand(self._plan, size, rounds, seed)
        self._seed = seed if self._plan.seed is None else self._plan.seed
        conditions = Conditions(latency=(_LATENCY, _LATENCY))
        self.network = FaultyNetwork(random.Random(f"network {self._seed}"), conditions)  # noqa: S311 - no secret
        self._injector = _FaultInjector(self, planned, self._plan.round_seconds)
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
            await self._listen_at(rank)

    async def _listen_at(self, rank: _Rank) -> None:
        assert rank.current.peer is not None, "made before"
        await rank.current.process.start(_listening(rank.current.peer))

    async def _play(self) -> list[Outcome]:
        for rank in self._ranks.values():
            self._start(rank.current, again=False)
        growing = asyncio.create_task(self._change_members())
        try:
            while self._failure is None and (self._injector.pending or self._any_running):
                self._changed.clear()
                await self._changed.wait()
        finally:
            ranks = self._ranks.values()
            tasks = [task for one in ranks for task in (*one.dying, one.current.task) if task is not None]
            tasks.append(growing)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._failure is not None:
            raise self._failure
        self.faults = self._summary()
        return [one.current.outcome for one in self._ranks.values() if one.current.outcome is not None]

    @property
    def _any_running(self) -> bool:
        return any(one.current.running for one in self._ranks.values())

    # -- members that join and leave -----------------------------------------------------------------------------

    async def _change_members(self) -> None:
        contact = SimulatedContact(self._lowest, self._worker(), self._plan.round_seconds)
        growth = Growth(
            self._plan.change, self._secret, contact, self._enter, self._admit, self._dismiss, self._handed,
            self._view.say,
        )  # fmt: skip
        try:
            await growth.carry_out()
        except Exception as error:
            self._failure = self._failure or error
            self._changed.set()

    def _lowest(self) -> tuple[Process, Peer] | None:
        for _, one in sorted(self._ranks.items()):
            if one.current.running and not one.current.process.frozen and one.current.peer is not None:
                return one.current.process, one.current.peer
        return None

    async def _enter(self, rank: int) -> Member:
        config = self._joiners[rank]
        await self._add(config, self._open_log(rank, config))
        self._away(rank)
        await self._listen_at(self._ranks[rank])
        return Member(address=f"inproc://rank-{rank}")

    def _admit(self, rank: int) -> None:
        self._ranks[rank].joined_at = self._injector.now
        self._start(self._ranks[rank].current, again=False)

    def _dismiss(self, rank: int) -> None:
        if (found := self._ranks.pop(rank, None)) is not None:
            del self._bodies[rank]
            found.current.transport.end(notice=False)

    def _handed(self, first: int, ranks: tuple[int, ...], rounds: int) -> None:
        self.ranks = max(self.ranks, *(rank + 1 for rank in ranks))
        self._view.members(first, ranks, rounds)

    def _incarnation(self, rank: int) -> _Incarnation:
        process = Process()
        costs = RoundCosts(self._plan.round_seconds, process)
        worker = VirtualWorker(process, costs, self._executor)
        return _Incarnation(rank, process, self.network.transport(rank, process), costs, worker)

    async def _prepare(self, one: _Incarnation, *, resume: bool) -> None:
        rank = self._ranks[one.rank]
        one.peer = await self._peer(
            rank.config, one.transport, one.worker, rank.log, resume=resume,
            on_connected=lambda: self._injector.reached(0), share=one.costs.share,
        )  # fmt: skip
        rank.schedule = one.peer.core.schedule
        one.costs.budget = lambda core=one.peer.core: core.round_budget.seconds  # type: ignore[misc]

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
            if one.outcome.status in _NO_MEMBER:
                self._away(one.rank)
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

    def _measure(self, rank: int, number: int) -> None:
        if self._ranks[rank].current.running:
            super()._measure(rank, number)
            self._ranks[rank].completed_at[number] = self._injector.now
            self._injector.reached(number + 1)

    # -- for the fault injector --------------------------------------------------------------------------------------

    def running(self, rank: int) -> Process | None:
        """The process of a rank that runs; None if it does not."""
        one = self._ranks.get(rank)
        return one.current.process if one is not None and one.current.running else None

    def apart(self, ranks: Collection[int]) -> list[int]:
        """All other ranks that are members, or will be."""
        return [rank for rank in (*range(len(self._configs)), *self._joiners) if rank not in ranks]

    def own_round(self, rank: int) -> int:
        """The current round of a rank."""
        peer = self._ranks[rank].current.peer
        return 0 if peer is None else peer.core.members.current_round

    def crash(self, rank: int) -> None:
        """End a rank's process at once."""
        one = self._ranks[rank].current
        self._away(rank)
        one.process.kill()
        one.worker.hurry()  # else its coroutines would wait for its jobs, and log meanwhile that all others are silent
        one.transport.end(notice=True)
        assert one.task is not None, "it runs"
        one.task.cancel()
        self._ranks[rank].log.warning("fault", message="killed, as --faults says", reason="crash")

    def leave(self, rank: int) -> None:
        """Stop a rank, as Ctrl-C does."""
        self._away(rank)
        self._stop(self._ranks[rank].current)

    def restart(self, rank: int) -> None:
        """Start a rank from its checkpoint, once its earlier process has ended."""
        before = self._ranks[rank].current
        self._injector.pending += 1
        if before.running and before.task is not None:  # has not left yet
            before.task.add_done_callback(lambda _: self._next_incarnation(rank))
        else:
            self._next_incarnation(rank)

    def _next_incarnation(self, rank: int) -> None:
        here = self._ranks[rank]
        if self._stopping:
            return
        self._injector.pending -= 1
        if here.current.outcome is not None and here.current.outcome.status in ("done", *_NO_MEMBER):
            return  # it had come to its end when it was to leave
        if here.current.task is not None:
            here.dying.append(here.current.task)
        here.current = self._incarnation(rank)
        here.incarnations += 1
        self._start(here.current, again=True)
        self._changed.set()

    def _stop(self, one: _Incarnation) -> None:
        if one.peer is not None:
            one.peer.stop()
            one.worker.hurry()
        elif one.task is not None:
            one.task.cancel()

    def _away(self, rank: int) -> None:
        assert self._disagreement is not None, "made before the peers begin"
        self._disagreement.without(rank)

    # -- summary -----------------------------------------------------------------------------------------------------

    def _summary(self) -> Mapping[str, Any]:
        """The faults and their costs, as summary.json has them."""
        # One that was to join may not have been ready when the others ended.
        schedules = {rank: one.schedule for rank, one in sorted(self._ranks.items()) if one.schedule is not None}
        every = max(one.rounds for one in schedules.values())
        ranks = [self._costs(rank, schedule, every) for rank, schedule in schedules.items()]
        found = {one["status"] for one in ranks}
        return {
            **self._plan.plain(),
            "status": "stopped" if "stopped" in found else "done" if "done" in found else "failed",
            "seed": self._seed,
            "round_seconds": self._plan.round_seconds,
            "dead_after": self._common.network.dead_after,
            "time": max(time for one in self._ranks.values() for time in (0.0, *one.completed_at.values())),
            "happened": [fault.as_entry() for fault in self._injector.happened],
            "ranks": ranks,
        }

    def _costs(self, rank: int, schedule: Schedule, rounds: int) -> dict[str, Any]:
        """A rank's entry: its status at the end, and the rounds and bodies that it missed, of so many in all."""
        here = self._ranks[rank]
        entries = read_entries(rank_folder(self._out, rank))
        epochs = None if here.current.peer is None else here.current.peer.core.epochs
        first = entries[0]["round"] if entries else 0 if epochs is None else epochs.entry
        last = schedule.rounds if epochs is not None and epochs.chain.removed else rounds
        trained = [entry for entry in entries if entry.get("active")]
        idle = [entry["round"] for entry in entries if not entry.get("active")]
        return {
            "rank": rank,
            "status": self._status(here.current),
            "error": here.current.error,
            "restarts": here.incarnations - 1,
            "first_round": first,
            "joined_at": here.joined_at,
            "completed_rounds": len(entries),
            "completed_at": [here.completed_at.get(entry["round"]) for entry in entries],
            "rounds_trained": len(trained),
            "sat_out": [number for number in idle if schedule.at(number).active],
            "rounds_not_run": last - first - len(entries),
            "bodies_missed": sum(len(entry.get("missed", ())) for entry in trained),
            "missed_by_round": {str(entry["round"]): entry["missed"] for entry in trained if entry.get("missed")},
        }

    def _status(self, one: _Incarnation) -> str:
        if one.outcome is not None:
            if one.outcome.status == "stopped" and not self._stopping:
                return "left"
            return "former" if one.outcome.status == "left" else one.outcome.status
        if one.error is not None:
            return "failed"
        return "gone" if one.process.dead else "stopped"


async def _listening(peer: Peer) -> None:
    await peer.listen()


@dataclass
class _InjectedFault:
    """A fault of one rank, as in summary.json. Times are in rounds' time from the start.

    Attributes:
        what: The kind of fault.
        rank: The rank.
        round: The round of the peer that was furthest.
        own_round: The round of the rank itself.
        time: Its begin.
        until_round: As `round`, at its end; None if it did not end.
        until_time: Its end; None if it did not end.
        times: The factor of a slow rank's time; None for other faults.
    """

    what: str
    rank: int
    round: int
    own_round: int
    time: float
    until_round: int | None = None
    until_time: float | None = None
    times: float | None = None

    def as_entry(self) -> dict[str, Any]:
        """Its entry in summary.json."""
        return {name: value for name, value in vars(self).items() if name != "times" or value is not None}


class _FaultInjector:
    """Injects the planned faults, each in its round, and records them.

    Args:
        simulation: The federation.
        planned: The faults.
        round_seconds: The seconds of a round.

    Attributes:
        happened: The faults so far. A fault of a rank that did not run then is none.
        front: The round of the peer that is furthest.
        pending: The number of ranks that are down and will start again.
    """

    def __init__(self, simulation: FaultySimulation, planned: Sequence[PlannedFault], round_seconds: float) -> None:
        self.happened: list[_InjectedFault] = []
        self.front = -1
        self.pending = 0
        self._simulation, self._planned, self._round = simulation, planned, round_seconds
        self._off = False

    def reached(self, number: int) -> None:
        """Note that a peer begins a round."""
        if number <= self.front:
            return
        self.front = number
        due = [one for one in self._planned if one.round <= number]
        self._planned = [one for one in self._planned if one.round > number]
        for fault in due:
            later(fault.at * self._round, partial(self._inject, fault))

    def call_off(self) -> None:
        """Inject no more faults, and end all freezes."""
        self._off, self.pending = True, 0
        for rank in self._simulation.apart(()):
            process = self._simulation.running(rank)
            while process is not None and process.frozen:
                process.thaw()

    @property
    def now(self) -> float:
        """The time in rounds."""
        return round(asyncio.get_running_loop().time() / self._round, 3)

    def _inject(self, fault: PlannedFault) -> None:
        ranks = [rank for rank in fault.ranks if self._simulation.running(rank) is not None]
        if self._off or not ranks:
            return
        times = fault.times if fault.what == "slow" else None
        begun = [
            _InjectedFault(fault.what, rank, self.front, self._simulation.own_round(rank), self.now, times=times)
            for rank in ranks
        ]
        self.happened += begun
        if fault.what == "partition":
            self._partition(fault, begun)
        else:
            for one in begun:
                self._inject_one(fault, one)

    def _partition(self, fault: PlannedFault, begun: list[_InjectedFault]) -> None:
        network = self._simulation.network
        rest = self._simulation.apart(fault.ranks)
        pairs = [pair for one in fault.ranks for other in rest for pair in ((one, other), (other, one))]
        for pair in pairs:
            network.hold(*pair)

        def heal() -> None:
            for pair in pairs:
                network.release(*pair)

        self._end_after(fault.lasts, begun, heal)

    def _inject_one(self, fault: PlannedFault, begun: _InjectedFault) -> None:
        rank = begun.rank
        process = self._simulation.running(rank)
        assert process is not None, "looked at by the caller"
        match fault.what:
            case "freeze":
                process.freeze()
                self._end_after(fault.lasts, [begun], process.thaw)
            case "slow":
                process.slow(fault.times)
                self._end_after(fault.lasts, [begun], partial(process.slow, 1 / fault.times))
            case "crash" | "restart":
                self._simulation.crash(rank)
                self._end_with_process(rank, "freeze", "slow")
                self._restart_after(0.0 if fault.what == "restart" else fault.lasts, begun)
            case "leave":
                self._simulation.leave(rank)
                self._end_with_process(rank, "slow")
                self._restart_after(fault.lasts, begun)

    def _end_with_process(self, rank: int, *kinds: str) -> None:
        """Note the end of a process's own faults: the rank's next process begins without."""
        self._note_end([one for one in self.happened if one.rank == rank and one.what in kinds])

    def _restart_after(self, rounds: float | None, begun: _InjectedFault) -> None:
        if rounds is not None:
            self.pending += 1
            self._end_after(rounds, [begun], partial(self._restart, begun.rank))

    def _restart(self, rank: int) -> None:
        self.pending -= 1
        self._simulation.restart(rank)

    def _end_after(self, rounds: float | None, begun: list[_InjectedFault], end: Callable[[], None]) -> None:
        if rounds is not None:
            later(rounds * self._round, partial(self._end, begun, end))

    def _end(self, begun: list[_InjectedFault], end: Callable[[], None]) -> None:
        if not self._off:
            self._note_end(begun)
            end()

    def _note_end(self, faults: list[_InjectedFault]) -> None:
        for one in faults:
            if one.until_time is None:
                one.until_round, one.until_time = self.front, self.now
