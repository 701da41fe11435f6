"""Round loop: train, release, collect, mix, evaluate, settle, complete; shared by daemon, cluster and simulator."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from dpeer.exceptions import Drained
from dpeer.peer.checkpoint import ReleasedFile
from dpeer.peer.core.bodies import Received, Released
from dpeer.peer.core.round_budget import RoundLimit
from dpeer.peer.driver import Driver
from dpeer.peer.learner import Evaluation, Learner
from dpeer.peer.rank_folder import RankFolder
from dpeer.peer.worker import Worker
from dpeer.results.records import RoundRecord
from dpeer.topology import Row


class Stopwatch:
    """Measures one part of a round after the other."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    def lap(self) -> float:
        """The seconds since the last call, or since the start."""
        now = time.perf_counter()
        seconds, self._since = now - self._since, now
        return seconds


class RoundLoop:
    """Runs a peer's rounds; "A round" in docs/design.md gives the purpose of each step.

    Calls into the learner run on the worker, so the event loop keeps answering heartbeats. Calls that follow each
    other are one job: a change between the two threads costs as much as sending some hundred kilobytes.

    A completed round is copied in memory, and saved while the next one trains. Until then no message mentions the next
    round, and its body waits.

    Args:
        start: The first round; those before are saved.
        report: Called with each round that is completed, and with its line once that is saved (`Report`).
    """

    def __init__(
        self,
        start: int,
        learner: Learner,
        driver: Driver,
        worker: Worker,
        files: RankFolder,
        report: Callable[[dict[str, Any]], None],
        *,
        evaluate_every: int = 1,
    ) -> None:
        self.learner, self.driver, self.worker, self.files = learner, driver, worker, files
        self.evaluate_every = evaluate_every
        self._start, self._report = start, report
        self._reported = start - 1
        self._writing: asyncio.Task[None] | None = None
        self._held_back: list[Callable[[], None]] = []
        self._measured: Evaluation | None = None  # the figures of the present model

    async def run(self) -> None:
        """Run all rounds.

        Raises:
            Drained: The peer was asked to leave, and its round is complete, or cannot be.
            Isolated: It was cut off for longer than it waits.
            NoMember: It is a member no more, and the neighbors that need its last body have it.
            OSError: The disk refused a round; nothing has mentioned the next one.
        """
        number = self._start
        while not await self._over(number):
            await self._reach(number)
            await self._round(number)
            number += 1

    async def close(self) -> BaseException | None:
        """When no round is running any more: write a checkpoint of the last completed round, if it lacks one.

        Messages held back never leave.

        Returns:
            What went wrong, if it did: then nothing more is written.
        """
        self._held_back.clear()
        try:
            await self._saved()
            await self.worker.write(self.files.save, now=True)
        except Exception as error:
            return error
        if (last := self.files.progress.last) is not None and last["round"] > self._reported:
            self._completed(last)  # stopped while it was completed
            self._report({"kind": "record", "entry": last})
        return None

    # -- saving ------------------------------------------------------------------------------------------------

    def _completed(self, entry: dict[str, Any]) -> None:
        self._reported = entry["round"]
        self._report({"kind": "completed", "round": entry["round"]})

    def _once_saved(self, call: Callable[[], None]) -> None:
        """Call once all completed rounds are saved: now, if they are."""
        if self._writing is None:
            call()
        else:
            self._held_back.append(call)

    async def _saved(self) -> None:
        """Wait until all completed rounds are saved, and the calls held back are made."""
        if self._writing is not None:
            await asyncio.shield(self._writing)

    async def _write(self, entry: dict[str, Any]) -> None:
        await self.worker.write(self.files.save)
        self._report({"kind": "record", "entry": entry})
        self._writing = None
        for call in self._held_back:
            call()
        self._held_back.clear()

    # -- a round -----------------------------------------------------------------------------------------------

    async def _over(self, number: int) -> bool:
        """Whether all rounds are complete, and no neighbor needs this peer, nor may a list add rounds, any more."""
        if number < self.driver.core.schedule.rounds:
            return False
        await self._saved()
        await self.driver.wait("linger", number)
        return number >= self.driver.core.schedule.rounds

    async def _reach(self, number: int) -> None:
        """Make a round the current one once those before are on disk; leave before it, or pause, where that is due."""
        driver = self.driver
        self._once_saved(partial(driver.begin, number))
        if driver.core.waiting.drains:
            await self._saved()
            await driver.wait("part", number)
            raise Drained(f"round {number} is complete")
        if driver.core.waiting.holds(number):
            await self._saved()
            await driver.wait("pause", number)
        if (end := driver.core.lists.end) is not None:
            await self._saved()
            await driver.wait("part", number)
            raise end
        driver.enter(number)

    async def _round(self, number: int) -> None:
        """Run a round; its record is filled on the way."""
        learner, driver, core, worker = self.learner, self.driver, self.driver.core, self.worker
        graph, behind = core.schedule.at(number), driver.behind(number)
        active = graph.active and not behind and number >= core.entry.earliest
        last = number == core.schedule.rounds - 1
        evaluates = last or (number + 1) % self.evaluate_every == 0
        record, gradients, watch = RoundRecord(round=number), learner.figures.gradients, Stopwatch()

        # Train and release, or sit out; the body leaves once the round before is on disk.
        limit = core.train(number, driver.now()) if active else None
        released: Released | None = None
        if active:
            released = await worker.run(
                train_and_release, learner, record, graph.out_neighbors, watch, self.files.releases, limit,
                lambda: core.lateness.in_vain,
            )  # fmt: skip
        else:
            await worker.run(sit_out, learner, record, watch)
        record.active = active or number <= self.files.releases.released
        record.steps, record.steps_asked = list(learner.figures.steps), list(learner.figures.steps_asked)
        if limit is not None and any(record.steps_asked):
            core.round_budget.trained(sum(record.steps) / sum(record.steps_asked), driver.now())
        self._once_saved(partial(driver.send, number, released))
        exchange_seconds = watch.lap()

        # Measure the model before mixing, while the bodies are on their way. A model that is as it was when it was last
        # measured is not measured again: a peer that catches up is quick.
        trained = self._measured if evaluates and behind else None
        if evaluates and trained is None:
            trained = await worker.run(learner.evaluate)
        watch.lap()

        await self._saved()
        received = await driver.collect(number)
        exchange_seconds += watch.lap()

        # A peer that has trained and not released mixes nothing: its own part would be missing. One that sits out and
        # hears others all the same (`ServerSampling`) takes their mean.
        mixes = released is not None or (not active and bool(received))
        await self._mix(record, received, graph.row if mixes else None, behind=behind)
        record.missed = sorted(set(graph.in_neighbors) - set(record.heard))
        if released is not None and record.heard:
            record.disagreement = learner.figures.disagreement
        record.mix_seconds = watch.lap()

        mixed = None if mixes else trained
        if evaluates and mixed is None:
            mixed = await worker.run(learner.evaluate)
        if active or mixes or mixed is not None:
            self._measured = mixed
        tuned = await worker.run(learner.fine_tune, number) if last else None
        for point, found in (("", mixed), ("_trained", trained), ("_finished", tuned)):
            record.add(found, point)
        watch.lap()

        record.bytes_sent = await driver.settle(number)
        record.exchange_seconds = exchange_seconds + watch.lap()

        record.samples = learner.figures.gradients - gradients
        record.privacy = learner.privacy
        if record.privacy:
            record.epsilon, record.delta = record.privacy["epsilon"], record.privacy["delta"]
        over = behind and not record.adopted and core.members.passed(number)
        entry = record.as_dict()
        await worker.run(self.files.complete, entry, over=over)
        self._completed(entry)
        self._writing = asyncio.create_task(self._write(entry))

    async def _mix(self, record: RoundRecord, received: dict[int, Received], row: Row | None, *, behind: bool) -> None:
        """Mix the bodies by this row, or adopt their mean, and drop them: the next round trains without them."""
        number, learner = record.round, self.learner
        if behind and row is not None:
            refused = await self.worker.run(adopt_received, learner, number, received, row)
        else:
            refused = await self.worker.run(mix_received, learner, received, row)
        for neighbor, reason in refused.items():
            self.driver.left_out(neighbor, reason)
            del received[neighbor]
        record.adopted = behind and bool(received)
        if record.adopted:
            self.driver.core.entry.adopt(number)
        mixed = {} if row is None else received
        record.heard, record.bytes_received = sorted(mixed), sum(body.wire_bytes for body in mixed.values())
        received.clear()


