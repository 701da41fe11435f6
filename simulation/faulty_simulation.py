"""Simulation with faults: unmodified peers on a virtual clock and a simulated network crash and resume."""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dpeer.exceptions import PeersMissing, Refused
from dpeer.federation.config import RunConfig
from dpeer.federation.view import View
from dpeer.peer.config import LivenessConfig
from dpeer.peer.logs import PeerLog
from dpeer.peer.peer import Outcome, Peer
from dpeer.peer.worker import Worker
from dpeer.simulation.faults import Fault, read_faults
from dpeer.simulation.network import Conditions, FaultyNetwork, FaultyTransport
from dpeer.simulation.simulation import Simulation, blaming, first_error_ends
from dpeer.simulation.virtual_time import Process, RoundCosts, VirtualLoop, VirtualWorker

_LATENCY = 0.01
"""Seconds for which a message is under way. They are the same for all, so that peers in step train at the same time."""

_HALF = 0.5
"""The share of a round that is over when its faults happen: peers train."""

_WORDS = {"crash": "killed", "cut": "cut off from all other ranks", "slow": "slow"}


@dataclass(eq=False)
class _Life:
    """A rank's process from its start to its end. The next one resumes from the checkpoint, as with --resume."""

    config: RunConfig
    log: PeerLog
    process: Process
    transport: FaultyTransport
    costs: RoundCosts
    worker: VirtualWorker
    peer: Peer | None = None
    task: asyncio.Task[None] | None = None
    outcome: Outcome | None = None
    failed: bool = False
    next_at: float | None = None
    """When the next one starts after a crash; None for never."""

    @property
    def running(self) -> bool:
        return self.task is not None and not self.task.done() and not self.process.dead


