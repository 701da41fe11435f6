"""Round loop: train, release, collect, mix, evaluate, settle, complete; shared by daemon, cluster and simulator."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from dpeer.exceptions import Drained
from dpeer.peer.core.bodies import Received, Released
from dpeer.peer.core.round_budget import RoundLimit
from dpeer.peer.driver import Driver
from dpeer.peer.learner import Evaluation, Learner
from dpeer.peer.saver import Saver
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


async def run_rounds(
    start: int,
    learner: Learner,
    driver: Driver,
    worker: Worker,
    saver: Saver,
    *,
    evaluate_every: int = 1,
) -> None:
    """Run all rounds from `start` on; "A round" in docs/design.md gives the purpose of each step.

    Calls into the learner run on the worker, so the event loop keeps answering heartbeats. Calls that follow each
    other are one job: a change between the two threads costs as much as sending some hundred kilobytes. So a body that
    is mixed in less is mixed on the event loop (`Learner.mixes_at_once`).

    A round is saved while the next one trains. Until then no message mentions the next round.

    Raises:
        Drained: The peer was asked to leave, and its round is complete, or cannot be.
        Isolated: It was cut off for longer than it waits.
        NoMember: It is a member no more, and the neighbors that need its last body have it.
    """
    loop, number = _RoundLoop(learner, driver, worker, saver, evaluate_every), start
    while not await loop.over(number):
        await loop.reach(number)
        await loop.run(number)
        number += 1


@dataclass
class _RoundLoop:
    """A round, and what comes before it and after the last one."""

    learner: Learner
    driver: Driver
    worker: Worker
    saver: Saver
    evaluate_every: int
    measured: Evaluation | None = None
    """The figures of the present model, if it was measured."""

    async def over(self, number: int) -> bool:
        """Whether all rounds are complete, and no neighbor needs this peer, nor may a list add rounds, any more."""
        if number < self.driver.core.schedule.rounds:
            return False
        await self.saver.saved()
        await self.driver.wait("linger", number)
        return number >= self.driver.core.schedule.rounds

    async def reach(self, number: int) -> None:
        """Make a round the current one once those before are on disk; leave before it, or pause, where that is due."""
        driver = self.driver
        self.saver.once_saved(partial(driver.begin, number))
        if driver.core.waiting.drains:
            await self.saver.saved()
            await driver.wait("part", number)
            raise Drained(f"round {number} is complete")
        if driver.core.waiting.holds(number):
            await self.saver.saved()
            await driver.wait("pause", number)
        if (end := driver.core.lists.end) is not None:
            await self.saver.saved()
            await driver.wait("part", number)
            raise end
        driver.enter(number)

    async def run(self, number: int) -> None:
        """Run a round; its record is filled on the way."""
        learner, driver, core, worker, saver = self.learner, self.driver, self.driver.core, self.worker, self.saver
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
                train_and_release, learner, record, graph.out_neighbors, watch, saver, limit,
                lambda: core.lateness.in_vain,
            )  # fmt: skip
        else:
            await worker.run(sit_out, learner, record, watch)
        record.active = active or number <= saver.files.releases.released
        record.steps, record.steps_asked = list(learner.figures.steps), list(learner.figures.steps_asked)
        if limit is not None and any(record.steps_asked):
            core.round_budget.trained(sum(record.steps) / sum(record.steps_asked), driver.now())
        saver.once_saved(partial(driver.send, number, released))
        exchange_seconds = watch.lap()

        # Measure the model before mixing, while the bodies are on their way. A model that is as it was when it was last
        # measured is not measured again: a peer that catches up is quick.
        trained = self.measured if evaluates and behind else None
        if evaluates and trained is None:
            trained = await worker.run(learner.evaluate)
        watch.lap()

        await saver.saved()
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
            self.measured = mixed
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
        await saver.complete(record, over=over)

    async def _mix(self, record: RoundRecord, received: dict[int, Received], row: Row | None, *, behind: bool) -> None:
        """Mix the bodies by this row, or adopt their mean, and drop them: the next round trains without them."""
        number, learner = record.round, self.learner
        if behind and row is not None:
            refused = await self.worker.run(adopt_received, learner, number, received, row)
        else:
            run = self.worker.run_at_once if learner.about.mixes_at_once else self.worker.run
            refused = await run(mix_received, learner, received, row)
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
    saver: Saver,
    limit: RoundLimit | None,
    in_vain: Callable[[], bool],
) -> Released | None:
    """Train the record's round, within a limit, and release; returns the body.

    A round that has been released before is trained with as many steps: a peer releases one body a round. A body that
    reaches no neighbor any more (`in_vain`) is not released, and costs no privacy.
    """
    number = record.round
    limit = saver.files.releases.recorded(number) or limit
    loss = learner.train(number, share=1.0 if limit is None else limit.share)
    record.train_loss, record.diverged = loss, loss is not None and not math.isfinite(loss)
    record.train_seconds = watch.lap()
    payload = None if in_vain() else learner.release(number, receivers)
    if payload is not None:
        saver.files.releases.note(number, limit)
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
