"""Invariants of every scenario, and stricter ones where no fault is long enough for a peer to be taken for dead."""

import functools
import itertools
import math
from collections import Counter

from dpeer.exceptions import PeersMissing, Refused
from dpeer.peer.core.membership import Status
from dpeer.topology import temporal_diameter
from tests.world import restores
from tests.world.learner import STEPS, mixed, trained
from tests.world.scenario import TIME_VARYING

_OVERHEAD = 5.0
"""Seconds of silence that a broken connection costs besides: a notice, dialling, and a hello with its answer."""

_PATIENCE = 9.0
"""Seconds of silence, all in all, by which no peer is taken for dead: a heartbeat and a look are still to come."""

_RECOVERY = 45.0
"""Seconds after a fault in which both ends, one after the other, notice that they hear nothing, and meet again."""

_CAUGHT_UP = 10.0
"""Seconds in which a peer that hears a neighbor, and was left behind, is in the round in which that one is."""

_BEGINS = 200.0
"""Seconds in which news of who has come has reached all, and neighbors that are there have dialled each other."""

_KNOWN = 2.5
"""Seconds after which a neighbor knows which round a peer has reached: a heartbeat, and its way."""


def limit(scenario):
    """Virtual seconds within which all peers have finished.

    After the last fault silent neighbors are found dead, dialled again, and caught up with; slow ones work off what
    they have begun.
    """
    times, always = dict.fromkeys(range(scenario.size), 1.0), False
    for fault in scenario.faults:
        if fault.what == "slow":
            times[fault.ranks[0]] *= fault.times
            always |= fault.seconds == math.inf
    rounds = 1.4 * scenario.rounds if always else 3
    slow = sum(rounds * factor * scenario.pace for factor in times.values() if factor > 1)
    drains = [fault.seconds for fault in scenario.faults if fault.what == "drain" and fault.seconds < math.inf]
    return scenario.over_at + sum(drains) + slow + 30 + 2 * scenario.wait + 4 * scenario.rounds * scenario.pace


@functools.lru_cache(maxsize=256)
def troubles(scenario):
    """For each pair of ranks, from when to when one may not hear the other, and whether bodies may be lost for good."""
    found = {pair: [] for pair in itertools.permutations(range(scenario.size), 2)}
    together = stopped_together(scenario)
    for fault in scenario.faults:
        match fault.what:
            case "slow" | "back up":
                continue
            case "drain" if fault.seconds < math.inf:
                continue  # its neighbors wait for it, or are away themselves
            case "cut" | "stall" | "vanish":
                pairs = {fault.ranks, fault.ranks[::-1]}
            case "part":
                pairs = {pair for pair in found if (pair[0] in fault.ranks) != (pair[1] in fault.ranks)}
            case _:
                pairs = {pair for pair in found if set(pair) & set(fault.ranks)}
        end = fault.at + fault.seconds + _OVERHEAD * (fault.what in ("cut", "crash", "power", "lose", "restore"))
        lost = fault.what in ("vanish", "power", "lose", "restore") or (fault.what == "stop" and not together)
        lost |= fault.what == "drain"
        lost |= fault.what == "crash" and scenario.checkpoint_every > 1  # and so are rounds
        for pair in pairs:
            found[pair].append((fault.at, end, lost))
    return found


@functools.lru_cache(maxsize=256)
def stopped_together(scenario):
    """Whether the only faults are stops of all peers, within the grace that they give each other."""
    times = [fault.at for fault in scenario.faults]
    ranks = sorted(rank for fault in scenario.faults for rank in fault.ranks)
    stopped = bool(times) and all(fault.what == "stop" for fault in scenario.faults)
    return stopped and ranks == list(range(scenario.size)) and max(times) - min(times) <= 1.0


@functools.lru_cache(maxsize=4096)
def mild(scenario, one, other):
    """Whether nothing may be lost between two ranks, because neither ever takes the other one for dead."""
    total, covered = 0.0, 0.0
    for start, end, lost in sorted(troubles(scenario)[one, other]):
        if lost:
            return False
        total += max(0.0, end - max(start, covered))
        covered = max(covered, end)
    return total < _PATIENCE