def train_and_release(
    learner: Learner,
    record: RoundRecord,
    receivers: Sequence[int],
    watch: Stopwatch,
    releases: ReleasedFile,
    limit: RoundLimit | None,
    in_vain: Callable[[], bool],
) -> Released | None:
    """Train the record's round, within a limit, and release; returns the body.

    A round that has been released before is trained with as many steps: a peer releases one body a round. A body that
    reaches no neighbor any more (`in_vain`) is not released, and costs no privacy.
    """
    number = record.round
    limit = releases.recorded(number) or limit
    loss = learner.train(number, share=1.0 if limit is None else limit.share)
    record.train_loss, record.diverged = loss, loss is not None and not math.isfinite(loss)
    record.train_seconds = watch.lap()
    payload = None if in_vain() else learner.release(number, receivers)
    if payload is not None:
        releases.note(number, limit)
    return None if payload is None else Released.of(payload)


def sit_out(learner: Learner, record: RoundRecord, watch: Stopwatch) -> None:
    """Let the record's round go by."""
    learner.sit_out(record.round)
    record.train_seconds = watch.lap()


def mix_received(learner: Learner, received: Mapping[int, Received], row: Row | None) -> Mapping[int, str]:
    """Mix, if this peer mixes in the round; returns the ranks whose body was left out, and why."""
    if row is None:
        return {}
    return learner.mix_sound({rank: body.payload for rank, body in received.items()}, row.restricted_to)


def adopt_received(learner: Learner, number: int, received: Mapping[int, Received], row: Row) -> Mapping[int, str]:
    """Take the mean of the neighbors' bodies for the own one; returns as `mix_received` does."""
    return learner.adopt(number, {rank: body.payload for rank, body in received.items()}, row.without_own)
