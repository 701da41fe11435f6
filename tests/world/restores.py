"""Restores of older backups after a lost disk: schedules, and invariants of the ledger and of what is sent."""

import random

from dpeer.exceptions import TopologyError
from dpeer.simulation.network import Conditions
from tests.world.disk import STATED
from tests.world.faults import Fault


def generate_restores(seed):
    """The scenario of a seed: ranks lose their disks, and go on with copies of some seconds before."""
    from tests.world.scenario import STATIC, Scenario, graphs

    rng = random.Random(f"restores {seed}")
    size, rounds = rng.randint(3, 8), rng.randint(25, 40)
    topology = rng.choice(STATIC)
    participation = rng.choice((1.0, 1.0, 0.6))
    try:
        graphs(topology, size, participation)
    except TopologyError:  # not of this size
        topology = "ring"
    conditions = Conditions(
        latency=(0.001, rng.choice((0.002, 0.3))), chunk_bytes=rng.choice((None, 16)), redial=(0.1, 1.0),
        notice=(0.0, 0.5),
    )  # fmt: skip
    faults = []
    at = rng.uniform(3, 10)
    for _ in range(rng.choice((1, 1, 2))):
        away = rng.sample(range(size), rng.randint(1, max(1, (size - 1) // 2)))
        for rank in away:
            fails = round(at + rng.uniform(0.0, 8.0), 2)  # a disk may be lost the moment after it was copied
            back = round(rng.choice((rng.uniform(0.0, 3.0), rng.uniform(5.0, 30.0))), 2)
            faults += [Fault("back up", (rank,), round(at, 2)), Fault("restore", (rank,), fails, back)]
            if rng.random() < 0.3:  # killed on its way back
                faults.append(Fault("power", (rank,), round(fails + back + rng.uniform(0, 6), 2), rng.uniform(0.5, 8)))
        rest = [rank for rank in range(size) if rank not in away]
        if rng.random() < 0.3:  # one that remembers it is killed, too
            faults.append(Fault("crash", (rng.choice(rest),), round(at + rng.uniform(0, 10), 2), rng.uniform(0.5, 10)))
        at += rng.uniform(30, 45)
    return Scenario(
        seed, topology, size, rounds, participation=participation, wait=300.0, conditions=conditions,
        checkpoint_every=rng.choice((1, 1, 3)), faults=tuple(faults),
    )  # fmt: skip


# -- invariants --------------------------------------------------------------------------------------------------------


def is_restored(world, rank):
    """Whether a rank goes on with an older copy of its disk at some time."""
    return any(fault.what == "restore" and rank in fault.ranks for fault in world.scenario.faults)


def heard_of(world, rank):
    """By each other process that runs: the rounds that it knows the rank to have released."""
    cores = {one: one.peer.core for one in world.present if one.rank != rank and one.peer and not one.process.dead}
    return {
        one: max(core.round_clock[rank], core.members[rank].released if rank in core.members else 0)
        for one, core in cores.items()
    }


def releases(world, life, number):
    """The ledger of a peer that releases a body has had all rounds of which a body of this rank was ever sent.

    Where no neighbor knows of them that it has met they are not found, nor ever after: of this very round it charges
    its own body alone.
    """
    if not is_restored(world, life.rank):
        return
    before = world.disks[life.rank].ledger[:-1]
    known = {one for one, _ in before}.union(*(one.unknown for one in world.lives[life.rank]))
    lacks = sorted(one for rank, one in world.sent_bodies if rank == life.rank and one not in known)
    members = life.peer.core.members
    here = [one for one in life.heard_of if one.rank in members and members.is_there(one.rank)]
    told = [life.heard_of[one] for one in here if one is world.lives[one.rank][-1]]
    if lacks and lacks[0] >= max(told, default=0):
        life.unknown.update(lacks)
        return
    world.check(not lacks, f"rank {life.rank} releases round {number}, and its ledger lacks rounds {lacks}")


def sends(world, rank, number):
    """Of a round no more bodies are ever sent, from whatever disks, than the ledger has lines of its own."""
    if not is_restored(world, rank) or any(life.unknown for life in world.lives[rank]):
        return
    bodies = world.sent_bodies.setdefault((rank, number), set())
    bodies.add(world.made[rank, number])
    charged = sum(one == number and of != STATED for one, of in world.disks[rank].ledger)
    world.check(len(bodies) <= charged, f"rank {rank} sends another body of round {number} that it has not charged")
