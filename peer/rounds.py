"""Round loop: train, release, collect, mix, evaluate, settle, complete; shared by daemon, cluster and simulator."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from dpeer.exceptions import Drained
from dpeer.peer.core.bodies import Received, Released
from dpeer.peer.core.round_budget import RoundLimit
from dpeer.peer.driver import Driver
from dpeer.peer.learner import Evaluation, Learner
from dpeer.peer.saver import Saver
from dpeer.peer.worker import Worker
from dpeer.results.records import RoundRecord
from dpeer.topology import Neighborhood, Row


class Stopwatch:
    """Measures one part of a round after the other."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    def lap(self) -> float:
        """The seconds since the last call, or since the start."""
        now = time.perf_counter()
        seconds, self._since = now - self._since, now
        return seconds


@dataclass
class _Round:
    """A round while it runs.

    Attributes:
        number: Which.
        graph: This peer's neighbors in it.
        behind: Whether the others have gone past it, so that this peer sits it out.
        stated: Whether the operator states that it may have been released on a disk that was lost, so it is not now.
        last: Whether it is the last one.
        evaluates: Whether its models are measured.
        gradients: How many gradients of samples the learner had computed before it.
        watch: Measures its parts.
        train_loss: The mean loss of the last local epoch; None where none was trained.
        released: The released body; None without one.
        steps: The minibatches of each phase.
        steps_asked: How many they are without a budget.
        trained: The measured model before mixing.
        mixes: Whether this peer takes a mean.
        heard: The ranks whose bodies were mixed, or adopted.
        bytes_received: The bytes of these bodies.
        mixed: The measured model after mixing, and in the last round after that work.
        tuned: The measured copy that was fine-tuned at home after the last round; None without one.
        bytes_sent: The bytes of all copies of the own body.
        waits_receiving: Seconds of waiting in which neighbors' bodies were coming in.
    """

    number: int
    graph: Neighborhood
    behind: bool
    stated: bool
    last: bool
    evaluates: bool
    gradients: int
    watch: Stopwatch
    train_loss: float | None = None
    released: Released | None = None
    steps: list[int] = field(default_factory=list)
    steps_asked: list[int] = field(default_factory=list)
    trained: Evaluation | None = None
    mixes: bool = False
    heard: list[int] = field(default_factory=list)
    bytes_received: int = 0
    mixed: Evaluation | None = None
    tuned: Evaluation | None = None
    bytes_sent: int = 0
    train_seconds: float = 0.0
    exchange_seconds: float = 0.0
    mix_seconds: float = 0.0
    waits_receiving: float = 0.0

    @property
    def active(self) -> bool:
        """Whether this peer trains and releases."""
        return self.graph.active and not self.behind and not self.stated

    @property
    def adopted(self) -> bool:
        """Whether this peer's body was replaced by the mean of its neighbors'."""
        return self.behind and bool(self.heard)


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
        one = await loop.begin(number)
        await loop.train(one)
        await loop.evaluate_trained(one)
        received = await loop.collect(one)
        await loop.mix(one, received)
        await loop.evaluate_mixed(one)
        await loop.settle(one)
        await loop.complete(one)
        number += 1


