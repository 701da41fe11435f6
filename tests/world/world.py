"""A federation of whole peers in virtual time, on a network with faults, and the invariants that hold all the while."""

import asyncio
import contextlib
import copy
import hashlib
import math
import random
import re
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgpack

from dpeer.exceptions import CheckpointError, Refused
from dpeer.peer.config import LivenessConfig, PeerConfig
from dpeer.peer.logs import PeerLog
from dpeer.peer.peer import Peer
from dpeer.simulation.network import FaultyNetwork, FaultyTransport, later
from dpeer.simulation.virtual_time import Process, VirtualLoop, VirtualWorker
from tests.world import invariants, restores, returns
from tests.world.disk import STATED, Disk, Files
from tests.world.faults import Director
from tests.world.learner import WorldLearner
from tests.world.resets import Deliveries
from tests.world.scenario import Scenario

_CORRECTED_AFTER = 200.0
"""Seconds after a start was refused until the settings are equal everywhere."""

LIVENESS = LivenessConfig(heartbeat=1.0, suspect_after=5.0, dead_after=15.0, stop_grace=2.0)


class Violation(AssertionError):  # noqa: N818 - it names the event
    """An invariant does not hold."""


class Costs:
    """Jobs take the time that they owe; what is written is on disk some time later."""

    def __init__(self, rng, disk):
        self._rng, self._disk = rng, disk
        self._owed = 0.0

    def owe(self, seconds):
        self._owed += seconds

    def before(self, job):
        written, files = getattr(job, "__func__", None), getattr(job, "__self__", None)
        waits = written is Files.keep_lists or (written is Files.save and files.due)
        return self._rng.choice(self._disk) if waits else 0.0

    def after(self, job):
        owed, self._owed = self._owed, 0.0
        return owed


@dataclass(eq=False)
class Life:
    """A rank's process, from its start to its end."""

    rank: int
    incarnation: int
    since: float
    process: Process
    costs: Costs
    disk: int
    """How many disks its rank has lost before."""
    transport: FaultyTransport | None = None
    peer: Peer | None = None
    files: Files | None = None
    task: Any = None
    outcome: Any = None
    stopped: bool = False
    heard_of: dict["Life", int] = field(default_factory=dict)
    """By each other process: the rounds that it knew this rank to have released, when its disk was first used."""
    unknown: set[int] = field(default_factory=set)
    """Rounds that a lost disk had released, and none that this process has met knew."""
    drained: int | None = None
    """How many rounds it had begun when it was drained; None if it was not."""
    began: list[int] = field(default_factory=list)


