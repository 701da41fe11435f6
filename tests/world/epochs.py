"""Schedules of changing members: epochs handed to peers while faults happen; their world, its invariants and player."""

import functools
import math
import random
from dataclasses import dataclass, replace

import msgpack

from dpeer.exceptions import PeersMissing, TopologyError
from dpeer.peer.core import wire
from dpeer.peer.core.epoch import (
    Epoch,
    EpochGraph,
    EpochSetup,
    Member,
    SignedEpoch,
    Void,
    first_epoch,
    operator_of,
    successor,
)
from dpeer.peer.core.epoch_follower import EpochFollower
from dpeer.peer.core.limits import DIGEST_BYTES
from dpeer.peer.core.send_queue import SendQueues
from dpeer.peer.transport import Arrival
from dpeer.simulation.network import later
from dpeer.topology import Relabeled, temporal_diameter
from tests.world.faults import Fault
from tests.world.scenario import Scenario, drawn_links, drawn_topology, graphs
from tests.world.world import World

SECRET = bytes(range(32))
_ENTRY = 4 + DIGEST_BYTES
"""Bytes of an entry of presence that say which epoch a rank has accepted."""

_LATE = 12
"""Rounds within which a joiner that comes late has entered."""

EPOCHS = 240
"""The number of schedules, from seed 0 on, in the test suite."""


@dataclass(frozen=True)
class Change:
    """A change of membership, as an operator hands it over.

    Attributes:
        at: Virtual seconds from the start.
        to: The rank that it is handed to.
        join: How many new ranks enter; they begin some seconds later.
        leave: Ranks that leave.
        evict: Ranks that are taken out.
        more: Rounds that are added.
        later: Rounds after the earliest possible one in which it begins.
        forced: As `Epoch.forced`.
        blind: Whether the operator does not ask the peer what it knows, but follows the first epoch.
        starts: Seconds after which the joiners begin; inf for never.
        also: Another rank that is handed the same document.
        made_up: How many void epochs it names that have never been signed. It comes as from a neighbor, since a peer
            refuses to be handed it.
    """

    at: float
    to: int
    join: int = 0
    leave: tuple[int, ...] = ()
    evict: tuple[int, ...] = ()
    more: int = 0
    later: int = 0
    forced: bool = False
    blind: bool = False
    starts: float = 0.5
    also: int | None = None
    made_up: int = 0