class FaultySimulation(Simulation):
    """A federation in one process, with the faults of a file.

    Args:
        threads: How many train the peers; None for one a core.
    """

    def __init__(self, configs: Sequence[RunConfig], view: View, *, threads: int | None) -> None:
        super().__init__(configs, view, resume=False, threads=threads)
        size, file, network = len(configs), self._common.run.faults, self._common.network
        assert file is not None, "a run without faults is a Simulation"
        self.loop_factory = VirtualLoop
        plan = read_faults(file, size, self._common.training.rounds)
        self._round_seconds = plan.round_seconds
        self._planned = sorted(plan.fault, key=lambda fault: fault.round)
        self._faults: set[asyncio.Task[None]] = set()
        conditions = Conditions(latency=(_LATENCY, _LATENCY))
        seed = f"network {self._common.training.seed}"
        self.network = FaultyNetwork(random.Random(seed), conditions)  # noqa: S311 - no secret
        self._liveness = LivenessConfig.after(network.dead_after)
        self._deadline: float | Literal["auto"] | None = None if network.deadline == "never" else network.deadline
        self._lives: dict[int, _Life] = {}
        """The present one of each rank."""
        self._known = {rank: f"inproc://rank-{rank}" for rank in range(size)}

    def stop(self) -> None:
        """Stop all peers after their current minibatch; no fault happens, and no rank starts again, any more."""
        self._stopping = True
        for one in self._lives.values():
            if one.peer is not None:
                one.peer.stop()
            elif one.task is not None:
                one.task.cancel()

    # -- lives of ranks ----------------------------------------------------------------------------------------------

    def _worker(self) -> Worker:
        return VirtualWorker(Process(), RoundCosts(0.0), self._executor)

    async def _add(self, config: RunConfig, log: PeerLog) -> None:
        one = self._life(config, log)
        await one.process.start(self._prepare(one, resume=False))

    async def _listen(self) -> None:
        for one in self._lives.values():
            assert one.peer is not None, "made before"
            await one.process.start(one.peer.listen())

    async def _play(self) -> list[Outcome]:
        try:
            await first_error_ends(self._live(one) for one in [*self._lives.values()])
        finally:
            for task in self._faults:
                task.cancel()
        self.status = self._status()
        return [one.outcome for one in self._lives.values() if one.outcome is not None]

    def _life(self, config: RunConfig, log: PeerLog) -> _Life:
        process, costs = Process(), RoundCosts(self._round_seconds)
        worker = VirtualWorker(process, costs, self._executor)
        transport = self.network.transport(config.rank, process)
        one = self._lives[config.rank] = _Life(config, log, process, transport, costs, worker)
        return one

    async def _prepare(self, one: _Life, *, resume: bool) -> Peer:
        peer = one.peer = await self._peer(one.config, one.transport, one.worker, one.log, resume=resume)
        one.costs.share = lambda: peer.core.round_budget.share
        return peer

    async def _live(self, one: _Life) -> None:
        """Run a rank to its end, with all its lives."""
        while True:
            one.task = one.process.start(self._run(one))
            (error,) = await asyncio.gather(one.task, return_exceptions=True)  # which ends it where this is cancelled
            if not one.process.dead:
                if isinstance(error, Exception):
                    raise error
                return
            if one.next_at is None:
                return
            await asyncio.sleep(one.next_at - asyncio.get_running_loop().time())
            if self._stopping:
                return
            one = self._life(one.config, one.log)

    async def _run(self, one: _Life) -> None:
        try:
            if (peer := one.peer) is None:
                peer = await self._prepare(one, resume=True)
                await peer.listen()
            one.outcome = await blaming(one.config.rank, self._serve(peer))
        except (PeersMissing, Refused) as error:
            # Of a rank that comes back too late, or whose neighbors are gone: the others go on.
            one.failed = True
            one.log.error("run-failed", message=str(error), reason=type(error).__name__)
        finally:
            if not one.process.dead:
                one.transport.end(notice=True)

    def _happened(self, rank: int, event: dict[str, Any]) -> None:
        if event["kind"] == "completed" and not self._lives[rank].running:
            return
        super()._happened(rank, event)
        if event["kind"] in ("connected", "completed"):
            begins = event.get("round", -1) + 1
            while self._planned and self._planned[0].round <= begins:
                fault = self._inject(self._planned.pop(0))
                self._faults.add(asyncio.create_task(fault, context=contextvars.Context()))  # of no process

    def _status(self) -> str:
        """How the run has ended: done where a rank has come to its end, whatever became of the others."""
        ended = self._lives.values()
        found = {one.outcome.status for one in ended if one.outcome is not None}
        if any(one.outcome is None and not one.failed and not one.process.dead for one in ended):
            found.add("stopped")
        return "stopped" if "stopped" in found else "done" if "done" in found else "failed"

    # -- faults ------------------------------------------------------------------------------------------------------

    async def _inject(self, fault: Fault) -> None:
        """Let a fault happen in the midst of the present round, to those of its ranks that run, and end it."""
        await asyncio.sleep(_HALF * self._round_seconds)
        ranks = [rank for rank in sorted(fault.ranks) if self._lives[rank].running]
        if self._stopping or not ranks:
            return
        struck = [self._lives[rank] for rank in ranks]
        pairs: list[tuple[int, int]] = []
        for one in struck:
            if fault.what == "crash":
                self._crash(one, fault.lasts)
            elif fault.what == "slow":
                one.process.slow(fault.times)
        if fault.what == "cut":
            rest = [rank for rank in self._lives if rank not in fault.ranks]
            pairs = [pair for rank in sorted(fault.ranks) for other in rest for pair in ((rank, other), (other, rank))]
            for pair in pairs:
                self.network.hold(*pair)
        for one in struck:
            one.log.warning("fault", message=f"{_WORDS[fault.what]}, as --faults says", reason=fault.what)
        if fault.lasts is None or fault.what == "crash":
            return
        await asyncio.sleep(fault.lasts * self._round_seconds)
        for pair in pairs:
            self.network.release(*pair)
        for one in struck if fault.what == "slow" else ():
            one.process.slow(1 / fault.times)

    def _crash(self, one: _Life, rounds: float | None) -> None:
        """End a rank's process at once; it starts again after so many rounds' time."""
        assert self._disagreement is not None, "made before the peers begin"
        assert one.task is not None, "it runs"
        if rounds is not None:
            one.next_at = asyncio.get_running_loop().time() + rounds * self._round_seconds
        self._disagreement.without(one.config.rank)
        one.process.kill()
        one.transport.end(notice=True)
        one.task.cancel()