@dataclass
class _RoundLoop:
    """The parts of a round, in their order."""

    learner: Learner
    driver: Driver
    worker: Worker
    saver: Saver
    evaluate_every: int
    measured: Evaluation | None = None
    """The figures of the present model, if it was measured."""
    received: float = 0.0
    """The seconds in which bodies were coming in, up to the end of the last round."""

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

    async def begin(self, number: int) -> _Round:
        """Begin a round: find out whether it is sat out."""
        driver, learner, schedule = self.driver, self.learner, self.driver.core.schedule
        graph, behind = schedule.at(number), driver.behind(number)
        last = number == schedule.rounds - 1
        evaluates = (number + 1) % self.evaluate_every == 0 or last
        gradients = learner.figures.gradients
        stated = number < driver.core.entry.earliest
        return _Round(number, graph, behind, stated, last, evaluates, gradients, Stopwatch())

    async def train(self, one: _Round) -> None:
        """Train and release, or sit out; the body leaves once the round before is on disk."""
        number, learner = one.number, self.learner
        limit = self.driver.train(number) if one.active else None
        if one.active:
            receivers, lateness = one.graph.out_neighbors, self.driver.core.lateness
            one.train_loss, one.released, one.train_seconds = await self.worker.run(
                train_and_release, learner, number, receivers, one.watch, self.saver, limit, lambda: lateness.in_vain
            )
        else:
            one.train_seconds = await self.worker.run(sit_out, learner, number, one.watch)
        one.steps, one.steps_asked = list(learner.figures.steps), list(learner.figures.steps_asked)
        if limit is not None and any(one.steps_asked):
            self.driver.trained(sum(one.steps) / sum(one.steps_asked))
        self.saver.once_saved(partial(self.driver.send, number, one.released))
        one.exchange_seconds = one.watch.lap()

    async def evaluate_trained(self, one: _Round) -> None:
        """Measure the model before mixing, while the bodies are on their way.

        A model that is as it was when it was last measured is not measured again: a peer that catches up is quick.
        """
        if one.evaluates:
            known = self.measured if one.behind else None
            one.trained = known if known is not None else await self.worker.run(self.learner.evaluate)
        one.watch.lap()

    async def collect(self, one: _Round) -> dict[int, Received]:
        """The neighbors' bodies of the round, once the round before is on disk."""
        await self.saver.saved()
        before = self.driver.receive_seconds
        received = await self.driver.collect(one.number)
        self._has_waited(one, before)
        return received

    def _has_waited(self, one: _Round, received: float) -> None:
        """Note the end of a wait for nothing but others; `received`: `receive_seconds` when it began."""
        one.waits_receiving += self.driver.receive_seconds - received
        one.exchange_seconds += one.watch.lap()

    async def mix(self, one: _Round, received: dict[int, Received]) -> None:
        """Mix the bodies, or adopt their mean, and drop them: the next round trains without them in memory.

        A peer that has trained and not released mixes nothing: its own part would be missing. One that sits out and
        hears others all the same (`ServerSampling`) takes their mean.
        """
        number, driver = one.number, self.driver
        one.mixes = one.released is not None or (not one.active and bool(received))
        adopts = one.behind and bool(received)
        if adopts:
            refused = await self.worker.run(adopt_received, self.learner, number, received, one.graph.row)
        else:
            run = self.worker.run_at_once if self.learner.about.mixes_at_once else self.worker.run
            refused = await run(mix_received, self.learner, received, one.graph.row if one.mixes else None)
        for neighbor, reason in refused.items():
            driver.left_out(neighbor, reason)
            del received[neighbor]
        if adopts and received:
            driver.adopted(number)
        if not one.mixes:
            received.clear()
        one.heard, one.bytes_received = sorted(received), sum(body.wire_bytes for body in received.values())
        received.clear()
        one.mix_seconds = one.watch.lap()

    async def evaluate_mixed(self, one: _Round) -> None:
        """Measure the model after mixing, and after the last round as it is finished at home."""
        learner, worker = self.learner, self.worker
        one.mixed = None if one.mixes else one.trained
        if one.evaluates and one.mixed is None:
            one.mixed = await worker.run(learner.evaluate)
        if one.active or one.mixes or one.mixed is not None:
            self.measured = one.mixed
        one.tuned = await worker.run(learner.fine_tune, one.number) if one.last else None
        one.watch.lap()

    async def settle(self, one: _Round) -> None:
        """Wait until the round may be complete."""
        before = self.driver.receive_seconds
        one.bytes_sent = await self.driver.settle(one.number)
        self._has_waited(one, before)

    async def complete(self, one: _Round) -> None:
        """Copy the state and the record of the round, which go to disk while the next one trains."""
        number, learner, saver = one.number, self.learner, self.saver
        privacy = learner.privacy
        received, self.received = self.received, self.driver.receive_seconds
        over = one.behind and not one.adopted and self.driver.core.members.passed(number)
        await saver.complete(
            RoundRecord.evaluated(
                one.mixed,
                one.trained,
                one.tuned,
                round=number,
                train_loss=one.train_loss,
                bytes_sent=one.bytes_sent,
                bytes_received=one.bytes_received,
                heard=one.heard,
                missed=sorted(set(one.graph.in_neighbors) - set(one.heard)),
                train_seconds=one.train_seconds,
                exchange_seconds=one.exchange_seconds,
                mix_seconds=one.mix_seconds,
                receive_seconds=self.received - received,
                hidden_seconds=max(0.0, self.received - received - one.waits_receiving),
                samples=learner.figures.gradients - one.gradients,
                steps=one.steps,
                steps_asked=one.steps_asked,
                active=one.active or number <= saver.files.releases.released,
                adopted=one.adopted,
                disagreement=learner.figures.disagreement if one.released is not None and one.heard else None,
                epsilon=privacy["epsilon"] if privacy else None,
                delta=privacy["delta"] if privacy else None,
                privacy=privacy,
            ),
            over=over,
        )


def train_and_release(
    learner: Learner,
    number: int,
    receivers: Sequence[int],
    watch: Stopwatch,
    saver: Saver,
    limit: RoundLimit | None,
    in_vain: Callable[[], bool],
) -> tuple[float | None, Released | None, float]:
    """Train, within a limit, and release; returns the training loss, the body, and training's seconds.

    A round that has been released before is trained with as many steps: a peer releases one body a round. A body that
    reaches no neighbor any more (`in_vain`) is not released, and costs no privacy.
    """
    limit = saver.files.releases.recorded(number) or limit
    loss = learner.train(number, share=1.0 if limit is None else limit.share)
    taken = watch.lap()
    payload = None if in_vain() else learner.release(number, receivers)
    if payload is not None:
        saver.files.releases.note(number, limit)
    return loss, None if payload is None else Released.of(payload), taken


def sit_out(learner: Learner, number: int, watch: Stopwatch) -> float:
    """Let a round go by; returns the seconds that this took."""
    learner.sit_out(number)
    return watch.lap()


def mix_received(learner: Learner, received: Mapping[int, Received], row: Row | None) -> Mapping[int, str]:
    """Mix, if this peer mixes in the round; returns the ranks whose body was left out, and why."""
    if row is None:
        return {}
    return learner.mix_sound({rank: body.payload for rank, body in received.items()}, row.restricted_to)


def adopt_received(learner: Learner, number: int, received: Mapping[int, Received], row: Row) -> Mapping[int, str]:
    """Take the mean of the neighbors' bodies for the own one; returns as `mix_received` does."""
    return learner.adopt(number, {rank: body.payload for rank, body in received.items()}, row.without_own)
