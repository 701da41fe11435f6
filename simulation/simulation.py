"""All peers of a federation in this process, over a network without faults, with each round's consensus distance."""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from dpeer.cores import own_cores
from dpeer.exceptions import CheckpointError, TaskError
from dpeer.federation.baseline.comparison import conclude_comparison
from dpeer.federation.baseline.training import AllOrNone
from dpeer.federation.build import PeerParts, build
from dpeer.federation.config import RunConfig
from dpeer.federation.control_client import held
from dpeer.federation.folders import naming
from dpeer.federation.process_tuning import keep_heap
from dpeer.federation.resume_checks import save_data_files
from dpeer.federation.trackers import Tracking
from dpeer.federation.trackers import close as close_trackers
from dpeer.federation.view import View
from dpeer.peer import checkpoint
from dpeer.peer.config import LivenessConfig
from dpeer.peer.logs import PeerLog
from dpeer.peer.peer import Outcome, Peer
from dpeer.peer.transport import Transport
from dpeer.peer.worker import Worker
from dpeer.results.files import DISAGREEMENT, LOG, rank_folder
from dpeer.results.run_folders import read_distances
from dpeer.simulation.network import AT_ONCE, FaultyNetwork
from dpeer.simulation.virtual_time import Process
from dpeer.training import forget
from dpeer.training.randomness import undisturbed
from dpeer.training.state.file_names import saved_body

T = TypeVar("T")
LoopFactory = Callable[[], asyncio.AbstractEventLoop] | None