def undisturbed(scenario, one, other, start, end):
    """Whether two ranks could hear each other all the time from `start` to `end`."""
    return all(end < begun or start > over + _RECOVERY for begun, over, _ in troubles(scenario)[one, other])


def not_before_enough_have_come(world, life, number):
    """No peer begins before all ranks, or as many as the quorum asks for, have come with equal settings."""
    world.check(
        len(world.came) >= world.scenario.needed,
        f"rank {life.rank} begins round {number}, and only ranks {sorted(world.came)} have come",
    )


def refused(world, life):
    """Only a peer that no neighbor has accepted ends by other settings of one."""
    accepted = [one.rank for one in life.peer.core.members.all() if one.status is not Status.UNSEEN]
    world.check(not accepted, f"rank {life.rank} has ended, and {accepted} had accepted it: {life.outcome}")


def no_island(world, life, number):
    """No peer is more than the graph's diameter, and a round, past what a quorum has really completed."""
    reached, completed = _reached(world, life, number)
    slack = temporal_diameter(world.graphs, world.scenario.rounds)
    world.check(
        number <= reached + slack + 1,
        f"rank {life.rank} begins round {number}, and a quorum has begun {reached} at most: {completed}",
    )


def not_alone(world, life, number):
    """A peer that has mixed nothing trains no other round while no neighbor is there that has come as far.

    Where all of them are done it does, and where one that was heard after a cut leaves in the same moment.
    """
    earlier = [one for one in range(number) if (life.rank, one) in world.used]
    if not earlier or not life.began[:-1] or life.began[-2] != earlier[-1]:  # or it has just begun, or has sat out
        return
    mixed, core = world.used[life.rank, earlier[-1]], life.peer.core
    senders = world.graphs.at(earlier[-1], life.rank).in_neighbors
    near, now = [one.rank for one in core.members.all()], world.loop.time()
    heard = [rank for rank in near if core.members.is_there(rank) or core.members[rank].gone_at == now]
    there = [
        rank
        for rank in near
        if (rank in heard and core.members[rank].current_round >= number - 1) or core.exchange.inbox.has(rank, number)
    ]
    done = all(core.members.is_done(rank) for rank in near)
    world.check(
        mixed or there or done or not senders, f"rank {life.rank} trains in round {number}, and no neighbor is as far"
    )


def left_behind(world, life, number):
    """A peer begins to sit rounds out only if a quorum has really gone past it."""
    if (life.rank, number - 1) in world.sat_out:
        return  # it catches up
    reached, completed = _reached(world, life, number)
    world.check(reached > number, f"rank {life.rank} sits out round {number}, which no quorum has passed: {completed}")


def _reached(world, life, number):
    """The rounds that a quorum has completed, or those that have not ended; and those of each rank."""
    completed = [0] * world.size
    for rank, done in world.ended:
        completed[rank] = max(completed[rank], done + 1)
    for rank, begun in world.began:  # rounds that were sat out count, too
        completed[rank] = max(completed[rank], begun if (rank, begun) != (life.rank, number) else 0)
    running = [one for one in completed if one < world.scenario.rounds]
    return max(_quorum(completed), _quorum(running)) if running else world.scenario.rounds, completed


def _quorum(completed):
    """Independent of dpeer.peer.core.round_clock: by counting, for each number of rounds."""
    most = 0
    for rounds in range(max(completed) + 1):
        there = [rank for rank, one in enumerate(completed) if one >= rounds]
        if 2 * len(there) > len(completed) or (2 * len(there) == len(completed) and 0 in there):
            most = rounds
    return most


def in_vain(world, life, number):
    """Whether a peer knows that no neighbor can use its body of a round any more, and that it gets none.

    On a time-varying graph a neighbor may be far ahead because it needed nothing in between.
    """
    if world.scenario.topology in TIME_VARYING or world.scenario.participation < 1:
        return False
    graph, core = world.graphs.at(number, life.rank), life.peer.core
    near = {*graph.in_neighbors, *graph.out_neighbors}
    return (
        near
        and core.round_clock.passed(number)  # else the neighbor that is ahead waits
        and all(core.members[rank].current_round > number + 1 for rank in near)
        and not any(core.exchange.inbox.has(rank, number) for rank in near)
    )


