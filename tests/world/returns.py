"""Schedules of returns: outages so long that rounds go on, lost disks, returners side by side; and their invariants."""

import random
from dataclasses import dataclass

from dpeer.exceptions import TopologyError
from dpeer.simulation.network import Conditions
from tests.world.faults import Fault

_SOON = 2
"""Rounds within which a peer that has entered is mixed."""


@dataclass
class Return:
    """A way back of a rank's process.

    Attributes:
        life: The process.
        since: The first round that was sat out.
        last: The last one.
        adopted: Whether bodies were adopted.
        entered: The round in which it took part again; None if it did not.
    """

    life: object
    since: int
    last: int
    adopted: bool = False
    entered: int | None = None


def generate_returns(seed):
    """The scenario of a seed."""
    from tests.world.scenario import STATIC, Scenario, graphs

    rng = random.Random(f"returns {seed}")
    size, rounds = rng.randint(3, 8), rng.randint(25, 40)
    topology = rng.choice(STATIC)
    try:
        graphs(topology, size, 1.0)
    except TopologyError:  # not of this size
        topology = "ring"
    conditions = Conditions(
        latency=(0.001, rng.choice((0.002, 0.3))),
        bytes_per_second=rng.choice((float("inf"), float("inf"), 400.0)),  # a body takes longer than a round
        chunk_bytes=rng.choice((None, 16)),
        redial=(0.1, 1.0),
        notice=(0.0, 0.5),
    )
    found = graphs(topology, size, 1.0)
    faults = []
    at, first = rng.uniform(2, 12), rng.randrange(size)
    for _ in range(rng.choice((1, 1, 2, 3))):
        first = rng.choice((first, rng.randrange(size)))  # often the same one again
        near = found.connections(first, rounds)
        away = {first, *rng.sample(near, rng.randint(0, len(near)))}  # neighbors side by side, all of one at times
        away = sorted(away)[: max(1, (size - 1) // 2)]
        lasts = rng.uniform(4, 30)
        what = rng.choice(("power", "power", "crash", "lose", "part", "freeze"))
        if what == "part":
            faults.append(Fault("part", tuple(away), round(at, 2), round(lasts, 2)))
        else:
            faults += [Fault(what, (rank,), round(at, 2), round(lasts + rng.uniform(0, 3), 2)) for rank in away]
        rest = [rank for rank in range(size) if rank not in away]
        if rng.random() < 0.4:  # a neighbor dies while a returner collects
            dies = round(at + lasts + rng.uniform(0, 4), 2)
            faults.append(Fault("power", (rng.choice(rest),), dies, round(rng.uniform(1, 25), 2)))
        at += lasts + rng.uniform(5, 25)
    return Scenario(seed, topology, size, rounds, wait=300.0, conditions=conditions, faults=tuple(faults))


# -- invariants --------------------------------------------------------------------------------------------------------


def _open(world, life):
    return next((one for one in world.returns if one.life is life and one.entered is None), None)


def is_out(world, life, number):
    """Whether a round in which a peer does not train is one that it sits out, because the others have gone past it.

    In a round that is not the peer's to run, or that a lost disk may have released, it would not train anyway. It may
    be on its way back in such a round too, begin to be, or adopt; only its own word tells.
    """
    runs = world.graphs.at(number, life.rank).active and number >= world.stated[life.rank]
    return runs or life.peer.core.entry.since is not None


def begins(world, life, number, *, trains):
    """A peer takes part again only with adopted bodies, and sits out no round that no other peer has begun."""
    if not is_out(world, life, number):
        return
    way = _open(world, life)
    if not trains:
        if way is None:
            way = Return(life, number, number)
            world.returns.append(way)
        way.last = number
        others = [begun for rank, begun in world.began if rank != life.rank]
        # With all bodies of a round it may begin the next one as soon as any of those who have released them. In rounds
        # without neighbors it may have come further alone before its disk was lost: the backup of that ends there.
        far = number > max(others, default=0) + 1
        backup = world.disks[life.rank].number > 0 and number == way.since
        world.check(
            backup or not far, f"rank {life.rank} sits out round {number}, and no other has completed the one before"
        )
        return
    if way is None:
        return
    way.entered = number
    hears = any(world.graphs.at(one, life.rank).in_neighbors for one in range(number))
    world.check(
        way.adopted or not hears,
        f"rank {life.rank} takes part in round {number} with its own body of round {way.since}",
    )


def adopts(world, life, number):
    """Bodies are adopted in a round that is sat out, and none is released in it."""
    way = _open(world, life)
    world.check(way is not None, f"rank {life.rank} adopts in round {number}, and takes part")
    if way is not None:
        way.adopted = True
    world.check(
        (life, number) not in world.exchanged,
        f"rank {life.rank} adopts in round {number}, for which it has released a body",
    )


def releases(world, life, number, body):
    """A body is made; it may never leave, if its peer dies before the round before is on disk."""
    world.made[life.rank, number] = body


def sends(world, life, number):
    """From one disk a rank sends one body a round, however often it comes back."""
    body = world.made[life.rank, number]
    before = world.bodies.setdefault((life.rank, life.disk, number), body)
    if world.scenario.checkpoint_every == 1:
        world.check(before == body, f"rank {life.rank} sends two bodies for round {number} from one disk")


def at_the_end(world):
    """A peer that has entered is mixed soon."""
    for way in world.returns:
        if way.entered is not None:
            _mixed_soon(world, way)


def _mixed_soon(world, way):
    """Of the neighbors that a round's body goes to, where graphs change others in each, one at least has mixed one."""
    from tests.world.invariants import troubles

    rank, first = way.life.rank, way.entered
    last = min(first + _SOON, world.scenario.rounds - 1)
    end = max((world.ended.get((rank, number), 0.0) for number in range(first, last + 1)), default=0.0)
    hears = {(other, n) for n in range(first, last + 1) for other in world.graphs.at(n, rank).out_neighbors}
    receivers = {other for other, _ in hears}
    since = world.began[rank, way.since]
    for other in receivers:
        for begun, over, _ in troubles(world.scenario)[rank, other]:
            if begun <= end and over + 20.0 >= since:
                return  # it may be taken for dead meanwhile
    done = [world.ended.get((other, last)) for other in receivers]
    if not receivers or any(time is None for time in done) or (rank, last) not in world.ended:
        return
    heard = any(rank in world.used.get(one, ()) for one in hears)
    world.check(heard, f"rank {rank} has entered in round {first}, and no neighbor has mixed its body by round {last}")