class Simulation:
    """A federation in one process.

    Args:
        threads: How many train the peers; None for one a core.

    Attributes:
        loop_factory: Makes the event loop that it must run on; None for any.
        status: How the run has ended, where faults may have taken peers away; None where all peers' summaries say.
    """

    def __init__(self, configs: Sequence[RunConfig], view: View, *, resume: bool, threads: int | None) -> None:
        self._configs = configs
        self._common = configs[0]
        self._home = Path.cwd()
        self._out = self._common.run.out.absolute()
        self._view = view
        self._resume = resume
        self._peers: list[Peer] = []
        self._bodies: dict[int, Callable[[], Tensor]] = {}
        self._disagreement: ConsensusLog | None = None
        self.network = FaultyNetwork(random.Random(0), AT_ONCE)  # noqa: S311 - no secret
        self._stopping = False
        self._conclude: dict[int, Callable[[Outcome], Awaitable[Any]]] = {}
        self._notes: list[str] = []
        self._logs: list[PeerLog] = []
        self._tracking: dict[int, Tracking] = {}
        self._workers = min(len(configs), threads or len(own_cores()))
        folders = [rank_folder(self._out, one.rank) for one in configs] if resume else []
        rounds = self._common.training.rounds
        self._compared = AllOrNone.resumed(len(configs), self._workers, folders, rounds)
        self.connected = False
        # Peers of one process cannot be lost one by one.
        self._liveness = LivenessConfig(heartbeat=0)
        self._deadline: float | Literal["auto"] | None = None
        self.loop_factory: LoopFactory = None
        self.status: str | None = None

    async def run(self) -> list[Outcome]:
        """Assemble all peers and run their rounds together; outcomes by rank (none if stopped before the first).

        Raises:
            DpeerError: The first one that any peer raised; the others have been ended.
        """
        # A worker thread per core, one torch thread each: faster than one thread of many, and bit-identical.
        workers = self._workers
        executor, disk = self._executor, self._disk = tuple(
            ThreadPoolExecutor(workers, name, initializer=torch.set_num_threads, initargs=(1,))
            for name in ("tensors", "disk")
        )
        keep_heap()
        self._resources = resources = ExitStack()
        resources.enter_context(undisturbed())  # the random state of the calling script stays
        try:
            for rank, config in enumerate(self._configs):
                if self._stopping:
                    return []
                await self._add(config, self._open_log(rank, config))
            forget()
            if self._stopping:
                return []
            self._disagreement = ConsensusLog(
                self._out / DISAGREEMENT, self._bodies, self._worker(),
                every=self._common.run.evaluate_every, rounds=self._common.training.rounds, resume=self._resume,
            )  # fmt: skip
            await self._listen()
            self.connected = True
            self._view.notes(self._notes)
            with naming(self._out, self._common.run.out):
                outcomes = await self._play()
                await self._disagreement.written()
            return outcomes
        finally:
            close_trackers(self._tracking.values())  # no peer runs any more
            executor.shutdown(wait=True, cancel_futures=True)
            disk.shutdown(wait=True, cancel_futures=True)
            for log in self._logs:
                log.close()
            forget()  # broken files are read anew once they are mended
            resources.close()

    def stop(self) -> None:
        """Stop all peers after their current minibatch."""
        self._stopping = True
        for peer in self._peers:
            peer.stop()

    def kill(self) -> None:
        """End this process at once; completed rounds are on disk."""
        os._exit(130)

    def _open_log(self, rank: int, config: RunConfig) -> PeerLog:
        """Take a rank's folder for this process until the run ends, and open its log."""
        self._resources.enter_context(held(rank_folder(self._out, rank)))
        log = PeerLog(rank, rank_folder(self._out, rank) / LOG, config.run.log_level)
        self._logs.append(log)
        return log

    def _worker(self) -> Worker:
        """The worker that measures the bodies of all peers."""
        return Worker(self._executor)

    async def _add(self, config: RunConfig, log: PeerLog) -> None:
        """Make a peer that is to run."""
        transport, worker = self.network.transport(config.rank, Process()), Worker(self._executor, self._disk)
        self._peers.append(await self._peer(config, transport, worker, log, resume=self._resume))

    async def _listen(self) -> None:
        """Have all peers accept connections."""
        addresses = {peer.config.rank: await peer.listen() for peer in self._peers}
        self._known = {rank: address for rank, address in addresses.items() if address is not None}

    async def _play(self) -> list[Outcome]:
        """Run all peers to their end."""
        return await first_error_ends(blaming(peer.config.rank, self._serve(peer)) for peer in self._peers)

    async def _serve(self, peer: Peer) -> Outcome:
        """Run a peer to its end, then compare its kept model."""
        outcome = await peer.serve(self._known)
        if outcome.status == "done" and not outcome.concluded_before:
            await self._conclude[peer.config.rank](outcome)
        return outcome

    async def _compare(self, out: Path, parts: PeerParts, worker: Worker, log: PeerLog, *, diverged: bool) -> None:
        """Compare a peer's kept model with its local-only baseline."""
        if parts.baseline is not None:
            parts.baseline.end()  # not when a thread is free for it
        await worker.run(
            conclude_comparison, out, parts.learner, parts.baseline, parts.facts, lambda: self._stopping,
            lambda line: log.info("worth", message=line), diverged=diverged,
        )  # fmt: skip

    async def _peer(
        self, config: RunConfig, transport: Transport, worker: Worker, log: PeerLog, *, resume: bool
    ) -> Peer:
        """Make a peer of a rank."""
        rank = config.rank
        out = rank_folder(self._out, rank)
        assembled = worker.run(build, config, resume=resume, process=self._compared, home=self._home)
        parts = await blaming(rank, assembled)
        await worker.run(save_data_files, out, parts.partition, parts.preparation, resume=resume)
        for note in parts.notes:
            log.info("note", message=note)
        if rank == 0:
            self._notes = parts.notes
        learner = parts.learner
        self._bodies[rank] = lambda: learner.body
        self._conclude[rank] = lambda outcome: self._compare(out, parts, worker, log, diverged=outcome.diverged)
        if rank not in self._tracking:  # not of a rank that a fault has killed
            protects = config.privacy.privacy != "none"
            self._tracking[rank] = Tracking(
                config.run.log_to, out, parts.facts["settings"], log, protects=protects, resume=resume
            )
        listen = f"inproc://rank-{rank}"
        return Peer(
            replace(parts.peer, listen=listen, deadline=self._deadline, liveness=self._liveness),
            parts.topology, parts.learner, transport, worker, log,
            facts=parts.facts, report=lambda event: self._happened(rank, event),
            at_once=lambda outcome: self._conclude[rank](outcome), watch=parts.watch,
        )  # fmt: skip

    def _happened(self, rank: int, event: dict[str, Any]) -> None:
        if event["kind"] == "completed":
            assert self._disagreement is not None, "made before the peers begin"
            self._disagreement.record(rank, event["round"])
        elif event["kind"] == "record":
            self._tracking[rank].add(event["entry"])
        self._view.take(rank, event)