class EpochWorld(World):
    """Plays a scenario with changes.

    Attributes:
        epochs: Every epoch that was signed, by its hash.
        handed: Those that a peer has taken.
        ran: By rank and round, the epoch in which it ran it.
        knew: By rank and epoch, the first round that it has begun with knowledge of it.
        refused: Why a change was not taken.
    """

    def __init__(self, scenario, changes, **options):
        joiners = sum(change.join for change in changes)
        super().__init__(replace(scenario, size=scenario.size + joiners), **options)
        self.scenario, self.graphs = scenario, scenario.graphs
        self.first_size, self.changes = scenario.size, changes
        self.addresses = {rank: f"sim://{rank}" for rank in range(self.size) if rank not in scenario.hidden}
        self.first = first_epoch(
            "0" * 64, size=scenario.size, operators=[operator_of(SECRET)], signers=1,
            graph=EpochGraph(settings={}, edges="0" * 16), rounds=scenario.rounds,
        )  # fmt: skip
        self.epochs: dict[str, Epoch] = {self.first.digest: self.first}
        self.handed: list[tuple[float, Epoch, Change]] = []
        self.refused: list[tuple[Change, str]] = []
        self.ran: dict[tuple[int, int], Epoch] = {}
        self.knew: dict[tuple[int, Epoch], int] = {}
        self.next_rank = scenario.size

    # -- playing -------------------------------------------------------------------------------------------

    def _begin_all(self):
        for rank in range(self.first_size):
            self._begin(rank, resume=False)
        for change in self.changes:
            later(change.at, functools.partial(self._hand, change))

    def graphs_of(self, epoch):
        """The graphs of an epoch, by rank."""
        whole = graphs(self.scenario.topology, len(epoch.members), self.scenario.participation)
        return Relabeled(whole, epoch.ranks)

    def listed(self, rank):
        return {other: at for other, at in self.addresses.items() if other < self.first_size or other == rank}

    def setup(self, life):
        return EpochSetup(self.first, self.graphs_of)

    def _hand(self, change):
        """An operator asks a peer for its membership, and hands it the next epoch."""
        life = self.lives[change.to][-1] if self.lives[change.to] else None
        if life is None or life.process.dead or life.task.done() or life.peer is None:
            return
        there = life.peer.driver.membership()
        follows = self.epochs[life.peer.core.epochs.chain.line[-1].digest]
        void = [Void(number, digest) for number, digest in there["void"]]
        begins = max(there["round"] + there["diameter"] + 3, follows.begins + 1) + change.later
        if change.blind:
            follows = self.first
            void = [Void(number, f"{number:064x}") for number in range(1, change.made_up + 1)]
        join = {self.next_rank + one: Member(address=f"sim://{self.next_rank + one}") for one in range(change.join)}
        leave = [rank for rank in change.leave if rank in follows.members]
        evict = [rank for rank in change.evict if rank in follows.members]
        rounds = follows.rounds + change.more
        if begins >= rounds or begins > follows.rounds or len(follows.members) - len(leave + evict) + len(join) < 2:
            return
        if not (leave or evict or join or change.more):
            return
        epoch = successor(
            follows, begins=begins, graph=follows.graph, join=join, leave=leave, evict=evict, rounds=rounds,
            void=void, forced=change.forced and bool(leave or evict),
        )  # fmt: skip
        try:
            self.graphs_of(epoch)
        except TopologyError:
            return
        reason = self._given(life, SignedEpoch(epoch=epoch).signed_with(SECRET).encode(), change)
        self.say(change.to, f"is handed epoch {epoch.number} of {epoch.ranks} from round {begins}: {reason or 'taken'}")
        if reason is not None:
            self.refused.append((change, reason))
            return
        if change.also is not None:
            again = self.lives[change.also][-1].peer.driver.hand(SignedEpoch(epoch=epoch).signed_with(SECRET).encode())
            self.check(again is None, f"rank {change.also} refuses the same epoch: {again}")
        self.next_rank += change.join
        self.epochs[epoch.digest] = epoch
        self.handed.append((self.loop.time(), epoch, change))
        for rank in join:
            if change.starts < math.inf:
                later(change.starts, functools.partial(self._begin, rank, resume=False))

    def _given(self, life, document, change):
        """A peer is handed a document, or it comes as from a neighbor; why it is refused, None if it is taken."""
        if not change.made_up:
            return life.peer.driver.hand(document)
        neighbor = next(one for one in life.peer.core.members.all() if one.link is not None)
        life.transport.push(
            Arrival(neighbor.link, wire.encode(wire.EpochMessage(rank=neighbor.rank, document=document)))
        )
        return None

    # -- what holds ----------------------------------------------------------------------------------------

    def line(self, epoch):
        """The epochs up to this one."""
        found = [epoch]
        while found[-1] != self.first:
            found.append(self.epochs[found[-1].previous])
        return found[::-1]

    def begins(self, life, number, due, *, trains):
        if life.rank >= self.first_size and not life.began:
            due = number  # a joiner begins in the middle
        self.check(number == due, f"rank {life.rank} begins round {number} where {due} is due")
        life.began.append(number)
        self.began[life.rank, number] = self.loop.time()
        epoch = self.epochs[life.peer.core.epochs.chain.current.digest]
        self.say(life.rank, f"{'begins' if trains else 'sits out'} round {number} in epoch {epoch.number}")
        self.ran[life.rank, number] = epoch
        for _, one, _ in self.handed:
            if life.peer.core.epochs.chain.epoch(one.digest):
                self.knew.setdefault((life.rank, one), number)
        if trains:
            self.check(life.rank in epoch.members, f"rank {life.rank} trains in round {number}, and is no member")
            self.no_island(life, number, epoch)
        self.director.begun(life.rank, number)

    def says_what_is_on_disk(self, rank, epochs):
        """What a rank says that it has accepted is on its disk; `epochs`: the second parts of its presence."""
        revision = int.from_bytes(epochs[_ENTRY * rank : _ENTRY * rank + 4], "little")
        kept = self.disks[rank].epochs.revision
        self.check(revision <= kept, f"rank {rank} has accepted a {revision}. time, and {kept} are on its disk")

    def no_island(self, life, number, epoch):
        """No peer is far past what a quorum of its epoch has really completed in its line."""
        line = {one.digest for one in self.line(epoch)}
        completed = dict.fromkeys(epoch.members, 0)
        for rank, member in epoch.members.items():
            if member.since and self.lives[rank] and self.lives[rank][-1].peer is not None:
                completed[rank] = member.since - 1  # where it begins
        for (rank, done), other in self.ran.items():
            if rank in completed and (rank, done) != (life.rank, number):
                branch = [one.begins for one in self.line(other) if one.digest not in line]
                completed[rank] = max(completed[rank], min([done, *branch]))
        # Whether an epoch's first round may begin is decided in the one before.
        near = self.line(epoch)[-2:] if number == epoch.begins else [epoch]
        slack = max(temporal_diameter(self.graphs_of(one), one.rounds) for one in near)
        pending = life.peer.core.epochs.slack
        reached = quorum_of(completed)
        self.check(
            number <= reached + max(slack, pending) + 1 or epoch.forced,
            f"rank {life.rank} begins round {number} of epoch {epoch.number}, and a quorum has begun {reached}: "
            f"{completed}",
        )

    def mixes(self, life, number, rank, raw, named):
        self.check(
            named[:2] == (rank, number), f"rank {life.rank} mixes in round {number} for rank {rank} a body {named}"
        )
        self.check(self.released.get(named) == raw, f"rank {life.rank} mixes a body that was never released: {named}")
        here, there = self.ran[life.rank, number], self.ran.get((rank, number))
        joins = life.rank not in here.members
        self.check(
            there == here, f"rank {life.rank} in epoch {here.number} mixes rank {rank} in "
            f"{'none' if there is None else there.number}, round {number}",
        )  # fmt: skip
        if not joins:
            senders = self.graphs_of(here).at(number, life.rank).in_neighbors
            self.check(rank in senders, f"rank {life.rank} mixes rank {rank}, from which it hears nothing in {number}")

    def mixed(self, life, number, ranks):
        self.say(life.rank, f"mixes round {number} with {ranks}")
        self.check((life, number) not in self._mixed, f"rank {life.rank} mixes round {number} twice")
        self._mixed.add((life, number))
        self.ended[life.rank, number] = self.loop.time()
        self.used[life.rank, number] = ranks
        self.sat_out.discard((life.rank, number))

    def sits_out(self, life, number):
        epoch = self.ran[life.rank, number]
        if life.rank in epoch.members and self.graphs_of(epoch).at(number, life.rank).active:
            self.sat_out.add((life.rank, number))

    def adopts(self, life, number, ranks):
        self.say(life.rank, f"adopts in round {number} the bodies of {ranks}")
        self.adopted[life.rank, number] = ranks

    def _sent(self, source, target, frames):
        header = bytes(frames[0])
        if header[:1] == b"\xc1":  # a chunk
            return
        fields = msgpack.unpackb(header)
        self.says_what_is_on_disk(source, fields.get("epochs", b""))
        if fields["kind"] == "body":
            number = fields["round"]
            charged = {one for one, _ in self.disks[source].ledger}
            self.check(number in charged, f"rank {source} sends a body that was not charged: round {number}")
            epoch = self.ran[source, number]
            named = b"" if epoch == self.first else bytes.fromhex(epoch.digest)[:DIGEST_BYTES]
            self.check(fields.get("epoch", b"") == named, f"rank {source}'s body of round {number} names another epoch")

    def first_round(self, epoch):
        """The ranks that ran the first round of an epoch in it, and those that ran it in another, as members."""
        ran = {rank: one for (rank, number), one in self.ran.items() if number == epoch.begins and rank in one.members}
        within = {rank for rank, one in ran.items() if epoch in self.line(one)}
        return within, ran.keys() - within

    def at_the_end(self):
        """What the whole run must have shown."""
        for _, epoch, _ in self.handed:
            before = self.epochs[epoch.previous]
            within, outside = self.first_round(epoch)
            self.check(
                epoch.forced or not (is_quorum(before.ranks, within) and is_quorum(before.ranks, outside)),
                f"quorums ran round {epoch.begins} in epoch {epoch.number} and outside of it",
            )
            twins = [one for _, one, _ in self.handed if (one.previous, one.number) == (epoch.previous, epoch.number)]
            if is_quorum(before.ranks, outside) and len(twins) == 1 and not epoch.forced:
                self.check(not within, f"epoch {epoch.number} is void, and has begun at {sorted(within)}")
        for life in (lives[-1] for lives in self.lives if lives):
            self.ended_well(life)
        for lives in self.lives:
            for life in (one for one in lives if one.peer is not None):
                dropped = life.peer.core.drops.counts + life.peer.core.exchange.inbox.dropped
                for reason in ("unhandled", "malformed", "early", "wrong-rank", "mismatch", "oversized", "epoch"):
                    self.check(not dropped[reason], f"rank {life.rank} dropped {dropped[reason]} messages: {reason}")

    def ended_well(self, life):
        outcome = life.outcome
        if life.process.dead:
            return
        if isinstance(outcome, PeersMissing):
            self.check(self.scenario.faults or life.rank >= self.first_size, f"rank {life.rank}: {outcome}")
        elif isinstance(outcome, BaseException) or outcome is None:
            self.fail(f"rank {life.rank} ended with {outcome!r}")
        elif outcome.status in ("isolated", "left-behind"):  # as a joiner is by whose epoch twins are void
            self.check(self.scenario.faults, f"rank {life.rank} is {outcome.status} without a fault: {outcome.why}")
        else:
            left = any(life.rank in epoch.former for _, epoch, _ in self.handed)
            evicted = any(life.rank in epoch.evicted for _, epoch, _ in self.handed)
            self.check(
                outcome.status == "done" or (left and outcome.status == ("evicted" if evicted else "left")),
                f"rank {life.rank} is {outcome.status}",
            )

    def without_faults(self):
        """All know an epoch before its round, none sits out, and all mix with all."""
        for _, epoch, change in self.handed:
            if change.blind or change.starts == math.inf:
                continue
            within, outside = self.first_round(epoch)
            self.check(not outside, f"ranks {sorted(outside)} did not know epoch {epoch.number} in its round")
            self.check(within == set(epoch.members), f"epoch {epoch.number}: {sorted(within)} of {epoch.ranks} ran it")
            for rank in self.epochs[epoch.previous].ranks:
                knew, due = self.knew.get((rank, epoch), math.inf), epoch.begins - change.later - 1
                self.check(knew <= due, f"rank {rank} begins round {due} and does not know epoch {epoch.number} yet")
        entries = {epoch.begins for _, epoch, change in self.handed if change.join}
        for (rank, number), epoch in self.ran.items():
            # A joiner that has begun late, or whose first neighbors are joiners, enters some rounds later.
            if rank in epoch.members and not any(begun <= number < begun + _LATE for begun in entries):
                senders = self.graphs_of(epoch).at(number, rank).in_neighbors
                self.check(
                    self.used.get((rank, number)) == list(senders),
                    f"rank {rank} mixed {self.used.get((rank, number))} in round {number}, not {senders}",
                )


