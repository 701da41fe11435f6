"""Peer: one federation member; connects learner, core, transport and files, and `serve` runs it to its `Outcome`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from dpeer.exceptions import (
    AddressError,
    ConfigurationError,
    Drained,
    Interrupted,
    Isolated,
    NoMember,
    PeersMissing,
)
from dpeer.peer.config import PeerConfig
from dpeer.peer.control import Handler
from dpeer.peer.core.effects import LogEvent
from dpeer.peer.core.limits import MOST_AWAY
from dpeer.peer.core.member_list import MemberList
from dpeer.peer.core.membership import Status, dials
from dpeer.peer.core.protocol import Core
from dpeer.peer.core.wire import Goodbyes
from dpeer.peer.driver import Driver
from dpeer.peer.learner import Learner
from dpeer.peer.logs import PeerLog
from dpeer.peer.rank_folder import RankFolder
from dpeer.peer.rounds import RoundLoop
from dpeer.peer.snapshot import Snapshot, answer_members, take_snapshot
from dpeer.peer.transport import Transport
from dpeer.peer.worker import Worker
from dpeer.results.figures import cost
from dpeer.results.training_alerts import AlertMonitor
from dpeer.topology import Graphs

Report = Callable[[dict[str, Any]], None]
"""Gets a peer's progress, an object of one "kind".

    {"kind": "connected"}                         rounds begin
    {"kind": "completed", "round": ...}           the learner has not begun the next one
    {"kind": "record", "entry": {...}}            the line of metrics.jsonl is on disk
    {"kind": "alert", "alert": {...}}             the fields of an `Alert`, which has been logged
    {"kind": "waiting", "neighbors": [...]}       a round has waited for these for a while
"""

_EXPECTED_WHEN_STOPPED = (asyncio.CancelledError, Interrupted)


Ending = Literal["done", "stopped", "isolated", "left-behind", "left", "evicted", "failed"]
"""How a peer's run ends.

"isolated": cut off from a quorum, or from all neighbors, for longer than the peer waits. "left-behind": its neighbors
did not appear again, or have completed the run without it. "left", "evicted": a member list took it out. "failed": by
an error.
"""


_GOODBYES: Mapping[Ending, Goodbyes] = {
    "done": "done",
    "stopped": "stopped",
    "isolated": "isolated",
    "left-behind": "isolated",
    "left": "left",
    "evicted": "left",
    "failed": "failed",
}
"""What a peer's goodbye says of its end."""


@dataclass(frozen=True)
class Outcome:
    """How a peer's run ended."""

    status: Ending
    completed_rounds: int
    last: Mapping[str, Any] | None
    """The last line of metrics.jsonl."""
    lost: Mapping[int, str]
    """Neighbors that a round has gone on without, and why."""
    diverged: bool = False
    """Whether the loss or a parameter is not finite at the end, or the loss far beyond use."""
    why: str = ""
    """Why a peer that ended "isolated" or "left-behind" did."""
    concluded_before: bool = False
    """Whether the whole result was there before neighbors were met, verdict included: no round was left."""
    back: frozenset[int] = frozenset()
    """Those of `lost` that were there again at the end, or had completed all rounds."""


def dialled(rank: int, neighbors: tuple[int, ...], addresses: Mapping[int, str]) -> dict[int, str]:
    """The neighbors that this rank dials, and their addresses.

    Of two neighbors the one whose neighbor has an address dials; if both have one, the lower rank does. An address
    behind a relay counts only where the other end has no direct one.

    Raises:
        AddressError: neither end of an edge has an address.
    """
    chosen = {}
    for neighbor in neighbors:
        if neighbor not in addresses and rank not in addresses:
            raise AddressError(
                f"ranks {min(rank, neighbor)} and {max(rank, neighbor)} are neighbors and neither has an address: "
                "give one of them an address (relay://HOST:PORT where none can be dialled)"
            )
        if dials(rank, neighbor, addresses):
            chosen[neighbor] = addresses[neighbor]
    return chosen