class World:
    """Plays a scenario. `run` raises the first `Violation`."""

    def __init__(self, scenario: Scenario, *, trace: bool = False, log: bool = False):
        self.scenario = scenario
        self.size = scenario.size
        self.graphs = scenario.graphs
        self.times = random.Random(scenario.seed + 1)
        self.network = FaultyNetwork(random.Random(scenario.seed), scenario.conditions, self._sent)
        self.director = Director(self, scenario.faults)
        self.disks = [Disk() for _ in range(self.size)]
        self.backups: dict[int, Disk] = {}
        self.sent_bodies: dict[tuple[int, int], set[tuple[float, ...]]] = {}
        self.lives: list[list[Life]] = [[] for _ in range(self.size)]
        self.released: dict[tuple[int, int, int], bytes] = {}
        self.from_base: dict[tuple[int, int, object], object] = {}
        self.used: dict[tuple[int, int], list[int]] = {}
        self.began: dict[tuple[int, int], float] = {}
        self.ended: dict[tuple[int, int], float] = {}
        self._mixed: set[tuple[Life, int]] = set()
        self.exchanged: set[tuple[Life, int]] = set()
        self.sat_out: set[tuple[int, int]] = set()
        self.came: dict[int, float] = {}
        self.corrected = False
        self.adopted: dict[tuple[int, int], list[int]] = {}
        self.returns: list[returns.Return] = []
        self.stated = [*scenario.stated] or [0] * self.size
        self.made: dict[tuple[int, int], tuple[float, ...]] = {}
        self.bodies: dict[tuple[int, int, int], tuple[float, ...]] = {}
        self.violations: list[str] = []
        self.deliveries = Deliveries(self)
        self.apart: dict[tuple[int, int], float] = {}
        self.drained_once = False
        self.log: deque[str] | None = deque(maxlen=2000) if log else None
        self.trace = hashlib.sha256() if trace else None
        self.addresses = {rank: f"sim://{rank}" for rank in range(self.size) if rank not in scenario.hidden}

    # -- running -------------------------------------------------------------------------------------------

    def run(self):
        """Play the scenario to its end."""
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.get_loop().set_exception_handler(self._unhandled)
            runner.run(self._play())
        return self

    def print_log(self):
        """Play the scenario, and print the peers' logs and the violations."""
        with contextlib.suppress(Violation):
            self.run()
        print(*self.log or (), *self.violations, sep="\n")

    async def _play(self):
        self.loop = asyncio.get_running_loop()
        limit = invariants.limit(self.scenario)
        self.director.start()
        self._begin_all()
        try:
            async with asyncio.timeout(limit):
                await asyncio.sleep(self.scenario.over_at + 0.001)
                while running := [life.task for lives in self.lives for life in lives if not life.task.done()]:
                    await asyncio.wait(running)  # unlike gather it ends none of them
        except TimeoutError:
            late = [f"{life.rank} (round {life.began[-1:]})" for life in self.present if not life.task.done()]
            self.fail(f"still at it after {limit:.0f} s: ranks {', '.join(late)}")
        self.at_the_end()
        for lives in self.lives:
            for life in lives:
                life.task.cancel()
        await asyncio.gather(*(life.task for lives in self.lives for life in lives), return_exceptions=True)
        if self.violations:
            raise Violation(self.violations[0])

    def _begin_all(self):
        for rank, at in enumerate(self.scenario.arrivals or (0.0,) * self.size):
            if not at:
                self._begin(rank, resume=False)
            elif at < math.inf:
                later(at, partial(self._begin, rank, resume=False))

    def at_the_end(self):
        """What the whole run must have shown."""
        invariants.at_the_end(self)
        returns.at_the_end(self)

    def listed(self, rank):
        """The addresses that a rank's federation file has."""
        own = (rank,) if self.scenario.crossed else ()
        return {other: address for other, address in self.addresses.items() if other not in own}

    @property
    def present(self):
        """The last life of each rank that has come."""
        return [lives[-1] for lives in self.lives if lives]

    def _begin(self, rank, *, resume):
        costs, disk = Costs(self.times, self.scenario.disk), self.disks[rank].number
        life = Life(rank, len(self.lives[rank]), self.loop.time(), Process(), costs, disk)
        life.transport = self.network.transport(rank, life.process)
        earlier = [one.heard_of for one in self.lives[rank] if one.disk == disk]  # later news may be of this disk
        life.heard_of = earlier[0] if earlier else restores.heard_of(self, rank)
        life.task = life.process.start(self._live(life, resume))
        self.lives[rank].append(life)
        if not self.is_mistaken(life):
            self.came.setdefault(rank, life.since)

    def is_mistaken(self, life):
        """Whether the life has other settings than the others."""
        return life.rank in self.scenario.mistaken and not self.corrected

    def _correct(self):
        """The operators have talked: all begin anew with equal settings."""
        wrong = [] if self.corrected else self.scenario.mistaken
        self.corrected = True
        for rank, lives in enumerate(self.lives):
            if lives and rank in wrong and not lives[-1].task.done():
                self.kill(rank, notice=True)
            if lives and (rank in wrong or isinstance(lives[-1].outcome, Refused)):
                self._begin(rank, resume=True)

    async def _live(self, life, resume):
        config = PeerConfig(
            rank=life.rank,
            rounds=self.scenario.rounds,
            listen=self.addresses.get(life.rank),
            fingerprint={"size": self.size, "mistaken": self.is_mistaken(life)},
            evaluate_every=100,
            checkpoint_every=self.scenario.checkpoint_every,
            wait=self.scenario.wait,
            deadline=self.scenario.deadline,
            round_seconds=dict(self.scenario.budgets).get(life.rank),
            quorum=self.scenario.quorum,
            remind_every=1000.0,
            linger=1.0,
            liveness=LIVENESS,
            out=Path(),
            resume=resume,
            say_waiting=1000.0,
            counted=self.disks[life.rank].counted(self.stated[life.rank]) if self.scenario.private else None,
            rounds_released=self.stated[life.rank],
            lists=self.lists_of(life),
        )
        learner = WorldLearner(self, life)
        worker = VirtualWorker(life.process, life.costs)
        try:
            life.peer = self._peer(life, config, learner, worker)
            await life.peer.listen()
            life.outcome = await life.peer.serve(self.listed(life.rank))
        except Exception as error:
            life.outcome = error
            if isinstance(error, CheckpointError):
                disk = self.disks[life.rank]  # a new one without a release looks like an older copy of one with some
                released = any(incarnation != STATED for _, incarnation in disk.ledger)
                lost = restores.is_restored(self, life.rank) or (disk.number > 0 and not released)
                self.check(lost, f"rank {life.rank} ends, and its disk was never lost: {error}")
                life.task.add_done_callback(lambda _: self._state(life))
            if isinstance(error, Refused) and self.scenario.mistaken:
                invariants.refused(self, life)
                later(_CORRECTED_AFTER, self._correct)
        finally:
            if not life.process.dead:
                life.transport.end(notice=True)

    def lists_of(self, life):
        """What a process needs for member lists; nothing where there is none but the federation file."""

    # -- for the director ----------------------------------------------------------------------------------

    def process(self, rank):
        return self.lives[rank][-1].process

    def kill(self, rank, *, notice):
        life = self.lives[rank][-1]
        if not life.task.done():
            life.process.kill()
            life.transport.end(notice=notice)
            life.task.cancel()

    def stop(self, rank):
        life = self.lives[rank][-1]
        if not life.task.done() and life.peer is not None:
            life.stopped = True
            life.peer.stop()

    def drain(self, rank, seconds):
        """Have a rank leave in good order, and begin again some time after it has left.

        Who drains one after the other waits until the last one is back, and the next one's status shows it so.
        """
        life = self.lives[rank][-1]
        others = [one for one in self.present if one is not life]
        here = all(one.peer is not None and one.peer.core.state.began and one.drained is None for one in others)
        here = here and (life.peer is None or not any(one.away for one in life.peer.core.members.all()))
        if self.scenario.announced and seconds < math.inf and self.drained_once and not here:
            later(1.0, lambda: self.drain(rank, seconds))
            return
        if life.task.done() or life.peer is None or life.drained is not None:
            return
        life.drained, self.drained_once = len(life.began), True
        self.say(rank, "is drained")
        life.peer.drain(math.ceil(seconds) + 120 if self.scenario.announced and seconds < math.inf else 0)
        if not self.scenario.announced:
            life.stopped = True
            for one in self.present:
                one.task.add_done_callback(lambda _: self._go_on_together())
        elif seconds < math.inf:
            life.stopped = True
            life.task.add_done_callback(lambda _: later(seconds, lambda: self._go_on(life)))

    def restart(self, rank):
        life = self.lives[rank][-1]
        if life.process.dead:
            self._begin(rank, resume=True)
        elif invariants.stopped_together(self.scenario):
            life.stopped = True
            for one in self.present:
                one.task.add_done_callback(lambda _: self._go_on_together())
        elif life.stopped:
            life.task.add_done_callback(lambda _: self._go_on(life))

    def begin_anew(self, rank):
        """Begin again with an empty disk."""
        if self.lives[rank][-1].process.dead:
            self.disks[rank] = Disk(number=self.disks[rank].number + 1)
            self._begin(rank, resume=False)

    def back_up(self, rank):
        """Copy a rank's disk; in use or not."""
        self.backups[rank] = copy.deepcopy(self.disks[rank])

    def put_back(self, rank):
        """Begin again with the last copy of the disk."""
        if self.lives[rank][-1].process.dead:
            number = self.disks[rank].number + 1
            disk = self.disks[rank] = copy.deepcopy(self.backups[rank])
            disk.number = number
            self._begin(rank, resume=True)

    def _state(self, life):
        """An operator states the rounds that a peer has named in its refusal, and begins it again."""
        if self.lives[life.rank][-1] is life:
            self.stated[life.rank] = int(re.search(r"--rounds-released (\d+)", str(life.outcome))[1])
            self._begin(life.rank, resume=True)

    def _go_on(self, life):
        if getattr(life.outcome, "status", None) == "stopped" and self.lives[life.rank][-1] is life:
            self._begin(life.rank, resume=True)

    def _go_on_together(self):
        """Resume all, once all have ended; those too that had just finished: others may need their bodies."""
        if all(life.task.done() and life.stopped and life.incarnation == 0 for life in self.present):
            for rank in range(self.size):
                self._begin(rank, resume=True)

    # -- for the learner -----------------------------------------------------------------------------------

    def fail(self, text):
        now = self.loop.time()
        self.violations.append(f"{now:.3f} s: {text}")

    def check(self, true, text):
        if not true:
            self.fail(text)

    def say(self, rank, text):
        if self.log is not None:
            self.log.append(f"{self.loop.time():9.3f} rank {rank}: {text}")

    def graph(self, rank, number):
        """A round as a rank runs it."""
        return self.graphs.at(number, rank)

    def begins(self, life, number, due, *, trains):
        """A round begins, which must be the one after the last one, here or in the checkpoint."""
        self.check(number == due, f"rank {life.rank} begins round {number} where {due} is due")
        life.began.append(number)
        if life.drained is not None:  # one may have been about to begin
            self.check(len(life.began) <= life.drained + 1, f"rank {life.rank} begins round {number}, and was drained")
        self.began[life.rank, number] = self.loop.time()
        self.say(life.rank, f"begins round {number}" if trains else f"sits out round {number}")
        invariants.not_before_enough_have_come(self, life, number)
        invariants.no_island(self, life, number)
        if trains:
            invariants.not_alone(self, life, number)
        if trains and invariants.in_vain(self, life, number):
            self.fail(f"rank {life.rank} trains in round {number}, which it knows to be over for all its neighbors")
        returns.begins(self, life, number, trains=trains)
        self.director.begun(life.rank, number)

    def releases(self, life, number, payload, base, body):
        """A body is released: whichever process has trained it, from the same base it has the same bits."""
        self.released[life.rank, number, life.incarnation] = payload
        before = self.from_base.setdefault((life.rank, number, base), body)
        self.check(before == body, f"rank {life.rank} releases a second, different body of round {number}")

    def mixes(self, life, number, rank, raw, named):
        """A body is mixed: it must be a neighbor's, as released in that round."""
        self.check(
            named[:2] == (rank, number), f"rank {life.rank} mixes in round {number} for rank {rank} a body {named}"
        )
        self.check(self.released.get(named) == raw, f"rank {life.rank} mixes a body that was never released: {named}")
        senders = self.graph(life.rank, number).in_neighbors
        self.check(
            rank in senders, f"rank {life.rank} mixes rank {rank}, from which it hears nothing in round {number}"
        )

    def weighs(self, life, number, row):
        """The weights of a mix, by rank."""

    def mixed(self, life, number, ranks):
        self.say(life.rank, f"mixes round {number} with {ranks}")
        self.check((life, number) not in self._mixed, f"rank {life.rank} mixes round {number} twice")
        self._mixed.add((life, number))
        self.ended[life.rank, number] = self.loop.time()
        self.used[life.rank, number] = ranks
        self.sat_out.discard((life.rank, number))

    def records(self, life, entry):
        """A round's line says whose bodies were mixed or adopted: none, if none were."""
        number, used = entry["round"], []
        if (life, number) in self._mixed:
            used = self.used[life.rank, number]
        elif entry["adopted"]:
            used = self.adopted.get((life.rank, number), [])
        said = entry["heard"]
        self.check(said == used, f"rank {life.rank} has used {used} in round {number}, and its line says {said}")
        self.check(not {*said} & {*entry["missed"]}, f"rank {life.rank}: {said} heard, and {entry['missed']} missed")

    def adopts(self, life, number, ranks):
        """A peer that sits a round out takes the mean of others' bodies, and sends nothing."""
        self.say(life.rank, f"adopts in round {number} the bodies of {ranks}")
        returns.adopts(self, life, number)
        self.adopted[life.rank, number] = ranks

    def sits_out(self, life, number):
        if returns.is_out(self, life, number):
            invariants.left_behind(self, life, number)
            self.sat_out.add((life.rank, number))

    def _sent(self, source, target, frames):
        life = self.lives[source][-1]
        invariants.one_link(self, source, target)
        if self.trace is not None:
            self.trace.update(repr((self.loop.time(), source, target, [bytes(frame) for frame in frames])).encode())
        self.deliveries.sent(source, target, frames)
        header = bytes(frames[0])
        if b"body" in header and header[:1] != b"\xc1":  # the first byte of a chunk
            fields = msgpack.unpackb(header)
            charged = {number for number, _ in self.disks[source].ledger}
            self.check(fields["rank"] == source, f"rank {source} sends a body of rank {fields['rank']}")
            returns.sends(self, life, fields["round"])
            restores.sends(self, source, fields["round"])
            if fields["round"] not in charged:
                self.fail(f"rank {source} sends a body that was not charged: {fields}")
            receivers = self.graph(source, fields["round"]).out_neighbors
            if target not in receivers:
                self.fail(f"rank {source} sends round {fields['round']} to {target}, not {receivers}")
            invariants.memory(self, life)
            invariants.links(self, life)

    def _unhandled(self, loop, context):
        self.violations.append(f"unhandled: {context.get('message')}: {context.get('exception')!r}")

    def _peer(self, life, config, learner, worker):
        """A real peer, on a simulated network, disk and clock."""
        life.files = Files(self.disks[life.rank], config, learner)
        peer = Peer(
            config, self.graphs, learner, life.transport, worker, self._log(life.rank), files=life.files
        )  # fmt: skip
        life.files.outbox, life.files.lost = peer.core.exchange.outbox, peer.core.members.lost
        return peer

    def _log(self, rank):
        def say(entry):
            self.say(rank, entry["message"])
            return True

        return PeerLog(rank, None, "error" if self.log is None else "debug", say)
