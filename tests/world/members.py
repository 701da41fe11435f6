"""Schedules of member lists: peers join, leave, move and come back while rounds run."""

import hashlib
import math
import random
from dataclasses import dataclass, replace
from functools import partial

import msgpack
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dpeer.exceptions import PeersMissing, TopologyError
from dpeer.peer.config import ListsConfig
from dpeer.peer.core.member_list import NO_KEY, Former, Key, Member, MemberList, Signers, Stamp, by_rank, is_quorum
from dpeer.peer.core.wire import USES_BYTES, is_chunk
from dpeer.simulation.network import later
from tests.world.disk import Disk
from tests.world.faults import Fault
from tests.world.scenario import Scenario, drawn_links, graphs
from tests.world.world import World

OPERATOR = Ed25519PrivateKey.from_private_bytes(bytes(32))
SIGNERS = Signers((OPERATOR.public_key().public_bytes_raw().hex(),))
FEDERATION = "fe" * 32

_ERROR = 1e-9

_MUTUAL = ("ring", "line", "full", "star", "exponential")
"""Graphs whose edges go both ways: where one lacks, it lacks at both ends."""

_CUTS = ("part", "stall", "freeze")
"""Faults by which a peer that runs hears nothing."""

_MEETS = 15.0
"""Seconds in which a peer that comes back meets its neighbors."""


@dataclass(frozen=True)
class Change:
    """An operator asks a peer for its lists, signs the next one, and hands it over.

    Attributes:
        at: Virtual seconds from the start.
        to: The rank that is asked.
        add: How many newcomers.
        remove: Ranks that go.
        rounds: So many more.
        topology: Another graph.
        move: A rank that goes to another address: its process ends, and begins there.
        comes: Seconds after which newcomers, or the one that moves, begin; infinity for never.
        force: Whether the list counts at once.
        settle: Whether it takes the place of one that waits.
        also: Other ranks to which it is handed in the same moment.
        blind: Whether it follows list 0, whatever the peer has.
        evict: Whether those that go are named as evicted.
    """

    at: float
    to: int
    add: int = 0
    remove: tuple[int, ...] = ()
    rounds: int = 0
    topology: str | None = None
    move: int | None = None
    comes: float = 1.0
    force: bool = False
    settle: bool = False
    also: tuple[int, ...] = ()
    blind: bool = False
    evict: bool = False


@dataclass(frozen=True)
class MemberScenario(Scenario):
    """A run in which members change."""

    changes: tuple[Change, ...] = ()
    alone: tuple[int, ...] = ()
    """Newcomers that have a list which was handed to nobody."""
    promised: bool = True
    """Whether nothing of what is not promised happens (docs/security.md, Operators)."""

    @property
    def over_at(self):
        later_on = [one.at + (one.comes if one.comes < math.inf else 0) for one in self.changes]
        return max([super().over_at, *later_on], default=0.0)


@dataclass
class Begun:
    """A round that was begun to be trained: when, and what its peer knew then."""

    rank: int
    number: int
    one: MemberList
    quorum: frozenset[int]
    completed: dict[int, int]
    slack: int