def memory(world, life):
    """A peer keeps two bodies of its own, two of each neighbor, and three to be written to each, as far as it is known.

    Those are of the round before the neighbor's, which it may have asked for, of its own and of the one after that. Of
    one that a list takes from its neighbors it keeps what came before, until the rounds of these bodies are over.
    """
    if life.peer is None:
        return
    core, exchange = life.peer.core, life.peer.core.exchange
    neighbors = len(core.members.every())
    heard = len({one.rank for one in core.members.every()}.union(*exchange.inbox._rounds.values()))
    for name, count, most in (
        ("bodies of its own", len(exchange.outbox), 2),
        ("bodies of neighbors", len(exchange.inbox), 2 * heard),
        ("bodies to be written", len(core.send_queues), 3 * neighbors),
    ):
        if count > most:
            world.fail(f"rank {life.rank} keeps {count} {name}, more than {most}")


_AGREE_WITHIN = 10.0
"""Seconds after which two peers have one connection, at the most: hellos cross slow lines."""


def one_link(world, source, target):
    """Two peers that hear each other have one connection, but for the moments in which that changes."""
    pair, now = tuple(sorted((source, target))), world.loop.time()
    links, held = [], world.network.held(*pair) or world.network.held(*pair[::-1])
    for rank, other in (pair, pair[::-1]):
        life = world.lives[rank][-1] if world.lives[rank] else None
        if life is not None and life.peer is not None and not life.process.dead and not life.process.frozen:
            members = life.peer.core.members
            links.append(members[other].link if other in members else None)
    if (
        held
        or _vanished(world, pair, now)
        or len(links) < 2
        or None in links
        or (joined := world.network.joined(*links)) is None
        or (joined and world.network.connections(*pair) == 1)
    ):
        world.apart.pop(pair, None)
    elif now > world.apart.setdefault(pair, now) + _AGREE_WITHIN:
        world.fail(f"ranks {pair[0]} and {pair[1]} have had two connections since {world.apart[pair]:.3f} s")


def _vanished(world, pair, now):
    """Whether messages between these have been lost, of which neither end has learned yet."""
    return any(
        fault.what == "vanish" and {*fault.ranks} == {*pair} and fault.at <= now <= fault.at + _RECOVERY
        for fault in world.scenario.faults
    )


def links(world, life):
    """A peer dials each rank on one link: of two, each new connection ends the other's."""
    if life.peer is None:
        return
    dialled = Counter(one.rank for one in life.peer.core.connection_setup.dialling.values())
    for rank, count in dialled.items():
        world.check(count == 1, f"rank {life.rank} dials rank {rank} on {count} links")


def at_the_end(world):
    """Every peer that lives has finished, has mixed the bodies of all whom it could hear, and has the right model."""
    scenario = world.scenario
    ended = {life.rank for life in world.present if life.process.dead}
    for life in world.present:
        _ended_well(world, life, ended)
    for (rank, number), heard in world.used.items():
        for sender in world.graphs.at(number, rank).in_neighbors:
            if sender not in heard and _must_have_heard(world, rank, number, sender):
                world.fail(f"rank {rank} mixed round {number} without rank {sender}, to which it was connected")
    _began_in_time(world)
    in_time(world)
    if scenario.mistaken:
        found = any(isinstance(life.outcome, Refused) for lives in world.lives for life in lives)
        late = _too_late(world, world.lives[scenario.mistaken[0]][0])
        world.check(found or late, f"rank {scenario.mistaken[0]} has other settings, and no peer has ended by it")
    if (
        scenario.deadline is None
        and not scenario.budgets
        and len(world.present) == scenario.size
        and not scenario.arrivals
        and not scenario.stated
        and all(mild(scenario, *pair) for pair in itertools.combinations(range(scenario.size), 2))
    ):
        for rank, number in sorted(world.sat_out)[:1]:
            world.fail(f"rank {rank} sat round {number} out without a reason")
        bodies = reference(world.graphs, scenario.rounds)
        for life in world.present:
            found = world.disks[life.rank].saved
            same = found is not None and found.learner["body"] == bodies[life.rank]
            world.check(same, f"rank {life.rank} has not the bits of a run without faults")
    for life in (life for lives in world.lives for life in lives if life.drained is not None):
        _left_in_good_order(world, life)
    for life in (life for lives in world.lives for life in lives if life.peer is not None):
        dropped = life.peer.core.reports.counts + life.peer.core.exchange.inbox.dropped
        for reason in ("unhandled", "malformed", "early", "wrong-rank", "mismatch", "oversized"):
            expected = reason == "mismatch" and scenario.mistaken
            world.check(
                expected or not dropped[reason], f"rank {life.rank} dropped {dropped[reason]} messages: {reason}"
            )


