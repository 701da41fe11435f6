"""The round loop: the one used by the daemon, the cluster and the simulator."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from functools import partial

from dpeer.exceptions import Drained
from dpeer.peer.core.bodies import Received
from dpeer.peer.driver import Driver
from dpeer.peer.learner import Evaluation, Learner, Payload
from dpeer.peer.saver import Saver
from dpeer.peer.worker import BackgroundRunner, Worker
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
    background: BackgroundRunner,
    *,
    evaluate_every: int = 1,
) -> None:
    """Run all rounds from `start` on; "A round" in docs/design.md gives the purpose of each step.

    Every call into the learner runs on the worker, so the event loop keeps answering heartbeats. Calls that follow each
    other are one job: a change between the two threads costs as much as sending some hundred kilobytes.

    A round is saved while the next one trains. Until then no message mentions the next round.

    Raises:
        Drained: The peer was asked to leave, and its round is complete, or cannot be.
        Isolated: It was cut off for longer than it waits.
    """
    measured: Evaluation | None = None
    schedule = driver.core.schedule
    for number in itertools.count(start):
        if number >= schedule.rounds:
            break
        saver.once_saved(partial(driver.begin, number))
        if driver.core.waiting.drains:
            await background.during(saver.saved())
            await background.during(driver.part(number))
            raise Drained(f"round {number} is complete")
        if driver.core.waiting.holds(number):
            await background.during(saver.saved())
            await background.during(driver.pause(number))
        driver.enter(number)
        if number >= schedule.rounds:  # this peer is no member any more
            break
        graph, behind = schedule.at(number), driver.behind(number)
        active = graph.active and not behind
        last = number == schedule.rounds - 1
        computed = learner.gradients
        evaluating = (number + 1) % evaluate_every == 0 or last
        if (incarnation := driver.core.entry.renewal) is not None:
            await worker.write(saver.note_incarnation, incarnation)
            driver.renew(incarnation)
        if returned := driver.to_forget():
            await worker.run(learner.forget, returned)
        if active and learner.pushes:
            await worker.run(learner.push_to, *driver.core.receivers(number))
        watch = Stopwatch()

        seconds = driver.train(number) if active else None
        trains = train_and_release if active else sit_out
        async with saver.training(number):
            train_loss, payload, train_seconds = await worker.run(trains, learner, number, watch, saver, seconds)
        steps, steps_asked = list(learner.steps), list(learner.steps_asked)
        saver.once_saved(partial(driver.send, number, payload))
        exchange_seconds = watch.lap()
        # The bodies are on their way while this runs.
        # A model that is as it was when it was last measured is not measured again: a peer that catches up is quick.
        trained = None
        if evaluating:
            trained = measured if behind and measured is not None else await worker.run(learner.evaluate)
        watch.lap()
        await background.during(saver.saved())
        received = await background.during(driver.collect(number))
        exchange_seconds += watch.lap()

        # A peer that has trained and not released mixes nothing: its own part would be missing. One that sits out and
        # hears others all the same (`ServerSampling`) takes their mean.
        mixes = payload is not None or (not active and bool(received))
        if behind and received:
            refused = await worker.run(adopt_received, learner, number, received, graph.row)
        else:
            refused = await worker.run(mix_received, learner, received, graph.row if mixes else None)
        for neighbor, reason in refused.items():
            driver.left_out(neighbor, reason)
            del received[neighbor]
        if behind and received:
            driver.adopted()
        if not mixes:
            received.clear()
        heard, bytes_received = sorted(received), sum(body.wire_bytes for body in received.values())
        received.clear()  # the next round trains without them in memory
        driver.mixed(
            number, heard, adopted=behind and bool(heard), released=payload is not None or saver.released(number)
        )
        mix_seconds = watch.lap()

        finished = await worker.run(learner.finish, number) if last else None
        unchanged = not mixes and finished is None
        after = trained if unchanged or not evaluating else await worker.run(learner.evaluate)
        if active or mixes or after is not None:
            measured = after
        tuned = await worker.run(learner.fine_tune, number) if last else None
        watch.lap()
        sent = await background.during(driver.settle(number))
        exchange_seconds += watch.lap()
        privacy = learner.privacy
        mass = driver.core.mass.change(number - 1) if learner.linear else None
        await saver.complete(
            RoundRecord.evaluated(
                after,
                trained,
                tuned,
                round=number,
                train_loss=train_loss if finished is None else finished,
                bytes_sent=sent,
                bytes_received=bytes_received,
                heard=heard,
                missed=sorted(set(graph.in_neighbors) - set(heard)),
                train_seconds=train_seconds,
                exchange_seconds=exchange_seconds,
                mix_seconds=mix_seconds,
                samples=learner.gradients - computed,
                steps=steps,
                steps_asked=steps_asked,
                active=active or saver.released(number),
                adopted=behind and bool(heard),
                mass_error=mass and mass.error,
                mass_adopted=mass and mass.adopted,
                epsilon=privacy["epsilon"] if privacy else None,
                delta=privacy["delta"] if privacy else None,
                privacy=privacy,
            )
        )
    await background.during(saver.saved())


def train_and_release(
    learner: Learner, number: int, watch: Stopwatch, saver: Saver, seconds: float | None
) -> tuple[float | None, Payload | None, float]:
    """Train, for so many seconds at most, and release; returns the training loss, the body, and training's seconds.

    A round that has been released before is trained with as many steps: a peer releases one body a round.
    """
    loss = learner.train(number, seconds=seconds, recorded=saver.recorded_steps(number))
    taken = watch.lap() + (0.0 if learner.unfinished is None else learner.unfinished.earlier_seconds)
    payload = learner.release(number)
    if payload is not None:
        saver.note_released(number, learner.steps, seconds)
    return loss, payload, taken


def sit_out(
    learner: Learner, number: int, watch: Stopwatch, saver: Saver, seconds: float | None
) -> tuple[None, None, float]:
    """Let a round go by; returns as `train_and_release` does."""
    learner.sit_out(number)
    return None, None, watch.lap()


def mix_received(learner: Learner, received: Mapping[int, Received], row: Row | None) -> Mapping[int, str]:
    """Mix, if this peer mixes in the round; returns the ranks whose body was left out, and why."""
    if row is None:
        return {}
    return learner.mix_sound({rank: body.payload for rank, body in received.items()}, row.restricted_to)


def adopt_received(learner: Learner, number: int, received: Mapping[int, Received], row: Row) -> Mapping[int, str]:
    """Take the mean of the neighbors' bodies for the own one; returns as `mix_received` does."""
    return learner.adopt(number, {rank: body.payload for rank, body in received.items()}, row.without_own)
