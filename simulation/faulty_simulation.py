"""Simulation with faults: unmodified peers on a virtual clock and a simulated network crash, freeze and resume.

Each rank has one *life* after the other: a crash ends one at once, and what begins again goes on from the checkpoint,
as a process would that was started with --resume.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from dpeer.exceptions import PeersMissing, Refused
from dpeer.federation.config import RunConfig
from dpeer.federation.view import View
from dpeer.peer import LivenessConfig, Outcome, Peer, Worker
from dpeer.peer.logs import PeerLog
from dpeer.simulation.fault_injection import FaultInjector, fault_costs
from dpeer.simulation.faults import expand, read_faults
from dpeer.simulation.links import Conditions
from dpeer.simulation.network import FaultyNetwork, FaultyTransport
from dpeer.simulation.simulation import Simulation, blaming
from dpeer.simulation.virtual_time import Process, RoundCosts, VirtualLoop, VirtualWorker
from dpeer.topology import Graphs, take_part
from dpeer.topology.settings import build_graph

_LATENCY = 0.01
"""Seconds for which a message is under way. It is the same for all, so that peers in step train at the same time."""


@dataclass(eq=False)
class _Life:
    """A rank's process from its start to its end."""

    rank: int
    process: Process
    transport: FaultyTransport
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
    """What stays from one life of a rank to the next."""

    config: RunConfig
    log: PeerLog
    life: _Life
    lives: int = 1
    completed_at: dict[int, float] = field(default_factory=dict)
    dying: list[asyncio.Task[None]] = field(default_factory=list)