class MemberWorld(World):
    """Plays a scenario in which members change."""

    def __init__(self, scenario, **how):
        super().__init__(scenario, **how)
        more = sum(change.add for change in scenario.changes) + len(scenario.alone)
        self.size += more  # faults part ranks from all others
        self.disks += [Disk() for _ in range(more)]
        self.lives += [[] for _ in range(more)]
        self.stated += [0] * more
        self.addresses = {rank: f"sim://{rank}" for rank in range(self.size) if rank not in scenario.hidden}
        members = {rank: Member(self.addresses.get(rank)) for rank in range(scenario.size)}
        self.zero = MemberList(FEDERATION, 0, b"", members, {}, scenario.rounds, scenario.topology, "")
        self.known = {b"0": self.zero}
        self.handed: list[MemberList] = []
        self.lists: dict[tuple[int, int], MemberList] = {}
        self.listed_by: dict[tuple[int, int, int], MemberList] = {}
        self.begun: list[Begun] = []
        self.rows: dict[tuple[int, int], dict[int, float]] = {}
        self.mixed_at: dict[tuple[int, int], float] = {}
        self.given: dict[int, MemberList] = {}

    # -- the operators -------------------------------------------------------------------------------------

    def _begin_all(self):
        for rank, at in enumerate(self.scenario.arrivals or (0.0,) * self.scenario.size):
            if at:
                later(at, partial(self._begin, rank, resume=False))
            else:
                self._begin(rank, resume=False)
        for change in self.scenario.changes:
            later(change.at, partial(self.change, change))
        for rank in self.scenario.alone:
            one = self._signed(replace(self._after(self.zero), members={**self.zero.members, rank: self._member(rank)}))
            self._arrive(rank, one, 3.0)

    def change(self, change):
        """Build a list as the command does, and hand it over."""
        life = self.lives[change.to][-1] if self.lives[change.to] else None
        if life is None or life.peer is None or life.task.done():
            return
        lists = life.peer.core.lists.lists
        before = self.zero if change.blind else lists.counts
        if change.to not in before.members and not change.force:
            return
        if lists.waits is not None and not (change.force or change.settle or change.blind):
            self.say(change.to, "an operator is refused: a list waits")
            return
        gone = {*change.remove} & before.members.keys()
        fresh = range(before.next_rank, before.next_rank + change.add)
        stay = {rank: one for rank, one in before.members.items() if rank not in gone}
        members = {**stay, **{rank: self._member(rank) for rank in fresh}}
        if change.move is not None and change.move in members:
            self.addresses[change.move] = f"sim://{change.move}/{change.at}"
            members[change.move] = self._member(change.move)
        how = "evicted" if change.evict or change.force else "left"
        one = replace(
            self._after(before),
            version=lists.newest.version + 1 if change.force or change.settle else before.version + 1,
            members=members,
            former={**before.former, **{rank: Former((), how) for rank in gone}},
            rounds=before.rounds + change.rounds,
            graph=change.topology or before.graph,
            force=change.force,
        )
        try:
            self.graphs_of(one)
        except TopologyError:
            return
        if len(members) < 2 or not (change.force or is_quorum(members, stay)):
            self.say(change.to, "an operator is refused: too few stay")
            return
        one = self._signed(one)
        self.handed.append(one)
        for rank in (change.to, *change.also):
            there = self.lives[rank][-1]
            if there.peer is not None and not there.task.done():
                why = there.peer.driver.hand(one)
                self.say(rank, f"is handed list {one.version} {sorted(members)}: {why}")
        for rank in fresh if change.comes < math.inf else ():
            self._arrive(rank, one, change.comes)
        if change.move is not None and change.move in members:
            moves = self.lives[change.move][-1]
            self.kill(change.move, notice=True)
            later(change.comes, lambda: self._arrive_again(moves))

    def _after(self, before):
        return replace(before, version=before.version + 1, previous=before.digest, force=False, signatures={})

    def _member(self, rank):
        return Member(self.addresses.get(rank))

    def _signed(self, one):
        # Of two operators that sign at one moment no two lists are equal; the digest decides nothing else.
        one = replace(one, edges=hashlib.sha256(f"{len(self.known)}".encode()).hexdigest()).signed(OPERATOR)
        self.known[one.digest[:USES_BYTES]] = one
        return one

    def _arrive(self, rank, one, seconds):
        self.given[rank] = one
        later(seconds, lambda: self.lives[rank] or self._begin(rank, resume=False))

    def _arrive_again(self, life):
        if self.lives[life.rank][-1] is life and life.process.dead:
            self._begin(life.rank, resume=True)

    def graphs_of(self, one):
        return graphs(one.graph, len(one.members), 1.0)

    def lists_of(self, life):
        return ListsConfig(self.zero, SIGNERS, self.graphs_of, self.given.get(life.rank))

    def listed(self, rank):
        return {other: address for other, address in self.addresses.items() if other < self.scenario.size}

    # -- what is observed ----------------------------------------------------------------------------------

    def graph(self, rank, number):
        one = self.lists.get((rank, number), self.zero)
        found = self.lives[rank][-1].peer.core.lists._graph(one)
        return found.at(number, rank)

    def begins(self, life, number, due, *, trains):
        core, rank = life.peer.core, life.rank
        one = self.known[core.schedule.uses(number)]
        self.check(number == due, f"rank {rank} begins round {number} where {due} is due")
        life.began.append(number)
        self.began[rank, number] = self.loop.time()
        self.lists[rank, number] = self.listed_by[rank, number, life.incarnation] = one
        self.say(rank, f"{'begins' if trains else 'sits out'} round {number} by list {one.version}")
        if trains:
            self.check(rank in one.members, f"rank {rank} trains in round {number}, and list {one.version} lacks it")
            clock = core.round_clock
            known = {other: clock[other] for other in range(self.size)}
            enough = frozenset(other for other in clock.members if known[other] >= number - clock.slack)
            self.begun.append(Begun(rank, number, one, enough, known, clock.slack))
        self.director.begun(rank, number)

    def mixes(self, life, number, rank, raw, named):
        self.check(named[:2] == (rank, number), f"rank {life.rank} mixes in round {number} a body {named} of {rank}")
        self.check(self.released.get(named) == raw, f"rank {life.rank} mixes a body that was never released: {named}")
        ours, theirs = self.lists[life.rank, number], self.listed_by[named]
        self.check(
            ours is theirs,
            f"rank {life.rank} mixes round {number} by list {ours.version}, and rank {rank} by list {theirs.version}",
        )
        senders = self.graph(life.rank, number).in_neighbors
        self.check(rank in senders, f"rank {life.rank} mixes rank {rank}, and hears nothing of it in round {number}")

    def weighs(self, life, number, row):
        self.rows[life.rank, number] = row
        self.mixed_at[life.rank, number] = self.loop.time()

    def sits_out(self, life, number):
        self.sat_out.add((life.rank, number))

    def adopts(self, life, number, ranks):
        self.say(life.rank, f"adopts in round {number} the bodies of {ranks}")
        self.adopted[life.rank, number] = ranks

    def releases(self, life, number, payload, base, body):
        self.released[life.rank, number, life.incarnation] = payload

    def _sent(self, source, target, frames):
        super()._sent(source, target, frames)
        if is_chunk(frames):
            return
        fields, disk = msgpack.unpackb(frames[0]), self.disks[source]
        if fields.get("kind") in ("hello", "heartbeat") and fields["stamps"]:
            said = by_rank([(Stamp(*(Key(*key) for key in one)), ranks) for one, ranks in fields["stamps"]]).get(source)
            if said is not None:
                counts, waits = disk.lists
                have = Stamp((counts or self.zero).key, NO_KEY if waits is None else waits.key)
                if not said <= have:
                    self.fail(f"rank {source} says {said}, and has {have} on disk")

    # -- the end -------------------------------------------------------------------------------------------

    def at_the_end(self):
        for life in (life for lives in self.lives for life in lives if life.peer is not None):
            dropped = life.peer.core.reports.counts + life.peer.core.exchange.inbox.dropped
            for reason in ("unhandled", "malformed", "early", "wrong-rank", "mismatch", "oversized", "lists"):
                self.check(not dropped[reason], f"rank {life.rank} dropped {dropped[reason]} messages: {reason}")
        self.ended_well()
        steady = not self.scenario.faults and all(change.move is None for change in self.scenario.changes)
        if steady and all(one.graph in _MUTUAL for one in self.known.values()):
            error, _ = self.columns()
            self.check(error < _ERROR, f"a column is wrong by {error}")
        if self.scenario.promised:
            depth, worst = self.split()
            far = max(self.lives[0][-1].peer.core.lists._graph(one).diameter for one in self.known.values())
            self.check(depth <= 2 * (far + 1), f"a split of {depth} rounds: {worst}")

    def ended_well(self):
        """Once all faults are over, members of the last list end done, and who is none any more has left."""
        last = max((life.peer.core.lists.lists.counts for life in self.present if life.peer), key=lambda one: one.key)
        over = min((at for (_, number), at in self.ended.items() if number + 1 == last.rounds), default=math.inf)
        in_time = over - _MEETS * max(1.0, self.scenario.pace)
        for life in self.present:
            status = self.statuses()[life.rank]
            late = isinstance(life.outcome, PeersMissing) or status in ("left-behind", "isolated")
            since = max([life.since, *(one.at + one.seconds for one in self.scenario.faults if one.what in _CUTS)])
            if late and since > in_time:
                continue  # the others had left when it came, or were in the last rounds
            if late and life.rank in last.members and not self._linked_to_a_quorum(life, last, in_time):
                continue  # all its ways to those who went on led over peers that were away
            if late and life.rank in last.members and last.members[life.rank].address != self.addresses.get(life.rank):
                continue  # it has moved by a list that never counted: the others dial its old address
            if life.rank in last.members or life.rank in last.former:
                good = ("done", "killed") if life.rank in last.members else ("done", "left", "evicted", "killed")
                self.check(status in good, f"rank {life.rank} ended {status}: {self.statuses()}")
            else:
                self.check(status == "isolated", f"rank {life.rank} was never a member, and ended {status}")

    def _linked_to_a_quorum(self, life, last, in_time):
        """Whether edges of the last list led from a peer to a quorum, over peers that were there in time."""
        there = {
            one.rank
            for one in self.present
            if one.rank in last.members and not one.process.dead and one.since <= in_time
        }
        graph, found, near = life.peer.core.lists._graph(last), {life.rank}, {life.rank}
        while near:
            near = {other for rank in near for other in graph.connections(rank)} & there - found
            found |= near
        return is_quorum(last.members, found)

    def split(self):
        """The most rounds that two peers, whose quorums share no rank, ran past each other's word."""
        deepest, worst = 0, None
        by_round: dict[int, list[Begun]] = {}
        for one in self.begun:
            if (one.rank, one.number) in self.used:
                by_round.setdefault(one.number, []).append(one)
        for number, every in by_round.items():
            for place, a in enumerate(every):
                for b in every[:place]:
                    if a.rank == b.rank or a.quorum & b.quorum:
                        continue
                    word = max(
                        max((a.completed.get(rank, 0) for rank in b.quorum), default=0),
                        max((b.completed.get(rank, 0) for rank in a.quorum), default=0),
                    )
                    if number - word > deepest:
                        deepest, worst = number - word, (number, a.rank, sorted(a.quorum), b.rank, sorted(b.quorum))
        return deepest, worst

    def columns(self):
        """The largest error of a column, over those who mixed with one list, and how many rounds lacked an edge.

        Who enters a round that others had mixed before they heard of its entry has their bodies, and they lack its own.
        """
        error, partial_rounds = 0.0, 0
        late = set()
        for rank, number in self.adopted:
            began = self.began.get((rank, number + 1), -math.inf)
            late |= {one for (_, one), at in self.mixed_at.items() if one == number + 1 and at < began}
        for number in sorted({number for _, number in self.rows}):
            rows = {rank: row for (rank, one), row in self.rows.items() if one == number}
            lacks = False
            for rank, row in rows.items():
                column = math.fsum(other.get(rank, 0.0) for other in rows.values())
                error = max(error, abs(column - 1) if number not in late else 0.0)
                near = self.graph(rank, number).in_neighbors
                lacks |= any(other not in row for other in near)
            partial_rounds += lacks
        return error, partial_rounds

    def statuses(self):
        """How each rank ended that has come."""
        found = {}
        for life in self.present:
            outcome = life.outcome
            killed = life.process.dead
            found[life.rank] = "killed" if killed else getattr(outcome, "status", repr(outcome))
        return found

    def ends(self, ranks, status="done"):
        """Fail unless these ranks have ended so."""
        found = self.statuses()
        for rank in ranks:
            self.check(found.get(rank) == status, f"rank {rank} ended {found.get(rank)}, not {status}: {found}")

    def agree(self, ranks):
        """Fail unless these ranks have one list, and none that waits."""
        found = {rank: self.lives[rank][-1].peer.core.lists.lists.stamp for rank in ranks}
        self.check(len({*found.values()}) == 1, f"lists differ: {found}")