def in_time(world):
    """A peer whose rounds have a budget is mixed in every one, however slow it is, and nobody waits for more than that.

    Where the budget is found, a first round is trained whole, and others may be sat out after it. It may come back a
    round behind, and some are without it until it has caught up.
    """
    scenario, budgets = world.scenario, dict(world.scenario.budgets)
    found = "auto" in budgets.values()
    for rank in [rank for rank, seconds in budgets.items() if found == (seconds == "auto")]:
        trained = [n for n in range(scenario.rounds) if (rank, n) in world.used and (rank, n) not in world.sat_out]
        since, most = (next(iter(trained[3:]), scenario.rounds), 10) if found else (0, 0)
        without = [
            number
            for number in range(since, scenario.rounds)
            for receiver in world.graphs.at(number, rank).out_neighbors
            if rank not in world.used.get((receiver, number), (rank,))
        ]
        world.check(len({*without}) <= most, f"rounds {without} had neighbors without rank {rank}: {budgets[rank]}")
    if budgets and scenario.deadline is None and all(fault.what == "slow" for fault in scenario.faults):
        step = max((fault.times for fault in scenario.faults), default=1.0) * scenario.pace * 1.4 / STEPS
        last, since = scenario.rounds - 1, 3 if found else 0
        for rank in range(scenario.size):
            seconds = (world.ended[rank, last] - world.ended[rank, since]) / (last - since)
            # Two slow peers of three measure each other: a budget is longer, and has the way of bodies several times.
            most = 5 * scenario.pace + 4 * scenario.conditions.latency[1] if found else 4 * scenario.pace
            world.check(seconds <= most + step, f"rank {rank} was held up: rounds of {seconds:.1f} s")


def _must_have_heard(world, rank, number, sender):
    """Whether a body that a rank did not mix must have come: it was released, and the two were connected."""
    if not _released(world, sender, number, world.ended[rank, number]):
        return False
    if world.scenario.deadline is not None:  # it may have been overdue
        return False
    if (sender, number) in world.sat_out:  # it crashed in that round, and found the others past it when it was back
        return False
    if world.ended.get((sender, world.scenario.rounds - 1), math.inf) < world.began[rank, number]:
        return False  # it had ended: this rank was left behind, and goes on with others that were
    if isinstance(world.lives[sender][-1].outcome, PeersMissing):  # it said goodbye before it began its rounds again
        return False
    if world.scenario.arrivals and min(world.began.values()) < max(world.came[sender], world.came[rank]):
        return False  # one came after the start, and was behind
    enters = any(one.entered == number for one in world.returns if one.life.rank == sender)
    if mild(world.scenario, sender, rank) and not enters:  # else its word of it may have come too late
        return True
    # A peer that was away is waited for again once it is known to have reached the round before.
    reached, needed = world.began.get((sender, number - 1), math.inf), world.ended[rank, number]
    since = min(reached, world.began.get((rank, number - 1), math.inf))
    caught_up = reached + _KNOWN <= world.began[rank, number]
    return caught_up and undisturbed(world.scenario, sender, rank, since, needed)


def _released(world, rank, number, at=math.inf):
    """Whether a process of a rank that had begun by then has released a body of the round, from the disk of then."""
    lives = [life for life in world.lives[rank] if life.since <= at]
    disk = max((life.disk for life in lives), default=0)
    return any((rank, number, life.incarnation) in world.released for life in lives if life.disk == disk)