class ConsensusLog:
    """DIR/disagreement.jsonl of a simulation: one line a round, ``{"round", "consensus_distance"}``.

    Args:
        bodies: Functions by rank that return a copy of the peer's body, shape (body_parameters,).
        every: The interval of measurements in rounds, that of the peers' evaluations.
        resume: Do not write again the rounds of an earlier part of the run; measure a round that only some peers had
            completed when the run was stopped with the bodies in their checkpoints.
    """

    def __init__(
        self,
        path: Path,
        bodies: Mapping[int, Callable[[], Tensor]],
        worker: Worker,
        *,
        every: int,
        rounds: int,
        resume: bool,
    ) -> None:
        self._path, self._bodies, self._worker = path, bodies, worker
        self._every, self._rounds = every, rounds
        self._last: asyncio.Task[None] | None = None
        self._waiting: dict[int, dict[int, Tensor]] = {}
        self._known: set[int] = {*read_distances(path)} if resume else set()
        self._away: set[int] = set()
        if not resume:
            path.unlink(missing_ok=True)
        for rank in bodies if resume else ():
            self._take_checkpoint(rank)

    def record(self, rank: int, number: int) -> None:
        """Note that a peer has completed a round and not begun the next.

        The line is written once all peers have completed the round, so a round that only some complete is left out.
        """
        self._away.discard(rank)
        if self._measured(number):
            self._take(rank, number, self._bodies[rank]())

    def _measured(self, number: int) -> bool:
        return number not in self._known and ((number + 1) % self._every == 0 or number + 1 >= self._rounds)

    def _take(self, rank: int, number: int, body: Tensor) -> None:
        self._waiting.setdefault(number, {})[rank] = body
        self._write_complete()

    def without(self, rank: int) -> None:
        """Leave a peer out of the distances until it completes a round again."""
        self._away.add(rank)
        self._write_complete()

    def _write_complete(self) -> None:
        everyone = self._bodies.keys() - self._away
        for number in [number for number, here in self._waiting.items() if here.keys() >= everyone]:
            here = self._waiting.pop(number)
            self._known.add(number)
            self._last = asyncio.create_task(self._after(self._last, number, [here[rank] for rank in sorted(here)]))

    def _take_checkpoint(self, rank: int) -> None:
        """Take the body of a peer's last completed round from its checkpoint; the peer will not complete it again."""
        folder = rank_folder(self._path.parent, rank)
        number, learner = checkpoint.completed(folder) - 1, checkpoint.learner_folder(folder)
        if learner is None or not self._measured(number):
            return
        with suppress(CheckpointError):  # the peer raises it again
            body = saved_body(learner)
            self._take(rank, number, torch.zeros(0) if body is None else torch.from_numpy(body))

    async def written(self) -> None:
        """Wait until every line is in the file."""
        if self._last is not None:
            await self._last

    async def _after(self, before: asyncio.Task[None] | None, number: int, bodies: list[Tensor]) -> None:
        if before is not None:
            await before
        await self._worker.run(self._write, number, bodies)

    def _write(self, number: int, bodies: list[Tensor]) -> None:
        if not bodies[0].numel():
            return
        mean = torch.zeros_like(bodies[0], dtype=torch.float64)
        for body in bodies:
            mean.add_(body, alpha=1 / len(bodies))
        square = fmean(float((body - mean).square().sum()) for body in bodies)
        with self._path.open("a") as file:
            file.write(json.dumps({"round": number, "consensus_distance": math.sqrt(square)}) + "\n")


async def blaming(rank: int, run: Awaitable[T]) -> T:
    """Make or run a peer; an error of its task or data gets its rank put in front."""
    try:
        return await run
    except TaskError as error:
        raise TaskError(f"rank {rank}: {error}") from error


async def first_error_ends(runs: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run everything together; the first error ends the rest and is raised."""
    tasks = [asyncio.create_task(run) for run in runs]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    failed = next((task for task in tasks if task.done() and not task.cancelled() and task.exception()), None)
    if failed is not None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return [task.result() for task in ([failed] if failed else tasks)]