# -- drawn schedules ---------------------------------------------------------------------------------------------------

_GRAPHS = (
    "ring",
    "ring",
    "line",
    "full",
    "star",
    "exponential",
    "exponential-directed",
    "one-peer-exponential",
    "random-matching",
)


_MORE_GRAPHS = ("fresh:2", "fresh:2", "fresh-directed:1", "fresh-directed:2", "one-way", "one-peer-exponential")
"""Those of a fifth of the schedules: directed ones, and others in each round."""


def generate_members(seed: int) -> MemberScenario:
    """The scenario of a seed."""
    found, rng = _drawn(seed), random.Random(f"members graphs {seed}")
    if rng.random() < 0.8:
        return found
    changes = [replace(one, topology=one.topology and rng.choice(_MORE_GRAPHS)) for one in found.changes]
    return replace(found, topology=rng.choice(_MORE_GRAPHS), changes=tuple(changes))


def _drawn(seed: int) -> MemberScenario:
    rng = random.Random(f"members {seed}")
    size, rounds, pace = rng.randint(3, 7), rng.randint(20, 40), rng.choice((0.5, 1.0, 2.0))
    lost = rng.random() < 0.3  # disks; a cut beside these is not promised
    changes = tuple(_changes(rng, size, rounds, pace))
    faults = tuple(_faults(rng, size, rounds, pace, lost=lost))
    hidden = tuple(rank for rank in range(size) if rng.random() < 0.05)[:1]
    return MemberScenario(
        seed,
        rng.choice(_GRAPHS),
        size,
        rounds,
        pace=pace,
        wait=200.0,
        conditions=drawn_links(rng),
        faults=faults,
        changes=changes,
        disk=rng.choice(((0.0,), (0.0, 0.02, 0.2, 2.0))),
        hidden=hidden,
    )