def before_each_body(patch):
    """A document goes on each link before its next body, and not at once: a hop a round."""
    join_up, add_body, followers = EpochFollower.join_up, SendQueues.add_body, {}

    def noted(self, schedule, members, send_queues, *rest):
        followers[send_queues] = self, set()
        join_up(self, schedule, members, send_queues, *rest)

    def add(self, link, number, frames, *held):
        follower, sent = followers[self]
        for document in follower.chain.lacking(b""):
            if (link, document) not in sent:
                sent.add((link, document))
                follower.send(link, document)
        add_body(self, link, number, frames, *held)

    patch.setattr(EpochFollower, "join_up", noted)
    patch.setattr(EpochFollower, "_spread", lambda self, epoch, source: None)
    patch.setattr(SendQueues, "add_body", add)


def quorum_of(completed):
    """The most rounds that a quorum of these has completed, by counting."""
    members = sorted(completed)
    return max(
        (most for most in range(max(completed.values()) + 1)
         if is_quorum(members, {rank for rank, one in completed.items() if one >= most})),
        default=0,
    )  # fmt: skip


def is_quorum(members, ranks):
    """Independent of dpeer.peer.core.round_clock."""
    there = len(set(members) & set(ranks))
    return 2 * there > len(members) or (2 * there == len(members) and min(members) in ranks)


