"""Schedules of cuts: islands of every size, at unequal speeds, that heal and are cut off again."""

import math
import random

from tests.world.faults import Fault
from tests.world.scenario import Scenario, drawn_links, drawn_topology


def generate_islands(seed: int) -> Scenario:
    """The scenario of a seed."""
    rng = random.Random(f"islands {seed}")
    size, rounds, pace = rng.randint(2, 8), rng.randint(20, 60), rng.choice((0.5, 1.0, 2.0))
    topology = drawn_topology(rng, size)
    conditions = drawn_links(rng)
    return Scenario(
        seed, topology, size, rounds, pace=pace, wait=300.0, conditions=conditions, faults=tuple(_faults(rng, size))
    )


def _faults(rng: random.Random, size: int) -> list[Fault]:
    faults = []
    if rng.random() < 0.4:  # unequal speeds all the while
        faults.append(Fault("slow", (rng.randrange(size),), 0.0, 150.0, times=rng.choice((2.0, 4.0))))
    at = rng.uniform(2, 12)
    island = _some(rng, size)
    for _ in range(rng.choice((1, 1, 2, 3))):
        lasts = rng.uniform(5, 60)
        kind = rng.random()
        if kind < 0.6:
            faults.append(Fault("part", island, round(at, 2), round(lasts, 2)))
        elif kind < 0.75:  # heard, and not answered
            pairs = [(one, other) for one in island for other in range(size) if other not in island]
            faults += [Fault("stall", pair, round(at, 2), round(lasts, 2)) for pair in pairs]
        elif kind < 0.9:
            faults += [Fault("stop", (rank,), round(at, 2), round(lasts, 2)) for rank in island]
        else:
            seconds = rng.choice((lasts, lasts, math.inf))
            faults += [Fault("power", (rank,), round(at, 2), round(seconds, 2)) for rank in island]
        at += lasts * rng.uniform(0.3, 1.2) + rng.uniform(0, 20)
        if rng.random() < 0.5:  # else the same ones are cut off again
            island = _some(rng, size)
    return faults


def _some(rng: random.Random, size: int) -> tuple[int, ...]:
    return tuple(sorted(rng.sample(range(size), rng.randint(1, size - 1))))