def _too_late(world, life):
    """Whether a rank came, or was heard again, when all whom it could reach had completed all rounds without it.

    A neighbor that has never come leads to none. One that has come and never begun leads to others that have begun, and
    not before it has come itself.
    """
    last, begun = world.scenario.rounds - 1, {rank for rank, _ in world.began}
    since = max(life.since, *(fault.at + fault.seconds for fault in world.scenario.faults), 0.0)
    over, seen, near = [], {life.rank}, [(life.rank, since)]
    while near:
        rank, there = near.pop()
        for other in world.came.keys() & {*world.graphs.connections(rank, last + 1)} - seen:
            if other in begun:
                # A quorum had completed the last round before one that sat it out, or found none when it came back.
                left = (other, last) in world.sat_out or isinstance(world.lives[other][-1].outcome, PeersMissing)
                over.append(left or world.ended.get((other, last), math.inf) < there)
            else:
                near.append((other, max(there, world.lives[other][-1].since)))
                seen.add(other)
    return bool(over) and all(over)


def _too_few(world, rank):
    """Whether fewer have come than the start needs, of those from whom a chain of such neighbors leads to the rank."""
    found, near = set(), {rank}
    while near:
        found |= near
        near = {other for one in near for other in world.graphs.connections(one, world.scenario.rounds)}
        near = (near & world.came.keys()) - found
    return len(found) < world.scenario.needed


def _began_in_time(world):
    """Once enough have come and no fault is left, all that are there begin soon."""
    scenario = world.scenario
    if not scenario.arrivals:
        return
    agreed = max(scenario.over_at, *(life.since for life in world.present))
    for life in world.present:
        if _too_few(world, life.rank) or _too_late(world, life) or isinstance(life.outcome, Refused):
            continue
        begun = min((at for (rank, _), at in world.began.items() if rank == life.rank), default=math.inf)
        world.check(begun <= agreed + _BEGINS, f"rank {life.rank} begins at {begun:.0f} s, {agreed:.0f} s was the time")


def _left_in_good_order(world, life):
    """A peer that was drained has its last body mixed by all who mix that round, where nothing else happens."""
    if not {fault.what for fault in world.scenario.faults} <= {"drain", "slow"} or life.outcome.status != "stopped":
        return
    last = life.outcome.completed_rounds - 1
    if last < 0 or (life.rank, last) in world.sat_out:
        return
    for receiver in world.graphs.at(last, life.rank).out_neighbors:
        mixed = world.used.get((receiver, last))
        world.check(
            mixed is None or life.rank in mixed,
            f"rank {life.rank} left after round {last}, and rank {receiver} mixed that round without its body",
        )


def _ended_well(world, life, ended):
    if life.rank in ended:
        return
    if life.drained is not None and life.outcome.status == "stopped":
        away = [one for one in world.scenario.faults if one.what == "drain" and life.rank in one.ranks]
        world.check(any(one.seconds == math.inf for one in away), f"rank {life.rank} was drained and is not back")
        return
    outcome = life.outcome
    if isinstance(outcome, Refused) and world.scenario.mistaken and not world.corrected:
        return  # the others, who were enough, have ended before it was corrected
    if isinstance(outcome, PeersMissing) and world.scenario.arrivals:
        world.check(
            _too_few(world, life.rank) or _too_late(world, life),
            f"rank {life.rank} did not begin, and ranks {sorted(world.came)} have come: {outcome}",
        )
    elif isinstance(outcome, PeersMissing):
        # No peer can start with neighbors that have left, for whatever reason, or never come.
        over = ("done", "stopped", "left-behind")
        left = [one.rank for one in world.present if one.process.dead or getattr(one.outcome, "status", "") in over]
        # One with an empty disk cannot know that the others have agreed on the start: it waits for all.
        empty = world.disks[life.rank].saved is None
        near = set(range(world.size)) if empty else set(life.peer.neighbors)
        world.check(near & set(left), f"rank {life.rank} found no neighbor: {outcome}")
    elif isinstance(outcome, BaseException) or outcome is None:
        world.fail(f"rank {life.rank} ended with {outcome!r}")
    elif outcome.status == "left-behind":
        last = world.scenario.rounds - 1
        # One whose disk was lost has the last body no more.
        near = [other for other in life.peer.neighbors if not restores.is_restored(world, other)]
        waiting = [world.disks[other].saved for other in near if _released(world, other, last)]
        over = all(one is not None and one.next_round > last for one in waiting)
        world.check(over, f"rank {life.rank} is left behind, and neighbors that have bodies have not ended")
        cut_off = _over_before(world, life) or _cut_off(world, life.rank, _senders(world, life))
        world.check(cut_off, f"rank {life.rank} is left behind, and hears a quorum")
    elif outcome.status == "isolated":
        returns = (life.rank, life.outcome.completed_rounds) in world.sat_out
        alone = _cut_off(world, life.rank, _senders(world, life) if returns else life.peer.neighbors)
        world.check(alone, f"rank {life.rank} is isolated, and hears a quorum")
        saved = world.disks[life.rank].saved
        kept = 0 if saved is None else saved.next_round
        world.check(kept == outcome.completed_rounds, f"rank {life.rank} has not saved its last round")
    else:
        world.check(outcome.status == "done", f"rank {life.rank} is {outcome.status}")
        rounds = world.scenario.rounds
        world.check(outcome.completed_rounds == rounds, f"rank {life.rank} completed {outcome.completed_rounds} rounds")
        saved = world.disks[life.rank].saved
        world.check(saved is not None and saved.next_round == rounds, f"rank {life.rank} has not saved its last round")


