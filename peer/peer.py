"""One peer of a federation, from listening to goodbye. `Peer.serve` is the table of contents."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dpeer.exceptions import AddressError, CheckpointError
from dpeer.peer import checkpoint
from dpeer.peer.config import PeerConfig
from dpeer.peer.learner import Learner
from dpeer.peer.records import MetricsFile, RoundRecord, write_json
from dpeer.peer.rounds import run_rounds
from dpeer.peer.session import Session
from dpeer.peer.transports import Transport
from dpeer.peer.worker import Worker
from dpeer.topology import Graphs


@dataclass(frozen=True)
class Outcome:
    """How a peer's run ended."""

    status: Literal["done", "stopped"]
    completed_rounds: int
    last: Mapping[str, Any] | None
    """The last line of metrics.jsonl."""
    lost: Mapping[int, str]
    """Neighbors that were given up at some time, and why."""


def dialled(rank: int, neighbors: tuple[int, ...], addresses: Mapping[int, str]) -> dict[int, str]:
    """Which neighbors this rank dials, and where: whoever has its neighbor's address dials; both have: the lower rank.

    Raises:
        AddressError: neither end of an edge has an address.
    """
    chosen = {}
    for neighbor in neighbors:
        if neighbor in addresses and (rank < neighbor or rank not in addresses):
            chosen[neighbor] = addresses[neighbor]
        elif neighbor not in addresses and rank not in addresses:
            raise AddressError(
                f"ranks {min(rank, neighbor)} and {max(rank, neighbor)} are neighbors and neither has an address: "
                "give one of them `address` in the federation file"
            )
    return chosen