def _changes(rng: random.Random, size: int, rounds: int, pace: float) -> list[Change]:
    at, found = rng.uniform(1, 0.4 * rounds * pace), []
    for _ in range(rng.choice((1, 1, 2, 3))):
        to = rng.randrange(size)
        other = rng.choice([rank for rank in range(size) if rank != to])
        comes = rng.choice((0.5, 2.0, 15.0))
        kind = rng.choice(("add", "add", "remove", "remove", "both", "move", "graph", "rounds", "twins"))
        match kind:
            case "add":
                found.append(Change(at, to, add=rng.randint(1, 2), comes=comes))
            case "remove":
                found.append(Change(at, to, remove=(other,)))
            case "both":
                found.append(Change(at, to, add=1, remove=(other,), comes=comes))
            case "move":
                found.append(Change(at, to, move=other, comes=comes))
            case "graph":
                found.append(Change(at, to, topology=rng.choice(_GRAPHS)))
            case "rounds":
                found.append(Change(at, to, rounds=rng.randint(1, 10)))
            case "twins":
                found.append(Change(at, to, remove=(other,), blind=True))
                found.append(Change(round(at + rng.uniform(0.0, 0.1), 3), other, rounds=3, blind=True))
                found.append(Change(at + 25, rng.randrange(size), rounds=1, settle=True))
        at += rng.uniform(1, 20)
    return [replace(one, at=round(one.at, 3)) for one in found]


def _faults(rng: random.Random, size: int, rounds: int, pace: float, *, lost: bool) -> list[Fault]:
    found, anew = [], rng.random() < 0.5
    for _ in range(rng.choice((0, 1, 1, 2))):
        at, lasts = round(rng.uniform(1, 0.7 * rounds * pace), 2), round(rng.uniform(1, 40), 2)
        rank = rng.randrange(size)
        if lost:
            if anew:
                found.append(Fault("lose", (rank,), at, lasts))
            else:
                found += [Fault("back up", (rank,), at), Fault("restore", (rank,), at + rng.uniform(1, 20), lasts)]
            continue
        match rng.choice(("part", "part", "stall", "power", "crash", "slow", "freeze")):
            case "part":
                island = tuple(sorted(rng.sample(range(size), rng.randint(1, size - 1))))
                found.append(Fault("part", island, at, lasts))
            case "stall":
                other = rng.choice([one for one in range(size) if one != rank])
                found.append(Fault("stall", (rank, other), at, lasts))
            case "slow":
                found.append(Fault("slow", (rank,), at, 60.0, times=rng.choice((2.0, 4.0))))
            case what:
                found.append(Fault(what, (rank,), at, lasts))
    return found