class FaultySimulation(Simulation):
    """A federation in one process, to whose peers the faults of a file happen.

    Args:
        configs: The peers', by rank.
        view: Is told what happens.
        new_data: The data are others than those of earlier runs in the folders.
    """

    def __init__(self, configs: Sequence[RunConfig], view: View, *, new_data: bool = False) -> None:
        super().__init__(configs, view, resume=False, new_data=new_data)
        size, file, network = len(configs), self._common.run.faults, self._common.network
        rounds, seed = self._common.training.rounds, self._common.training.seed
        assert file is not None, "else nothing happens"
        self.loop_factory = VirtualLoop
        self.size = size
        self._plan = read_faults(file, size, rounds)
        planned = expand(self._plan, size, rounds, seed)
        self._seed = seed if self._plan.seed is None else self._plan.seed
        conditions = Conditions(latency=(_LATENCY, _LATENCY))
        self.network = FaultyNetwork(random.Random(f"network {self._seed}"), conditions)  # noqa: S311 - no secret
        self._accidents = FaultInjector(self, planned, self._plan.round_seconds)
        self._liveness = LivenessConfig.after(network.dead_after)
        self._deadline: float | Literal["auto"] | None = None if network.deadline == "never" else network.deadline
        self._ranks: list[_Rank] = []
        self._known = {rank: f"inproc://rank-{rank}" for rank in range(size)}
        self._failure: BaseException | None = None
        self._changed = asyncio.Event()

    def stop(self) -> None:
        """Stop all peers after their current minibatch."""
        self._stopping = True
        self._accidents.call_off()
        for rank in self._ranks:
            self._leave(rank.life)
        self._changed.set()

    # -- running ---------------------------------------------------------------------------------------------------

    def _worker(self) -> Worker:
        return VirtualWorker(Process(), RoundCosts(0.0), self._executor)

    async def _add(self, config: RunConfig, log: PeerLog) -> None:
        life = self._born(config.rank)
        self._ranks.append(_Rank(config, log, life))
        await life.process.start(self._prepare(life, resume=False))

    async def _listen(self) -> None:
        for rank in self._ranks:
            assert rank.life.peer is not None, "made before"
            await rank.life.process.start(_listening(rank.life.peer))

    async def _play(self) -> list[Outcome]:
        for rank in self._ranks:
            self._start(rank.life, again=False)
        try:
            while self._failure is None and (self._accidents.pending or any(one.life.running for one in self._ranks)):
                self._changed.clear()
                await self._changed.wait()
        finally:
            tasks = [task for one in self._ranks for task in (*one.dying, one.life.task) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._failure is not None:
            raise self._failure
        self.faults = self._fault_costs()
        return [one.life.outcome for one in self._ranks if one.life.outcome is not None]

    def _born(self, rank: int) -> _Life:
        process = Process()
        worker = VirtualWorker(process, RoundCosts(self._plan.round_seconds), self._executor)
        return _Life(rank, process, self.network.transport(rank, process), worker)

    async def _prepare(self, life: _Life, *, resume: bool) -> None:
        rank = self._ranks[life.rank]
        life.peer = await self._peer(
            rank.config, life.transport, life.worker, rank.log, resume=resume,
            on_connected=lambda: self._accidents.reached(0),
        )  # fmt: skip

    def _start(self, life: _Life, *, again: bool) -> None:
        life.task = life.process.start(self._live(life, again=again))
        life.task.add_done_callback(lambda _: self._changed.set())

    async def _live(self, life: _Life, *, again: bool) -> None:
        try:
            if again:
                await self._prepare(life, resume=True)
            assert life.peer is not None, "prepared"
            if again:
                await life.peer.listen()
            life.outcome = await blaming(life.rank, self._serve(life.peer))
        except (PeersMissing, Refused) as error:
            # Of a rank that comes back too late, or whose neighbors are gone: the others go on.
            life.error = str(error)
            self._ranks[life.rank].log.error("run-failed", message=str(error), reason=type(error).__name__)
        except Exception as error:
            if not life.process.dead:
                self._failure = self._failure or error
        finally:
            if not life.process.dead:
                life.transport.end(notice=True)

    def _measure(self, rank: int, number: int) -> None:
        if self._ranks[rank].life.running:
            super()._measure(rank, number)
            self._ranks[rank].completed_at[number] = self._accidents.now
            self._accidents.reached(number + 1)

    # -- what accidents do -------------------------------------------------------------------------------------------

    def running(self, rank: int) -> Process | None:
        """See `FaultTarget`."""
        life = self._ranks[rank].life if rank < len(self._ranks) else None
        return life.process if life is not None and life.running else None

    def own_round(self, rank: int) -> int:
        """See `FaultTarget`."""
        peer = self._ranks[rank].life.peer
        return 0 if peer is None else peer.core.members.current_round

    def crash(self, rank: int) -> None:
        """See `FaultTarget`."""
        life = self._ranks[rank].life
        self._away(rank)
        life.process.kill()
        life.worker.hurry()  # else its coroutines would wait for its jobs, and log meanwhile that all others are silent
        life.transport.end(notice=True)
        assert life.task is not None, "it runs"
        life.task.cancel()
        self._ranks[rank].log.warning("fault", message="killed, as --faults says", reason="crash")

    def leave(self, rank: int) -> None:
        """See `FaultTarget`."""
        self._away(rank)
        self._leave(self._ranks[rank].life)

    def begin_again(self, rank: int) -> None:
        """See `FaultTarget`."""
        here = self._ranks[rank]
        before = here.life.task
        if here.life.running and before is not None:  # has not left yet
            self._accidents.pending += 1
            before.add_done_callback(lambda _: self._next_life(rank))
        else:
            self._accidents.pending += 1
            self._next_life(rank)

    def _next_life(self, rank: int) -> None:
        here = self._ranks[rank]
        if self._stopping:
            return
        self._accidents.pending -= 1
        if here.life.outcome is not None and here.life.outcome.status == "done":
            return  # it had come to its end when it was told to leave
        if here.life.task is not None:
            here.dying.append(here.life.task)
        here.life = self._born(rank)
        here.lives += 1
        self._start(here.life, again=True)
        self._changed.set()

    def _leave(self, life: _Life) -> None:
        if life.peer is not None:
            life.peer.stop()
            life.worker.hurry()
        elif life.task is not None:
            life.task.cancel()

    def _away(self, rank: int) -> None:
        assert self._disagreement is not None, "made before the peers begin"
        self._disagreement.without(rank)

    def _fault_costs(self) -> Mapping[str, Any]:
        how = self._common.training
        graphs = take_part(build_graph(self._common.graph), how.participation, how.participation_mode, how.seed)
        ranks = [
            fault_costs(
                self._out, rank, partial(_active, graphs, rank), how.rounds,
                status=self._status(one.life), error=one.life.error, restarts=one.lives - 1,
                completed_at=one.completed_at,
            )
            for rank, one in enumerate(self._ranks)
        ]  # fmt: skip
        found = {one["status"] for one in ranks}
        return {
            **self._plan.plain(),
            "status": "stopped" if "stopped" in found else "done" if "done" in found else "failed",
            "seed": self._seed,
            "round_seconds": self._plan.round_seconds,
            "dead_after": self._common.network.dead_after,
            "time": max(time for one in self._ranks for time in (0.0, *one.completed_at.values())),
            "happened": [incident.as_entry() for incident in self._accidents.happened],
            "ranks": ranks,
        }

    def _status(self, life: _Life) -> str:
        if life.outcome is not None:
            return "left" if life.outcome.status == "stopped" and not self._stopping else life.outcome.status
        if life.error is not None:
            return "failed"
        return "gone" if life.process.dead else "stopped"


def _active(graphs: Graphs, rank: int, number: int) -> bool:
    return graphs.at(number, rank).active


async def _listening(peer: Peer) -> None:
    await peer.listen()