class Peer:
    """Wires learner, topology and transport together and runs them.

    Args:
        transport: Carries messages to neighbors; unused without any.
        facts: Entries of summary.json about the run besides its results.
        watch: Looks for such alerts; None for those that need to know nothing of the data.
        at_once: Awaited where a resumed run has no round left and its result was lost, when model, card and summary are
            there again, while neighbors get the bodies that they may still need.
        files: Keeps the peer's files; by default in the folder that `config` names.
    """

    def __init__(
        self,
        config: PeerConfig,
        topology: Graphs,
        learner: Learner,
        transport: Transport,
        worker: Worker,
        log: PeerLog,
        *,
        facts: Mapping[str, Any] | None = None,
        report: Report = lambda event: None,
        watch: AlertMonitor | None = None,
        at_once: Callable[[Outcome], Awaitable[object]] | None = None,
        files: RankFolder | None = None,
    ) -> None:
        self.config = config
        self._learner = learner
        self._transport = transport
        self._worker = worker
        self._at_once = at_once
        self._log = log
        self._report = report
        self._watch = watch or AlertMonitor()
        self._start = 0
        self._why = ""
        self._ended = False
        self._back_within = 0
        self.core = Core(config, learner, topology, transport.chunk_bytes)
        self.driver = Driver(self.core, transport, self._log_event, config.linger, self._keep_lists)

        def warn(message: str) -> None:
            log.warning("metrics-damaged", message=message)

        outbox, members = self.core.exchange.outbox, self.core.members
        self._files = files or RankFolder(
            config, learner, outbox, members.lost, facts or {}, warn, lambda: self.core.schedule.rounds
        )
        self._stopping = asyncio.Event()

    async def listen(self) -> str | None:
        """Take up the checkpoint when resuming, then accept connections; to be called before `serve`.

        Returns:
            The bound address; None for a peer that only dials out or has no neighbors.

        Raises:
            CheckpointError: resuming is not possible; no connection is open yet.
            AddressError: the address cannot be bound.
        """
        try:
            if self.config.lists is not None:
                self.core.lists.resume(*await self._worker.run(self._files.take_up_lists))
            self._start = await self._worker.run(self._files.take_up)
            self.core.round_budget.resume(self._files.releases.last_limit)
            if self._start:
                self._log.info("resuming", message=f"resuming at round {self._start + 1}", round=self._start)
            if self.config.listen is None or not (self.neighbors or self.config.lists):
                return None
            return await self._transport.listen(self.config.listen)
        except BaseException:
            await self._transport.close(0)
            raise

    async def serve(self, addresses: Mapping[int, str]) -> Outcome:
        """Run all rounds with the neighbors at these addresses, or those that are complete when `stop` is called.

        Raises:
            PeersMissing: neighbors did not appear.
            Refused: a neighbor has other settings.
        """
        leaving: Goodbyes = "failed"
        early: asyncio.Future[object] | None = None
        try:
            await self._worker.write(self._files.begin)
            if (lists := self.core.lists.lists).newest.version:
                await self._keep_lists(lists.counts, lists.waits)
            lost = range(self._start, self.config.rounds_released)
            stated = [number for number in lost if self.core.schedule.at(number).active]
            if stated:
                await self._worker.run(self._learner.charge_stated, stated)
                rounds = f"rounds {stated[0] + 1} to {self.config.rounds_released}"
                why = "a lost disk may have released them (--rounds-released)"
                self._log.info("ledger", message=f"{rounds} are charged, and not released again: {why}")
            if before := self._concluded_before():
                self._log.info("nothing-left", message="no round is left, and model, card and summary are there")
            elif self._start and self._start == self._rounds:
                # At once: neighbors are met only for bodies that they may still need.
                outcome = await self._conclude("done")
                if self._at_once is not None:
                    early = asyncio.ensure_future(self._at_once(outcome))
            listed = lists.counts.version > 0  # then the core knows who has which address
            to_dial = () if listed else dialled(self.config.rank, self.neighbors, addresses)
            self.driver.open(to_dial, addresses, self._start)
            loop = RoundLoop(
                self._start, self._learner, self.driver, self._worker, self._files, self._happened,
                evaluate_every=self.config.evaluate_every,
            )  # fmt: skip
            status = await self._until_stopped(loop)
            leaving = _GOODBYES[status]
            if early is not None:
                await early
            if before or early is not None:
                return self._outcome(status, concluded_before=True)
            return await self._conclude(status)
        except Exception as error:
            await self._leave_model("left-behind" if isinstance(error, PeersMissing) else "failed")
            raise
        finally:
            if early is not None:
                await asyncio.gather(early, return_exceptions=True)
            await self.driver.close(leaving, self._back_within)
            self._ended = True

    @property
    def requests(self) -> dict[str, Handler]:
        """What the control socket of this peer answers, by the name of the request."""
        return {
            "status": lambda request: asdict(self.snapshot()),
            "drain": self._on_drain,
            "members": lambda request: answer_members(request, self.driver, self.config.about),
        }

    def snapshot(self) -> Snapshot:
        """Where this peer is in its run, at this moment."""
        return take_snapshot(self.config, self.core, self.driver.now(), self._files, ended=self._ended)

    @property
    def neighbors(self) -> tuple[int, ...]:
        """The ranks with which this peer has an edge in some round."""
        return tuple(one.rank for one in self.core.members.all())

    def drain(self, back_within: int = 0) -> None:
        """Complete the present round, wait until neighbors have its body, and leave; may be called more than once.

        Where no round runs (before the first one, and in a pause) the peer leaves at once.

        Args:
            back_within: Seconds, at most `MOST_AWAY`, for which neighbors are asked to wait for its return.
        """
        self._back_within = back_within
        self.driver.drain()

    def _on_drain(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        back_within = request.get("back_within", 0)
        if type(back_within) is not int or not 0 <= back_within <= MOST_AWAY:
            raise ConfigurationError(f"back_within = {back_within!r}: expected seconds, from 0 to {MOST_AWAY}")
        self.drain(back_within)
        return asdict(self.snapshot())

    def stop(self) -> None:
        """Finish the current minibatch, discard the unfinished round, and leave. May be called more than once."""
        self._stopping.set()
        self._learner.interrupt()

    def _log_event(self, event: LogEvent) -> None:
        log = {"debug": self._log.debug, "info": self._log.info, "warning": self._log.warning}[event.level]
        log(event.event, message=event.message, **event.fields)
        if event.event in ("waiting", "paused") and "round" in event.fields:
            self._report({"kind": "waiting", "neighbors": list(event.fields["neighbors"])})

    async def _run(self, loop: RoundLoop) -> None:
        await self.driver.wait("meet")
        self._report({"kind": "connected"})
        if self.neighbors:
            there = [one.rank for one in self.core.members.all() if one.status in (Status.ALIVE, Status.SUSPECT)]
            count = (
                len(self.neighbors) if len(there) == len(self.neighbors) else f"{len(there)} of {len(self.neighbors)}"
            )
            named = "neighbor" if len(self.neighbors) == 1 else "neighbors"
            then = f"starting with round {self._start + 1}" if self._start < self._rounds else "no round is left"
            message = f"connected to {count} {named}; {then}"
            self._log.info("connected", message=message, neighbors=there, round=self._start)
        await loop.run()

    async def _until_stopped(self, loop: RoundLoop) -> Ending:
        running = asyncio.create_task(self._run(loop))
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            ends: set[asyncio.Future[Any]] = {running, stopping, self.driver.broken}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            if not running.done():
                self._learner.interrupt()
                running.cancel()
            outcome = (await asyncio.gather(running, return_exceptions=True))[0]
            # A job on the worker goes on after its round was cancelled: a checkpoint is finished, not torn.
            late = [await self._worker.drain(), await loop.close()]
        stopped = self._stopping.is_set()
        if self.driver.broken.done():
            self.driver.broken.result()
        for error in (outcome, *late):
            expected = isinstance(error, Isolated | Drained | NoMember) or (
                stopped and isinstance(error, _EXPECTED_WHEN_STOPPED)
            )
            if isinstance(error, BaseException) and not expected:
                raise error
        if isinstance(outcome, Isolated | NoMember) and not stopped:
            self._why = str(outcome)
            then = ", and --resume goes on with the others" if outcome.ending == "isolated" else ""
            message = f"ends, {self._why}: its model is kept{then}"
            self._log.warning("ends-early", message=message, reason=outcome.ending)
            return outcome.ending
        return "done" if self._files.progress.completed == self._rounds else "stopped"

    @property
    def _rounds(self) -> int:
        """How many rounds the run has by now."""
        return self.core.schedule.rounds

    async def _keep_lists(self, counts: MemberList, waits: MemberList | None) -> None:
        await self._worker.write(self._files.keep_lists, counts, waits)

    def _happened(self, event: dict[str, Any]) -> None:
        """Report a round; log its line, once that is saved, and the alerts that it gives rise to."""
        self._report(event)
        if event["kind"] != "record":
            return
        entry = event["entry"]
        self._log.info("round", message=_line(entry, self._rounds), round=entry["round"])
        for alert in self._watch.look(entry):
            self._log.warning("training-warning", message=alert.text, round=entry["round"], reason=alert.kind)
            self._report({"kind": "alert", "alert": vars(alert)})

    def _concluded_before(self) -> bool:
        summary = self._files.concluded if self._start == self._rounds else {}
        return summary.get("status") == "done" and "worth" in summary

    async def _leave_model(self, status: Literal["left-behind", "failed"]) -> None:
        """Write model, card and summary of the completed rounds, although the run ends with an error."""
        if not self._files.progress.completed:
            return
        if self._files.progress.completed == self._start and self._files.concluded.get("status") == "done":
            return  # the files of an ended run stay as they are
        try:
            completed = (await self._conclude(status)).completed_rounds
        except Exception as error:  # the first error is the one to raise
            left = f"model, card and summary cannot all be written: {' '.join(str(error).split())}"
            message = f"{left}; `dpeer model {self.config.out} --overwrite` makes them from the checkpoint"
            self._log.warning("no-model", message=message, reason=type(error).__name__)
            return
        if completed:
            rounds = f"{completed} of {self._rounds} rounds"
            self._log.warning("left", message=f"{status}: the model of {rounds} is in {str(self.config.out)!r}")

    async def _conclude(self, status: Ending) -> Outcome:
        dropped, pauses = self.core.reports.counts + self.core.exchange.inbox.dropped, self.core.waiting.pauses
        await self._worker.run(
            self._files.conclude,
            status,
            {
                "dropped": dict(dropped),
                "warnings": list(self._watch.given),
                "left_behind": self.core.entry.left_behind,
                "pauses": len(pauses),
                "paused_seconds": round(sum(pauses), 1),
                "late_bodies": self.core.lateness.late_bodies,
                "log_dropped": self._log.dropped,
            }
            | ({"why": self._why} if self._why else {}),
            ruined=self._watch.ruined,
        )
        return self._outcome(status)

    def _outcome(self, status: Ending, *, concluded_before: bool = False) -> Outcome:
        members, progress = self.core.members, self._files.progress
        back = {rank for rank in members.lost if rank in members and (members.is_there(rank) or members.is_done(rank))}
        return Outcome(
            status, progress.completed, progress.last, dict(members.lost), self._files.diverged, self._why,
            concluded_before, frozenset(back),
        )  # fmt: skip


_SHOWN = (
    ("loss", "train_loss"), ("accuracy", "accuracy"), ("trained", "accuracy_trained"),
    ("finished", "accuracy_finished"),
)  # fmt: skip
"""Figures of a round's line, and their keys in metrics.jsonl."""


def _line(entry: Mapping[str, Any], rounds: int) -> str:
    parts = [f"round {entry['round'] + 1}/{rounds}"]
    if not entry["active"]:
        parts.append(f"sat out, adopted the mean of {entry['heard']}" if entry["adopted"] else "sat out")
    for name, key in _SHOWN:
        if entry.get(key) is not None:
            parts.append(f"{name} {entry[key]:.4f}")
    if sum(entry["steps"]) < sum(entry["steps_asked"]):
        parts.append(f"{sum(entry['steps']):,} of {sum(entry['steps_asked']):,} steps")
    parts.append(f"sent {entry['bytes_sent']:,} B")
    if entry["privacy"] is not None:
        parts.append(cost(entry["privacy"]))
        if entry["privacy"].get("sent_again"):
            parts.append("budget used up: the last release sent again")
    if entry["missed"]:
        parts.append(f"missed {entry['missed']}")
    seconds = (f"{name} {entry[f'{name}_seconds']:.2f} s" for name in ("train", "exchange", "mix"))
    return ", ".join([*parts, *seconds])