# -- schedules ---------------------------------------------------------------------------------------------------------


def generate_epochs(seed: int) -> tuple[Scenario, tuple[Change, ...]]:
    """The scenario of a seed, and its changes."""
    rng = random.Random(f"epochs {seed}")
    size, rounds, pace = rng.randint(3, 7), rng.randint(20, 40), rng.choice((0.5, 1.0, 2.0))
    topology = drawn_topology(rng, *(max(size + more, 2) for more in range(-2, 4)))
    conditions = drawn_links(rng, 0.1)
    changes, faults = [], []
    at = rng.uniform(1, 6)
    for _ in range(rng.choice((1, 1, 2, 3))):
        kind = rng.random()
        changes.append(
            Change(
                round(at, 2), rng.randrange(size),
                join=rng.choice((0, 1, 1, 2)) if kind < 0.7 else 0,
                leave=tuple(sorted(rng.sample(range(size), rng.choice((0, 1, 1, 2))))) if kind > 0.3 else (),
                more=rng.choice((0, 0, 5)),
                later=rng.choice((0, 0, 0, 2)),
                starts=rng.choice((0.1, 0.5, 0.5, 5.0)),
            )
        )  # fmt: skip
        at += rng.uniform(4, 14) * pace
    if rng.random() < 0.6:
        faults = _faults(rng, size, changes)
        if rng.random() < 0.3:
            twin = replace(changes[0], to=rng.randrange(size), at=changes[0].at + rng.choice((0.0, 0.01, 2.0, 8.0)))
            changes.append(replace(twin, join=0, leave=(rng.randrange(size),), blind=True))
        if rng.random() < 0.15:
            changes[0] = replace(changes[0], starts=math.inf)
    scenario = Scenario(
        seed, topology, size, rounds, pace=pace, wait=200.0, conditions=conditions, faults=tuple(faults)
    )  # fmt: skip
    return scenario, tuple(changes)