def _over_before(world, life):
    """Whether a quorum had completed all rounds before this process began: the others are late themselves."""
    done = [
        rank for rank in range(world.size) if world.ended.get((rank, world.scenario.rounds - 1), math.inf) < life.since
    ]
    return _is_quorum(world.scenario, done)


def _senders(world, life):
    """The ranks whose bodies a peer could adopt: they took part in a round that it had not completed, or sat out."""
    rank, rounds = life.rank, world.scenario.rounds
    first = min((number for one, number in world.sat_out if one == rank), default=life.outcome.completed_rounds)
    return {
        one
        for number in range(first, rounds)
        for one in world.graphs.at(number, rank).in_neighbors
        if (one, number) not in world.sat_out
    }


def _cut_off(world, rank, neighbors):
    """Whether a peer had a reason to end: none of these that has finished could hear it, and the rest is no quorum."""
    rounds, scenario = world.scenario.rounds, world.scenario
    slow = {one for fault in scenario.faults if fault.what == "slow" for one in fault.ranks}
    if rank in slow or (neighbors and slow.issuperset(neighbors)) or scenario.deadline is not None:
        return True  # it, or the only ones that it hears, may be too slow to catch up before the others have ended
    completed = [0 if disk.saved is None else disk.saved.next_round for disk in world.disks]
    life = world.lives[rank][-1]
    for other in neighbors:
        over = world.ended.get((other, rounds - 1))
        heard = over is not None and undisturbed(scenario, rank, other, over - _CAUGHT_UP, over)
        if heard and life.since < over - _CAUGHT_UP:
            return False
    here = {
        life.rank
        for life in world.present
        if not life.process.dead
        and not isinstance(life.outcome, PeersMissing)
        and completed[life.rank] < rounds
        and getattr(life.outcome, "status", "") != "stopped"
    }
    near, group = {rank}, set()
    while near:
        group |= near
        near = {other for one in near for other in world.graphs.connections(one, rounds)} & here - group
    # Of two halves the one with rank 0 goes on; that it has ended the other one may not have heard.
    return len(group) == 1 or not _is_quorum(scenario, group)


def _is_quorum(scenario, ranks):
    """Whether these are more than half, or half with rank 0; where the quorum is a number, at least as many, too."""
    if isinstance(scenario.quorum, int):
        return 2 * len(ranks) > scenario.size and len(ranks) >= scenario.quorum
    return 2 * len(ranks) > scenario.size or (2 * len(ranks) == scenario.size and 0 in ranks)


@functools.cache
def reference(graphs, rounds):
    """The bodies of all peers after all rounds without faults."""
    bodies = dict.fromkeys(range(graphs.size), (0.0, 0.0))
    for number in range(rounds):
        seen = {rank: graphs.at(number, rank) for rank in bodies}
        released = {rank: trained(body, rank, number) for rank, body in bodies.items() if seen[rank].active}
        bodies = {rank: mixed({**bodies, **released}, dict(seen[rank].row)) for rank in bodies}
    return bodies
