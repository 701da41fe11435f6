"""Schedules of drains: peers leave in good order one after the other, all together, or for good."""

import math
import random

from tests.world.faults import Fault
from tests.world.scenario import Scenario, drawn_links, drawn_topology


def generate_drains(seed: int) -> Scenario:
    """The scenario of a seed."""
    rng = random.Random(f"drains {seed}")
    size, rounds, pace = rng.randint(2, 6), rng.randint(6, 16), rng.choice((0.3, 1.0, 4.0))
    topology = drawn_topology(rng, size)
    conditions = drawn_links(rng)
    kind = rng.choice(("rolling", "rolling", "together", "good"))
    faults = tuple(_drains(rng, kind, size, rounds * pace))
    if rng.random() < 0.3:
        faults += (Fault("slow", (rng.randrange(size),), 0.0, 60.0, times=rng.choice((2.0, 5.0))),)
    return Scenario(
        seed, topology, size, rounds, pace=pace, conditions=conditions, faults=faults, announced=kind != "together",
        wait=200.0,
    )  # fmt: skip


def generate_pairs(seed: int) -> Scenario:
    """Two peers are drained for good within a second, and announce no return; nothing else happens."""
    rng = random.Random(f"pairs {seed}")
    topology, size = rng.choice(("ring", "ring", "full", "star")), rng.randint(4, 7)
    pace, rounds = rng.choice((0.3, 1.0, 4.0)), 14
    at = rng.uniform(0.5, 0.4 * rounds * pace)
    first, second = rng.sample(range(size), 2)
    faults = tuple(
        Fault("drain", (rank,), round(time, 3), math.inf) for rank, time in ((first, at), (second, at + rng.random()))
    )
    return Scenario(seed, topology, size, rounds, pace=pace, faults=faults, announced=False, wait=60.0)


def _drains(rng: random.Random, kind: str, size: int, seconds: float) -> list[Fault]:
    at = rng.uniform(0, 0.8 * seconds)
    if kind == "together":
        return [Fault("drain", (rank,), round(at + rng.uniform(0, 1), 3), 1.0) for rank in range(size)]
    if kind == "good":
        return [Fault("drain", (rng.randrange(size),), round(at, 3), math.inf)]
    ranks = rng.sample(range(size), rng.randint(1, size)) + [rng.randrange(size)] * rng.randint(0, 2)
    faults = []
    for rank in ranks:
        faults.append(Fault("drain", (rank,), round(at, 3), round(rng.uniform(0.1, 20), 3)))
        at += rng.uniform(0, 15)
    return faults