def _faults(rng, size, changes):
    """Faults at about the time at which an epoch spreads."""
    faults = []
    for change in changes:
        at, lasts = max(0.0, change.at + rng.uniform(-3, 3)), rng.choice((1.0, 4.0, 12.0, 30.0, 60.0))
        some = tuple(sorted(rng.sample(range(size), rng.randint(1, max(1, size - 1)))))
        match rng.choice(("part", "part", "stall", "crash", "power", "stop", "cut", "freeze")):
            case "part":
                faults.append(Fault("part", some, round(at, 2), lasts))
            case "stall":
                pairs = [(one, other) for one in some for other in range(size) if other not in some]
                faults += [Fault("stall", pair, round(at, 2), lasts) for pair in pairs]
            case "cut" if size > 2:
                faults.append(Fault("cut", tuple(rng.sample(range(size), 2)), round(at, 2), lasts))
            case what:
                faults.append(Fault(what, some[:1], round(at, 2), lasts))
    return faults


def why_epochs(seed):
    """The first violation in the schedule of a seed; None if all invariants hold."""
    scenario, changes = generate_epochs(seed)
    return play(scenario, changes)


def play(scenario, changes):
    """The first violation; None if all invariants hold."""
    world = EpochWorld(scenario, changes)
    try:
        world.run()
        if not scenario.faults:
            world.without_faults()
            if world.violations:
                return world.violations[0]
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None