class Peer:
    """Wires learner, topology and transport together and runs them.

    Args:
        config: Its place in the federation.
        topology: Who its neighbors are, round by round.
        learner: What it trains.
        transport: How it reaches its neighbors; unused when it has none.
        worker: Where tensor work runs.
        log: Where lines go.
        facts: What summary.json says about the run besides its results.
        on_record: Called on the event loop with every line of metrics.jsonl.
    """

    def __init__(
        self,
        config: PeerConfig,
        topology: Graphs,
        learner: Learner,
        transport: Transport,
        worker: Worker,
        log: logging.Logger,
        *,
        facts: Mapping[str, Any] | None = None,
        on_record: Callable[[dict[str, Any]], None] = lambda record: None,
    ) -> None:
        self.config = config
        self.neighbors = topology.connections(config.rank)
        self._topology = topology
        self._learner = learner
        self._transport = transport
        self._worker = worker
        self._log = log
        self._facts = dict(facts or {})
        self._on_record = on_record
        self._session = Session(config, learner, transport, self.neighbors, log)
        self._stopping = asyncio.Event()
        self._metrics = MetricsFile(None, 0)
        self._reported = -1
        self._earlier_seconds = 0.0
        self._began = time.monotonic()

    async def listen(self) -> str | None:
        """Accept connections; return the bound address. None for a peer that only dials out or has no neighbors."""
        if self.config.listen is None or not self.neighbors:
            return None
        return await self._transport.listen(self.config.listen)

    async def serve(self, addresses: Mapping[int, str]) -> Outcome:
        """Run all rounds with the neighbors at these addresses, or as many as there is time for until `stop`.

        Raises:
            PeersMissing: neighbors did not appear.
            Refused: a neighbor has other settings.
            CheckpointError: resuming is not possible.
        """
        leaving: Literal["done", "stopped", "failed"] = "failed"
        try:
            start = await self._take_up()
            self._session.open(dialled(self.config.rank, self.neighbors, addresses), start)
            leaving = await self._until_stopped(self._run(start))
            return await self._conclude(leaving)
        finally:
            await self._session.close(leaving)

    def stop(self) -> None:
        """Finish the current minibatch, discard the unfinished round, and leave. May be called more than once."""
        self._stopping.set()
        self._learner.interrupt()

    async def _run(self, start: int) -> None:
        await self._session.gather()
        if self.neighbors:
            self._log.info("connected to %d neighbors; starting at round %d", len(self.neighbors), start)
        await run_rounds(
            self.config.rank,
            start,
            self.config.rounds,
            self._topology,
            self._learner,
            self._session,
            self._worker,
            self._complete,
            evaluate_every=self.config.evaluate_every,
        )
        await self._session.linger(self.config.rounds)

    async def _until_stopped(self, run: Coroutine[Any, Any, None]) -> Literal["done", "stopped"]:
        running = asyncio.create_task(run)
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            stopped = self._stopping.is_set()
            if not running.done():
                self._learner.interrupt()
                running.cancel()
            outcome = (await asyncio.gather(running, return_exceptions=True))[0]
            # A job on the worker goes on after its round was cancelled: a checkpoint is finished, not torn.
            await self._worker.drain()
        if stopped:
            return "done" if self._completed == self.config.rounds else "stopped"
        if isinstance(outcome, BaseException):
            raise outcome
        return "done"

    # -- what lasts --------------------------------------------------------------------------------------------

    @property
    def _completed(self) -> int:
        return 0 if self._metrics.last is None else int(self._metrics.last["round"]) + 1

    @property
    def _checkpoints(self) -> Path | None:
        return self.config.out / "checkpoint" if self.config.out else None

    async def _take_up(self) -> int:
        """Load the checkpoint when resuming; return the first round to run."""
        state = await self._worker.run(self._load) if self.config.resume else None
        start = state.next_round if state else 0
        out = self.config.out
        self._metrics = MetricsFile(out / "metrics.jsonl" if out else None, start)
        if state is not None:
            if self._completed != start:
                raise CheckpointError(f"metrics.jsonl in {str(out)!r} lacks rounds before {start}: it is damaged")
            if state.released is not None:
                self._session.outbox.add(start - 1, state.released, state.receivers)
            self._earlier_seconds = float((state.extra or {}).get("seconds", 0.0))
            self._reported = start - 1
            self._log.info("resuming at round %d", start)
        return start

    def _load(self) -> checkpoint.State | None:
        found = checkpoint.latest(self._checkpoints) if self._checkpoints else None
        if found is None:
            return None  # stopped before the first round was complete
        state = checkpoint.read(found, self._learner.load)
        here = self.config.fingerprint
        for field in here:
            # More rounds than planned are welcome: nothing that happened so far depended on the plan.
            if field != "rounds" and state.fingerprint.get(field) != here[field]:
                raise CheckpointError(
                    f"checkpoint {str(found)!r} is of another run: {field} is {state.fingerprint.get(field)!r} there "
                    f"and {here[field]!r} here; use the same settings, or start over with --overwrite"
                )
        if state.next_round > self.config.rounds:
            raise CheckpointError(
                f"checkpoint {str(found)!r} has completed {state.next_round} rounds, more than "
                f"--rounds {self.config.rounds}"
            )
        return state

    async def _complete(self, record: RoundRecord) -> None:
        entry = record.as_dict()
        await self._worker.run(self._save, entry)
        self._report(entry)
        self._log.info("%s", _line(entry, self.config.rounds))
        if entry["train_loss"] is None and record.train_loss is not None:
            self._log.warning("round %d: the training loss is not finite: lower the learning rates", record.round)

    def _report(self, entry: dict[str, Any]) -> None:
        self._reported = entry["round"]
        self._on_record(entry)

    def _save(self, entry: dict[str, Any]) -> None:
        # The line first: a line without its checkpoint is dropped on resume, a checkpoint without its line is damage.
        self._metrics.append(entry)
        if self._checkpoints is None:
            return
        number = entry["round"]
        outbox = self._session.outbox
        state = checkpoint.State(
            next_round=number + 1,
            fingerprint=self.config.fingerprint,
            receivers=outbox.receivers.get(number, ()),
            released=outbox.frames.get(number),
            extra={"seconds": self._seconds()},
        )
        checkpoint.write(self._checkpoints, state, self._learner.save)

    async def _conclude(self, status: Literal["done", "stopped"]) -> Outcome:
        """Write the model and the summary of the last completed round."""
        out = self.config.out
        if self._metrics.last is not None and self._reported < self._completed - 1:
            self._report(self._metrics.last)  # stopped while it was being saved
        if out is not None and self._completed:
            if status == "stopped":
                await self._worker.run(self._load)  # back from the middle of the discarded round
            await self._worker.run(self._learner.write_model, out / "model.safetensors")
        lost = self._session.members.lost
        if out is not None:
            write_json(out / "summary.json", {**self._facts, **self._results(status)})
        return Outcome(status, self._completed, self._metrics.last, dict(lost))

    def _results(self, status: str) -> dict[str, Any]:
        best = self._learner.best_round
        kept = (None if best is None else self._metrics.entry(best)) or self._metrics.last or {}
        names = ("accuracy", "accuracy_trained", "test_loss", "metrics", "train_loss", "epsilon", "delta")
        return {
            "rank": self.config.rank,
            "status": status,
            "completed_rounds": self._completed,
            "kept_round": kept.get("round"),
            **{name: kept.get(name) for name in names},
            "bytes_sent": self._metrics.bytes_sent,
            "bytes_received": self._metrics.bytes_received,
            "wall_seconds": round(self._seconds(), 3),
            "lost": {str(rank): reason for rank, reason in self._session.members.lost.items()},
            "dropped": dict(self._session.dropped + self._session.inbox.dropped),
        }

    def _seconds(self) -> float:
        return self._earlier_seconds + time.monotonic() - self._began


def _line(entry: Mapping[str, Any], rounds: int) -> str:
    parts = [f"round {entry['round'] + 1}/{rounds}"]
    for name, key in (("loss", "train_loss"), ("accuracy", "accuracy"), ("trained", "accuracy_trained")):
        if entry[key] is not None:
            parts.append(f"{name} {entry[key]:.4f}")
    parts.append(f"sent {entry['bytes_sent']:,} B")
    if entry["missed"]:
        parts.append(f"missed {entry['missed']}")
    seconds = (f"{name} {entry[f'{name}_seconds']:.2f} s" for name in ("train", "exchange", "mix"))
    return ", ".join([*parts, *seconds])
