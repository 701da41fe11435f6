"""Schedules of assemblies: ranks come over a long time, leave, come again, some with other settings at first."""

import math
import random

from tests.world.faults import Fault
from tests.world.scenario import Scenario, drawn_links, drawn_topology, graphs

_SHOWN = 40.0
"""Seconds after which a rank that has come may leave again."""


def generate_assembly(seed: int) -> Scenario:
    """The scenario of a seed."""
    rng = random.Random(f"assembly {seed}")
    size, rounds = rng.randint(2, 8), rng.randint(3, 8)
    topology = drawn_topology(rng, size)
    found = graphs(topology, size, 1.0)
    lasts = rng.choice((60.0, 600.0, 600.0, 2000.0))
    arrivals = [round(rng.uniform(0, lasts), 2) for _ in range(size)]
    quorum = rng.randint(size // 2 + 1, size) if rng.random() < 0.5 else "majority"
    if isinstance(quorum, int) and quorum < size and rng.random() < 0.5:
        never = rng.randint(1, size - quorum + (rng.random() < 0.2))  # perhaps too many
        for rank in rng.sample(range(size), never):
            arrivals[rank] = math.inf
    here = [rank for rank in range(size) if arrivals[rank] < math.inf]
    mistaken = ()
    if len(here) == size and rng.random() < 0.3:
        late = [
            rank for rank in here
            if any(arrivals[other] + _SHOWN < arrivals[rank] for other in found.connections(rank, rounds))
        ]  # fmt: skip
        mistaken = tuple(rng.sample(late, 1)) if late else ()
    conditions = drawn_links(rng)
    return Scenario(
        seed, topology, size, rounds, wait=4000.0, conditions=conditions, quorum=quorum, arrivals=tuple(arrivals),
        pace=rng.choice((1.0, 1.0, 20.0)), mistaken=mistaken,
        faults=tuple(_faults(rng, size, arrivals, lasts, mistaken)),
    )  # fmt: skip


def _faults(rng, size, arrivals, lasts, mistaken) -> list[Fault]:
    """Restarts of those that have come and lines that are cut, while the others are still to come."""
    faults = []
    for _ in range(rng.choice((0, 1, 2, 4))):
        rank = rng.randrange(size)
        at = round(rng.uniform(0, lasts), 2)
        seconds = round(rng.choice((rng.uniform(0, 3), rng.uniform(3, 60), rng.uniform(60, 400))), 2)
        if rng.random() < 0.4:
            island = tuple(sorted(rng.sample(range(size), rng.randint(1, size - 1))))
            faults.append(Fault("part", island, at, seconds))
        elif arrivals[rank] + _SHOWN < at and rank not in mistaken:
            faults.append(Fault(rng.choice(("crash", "power")), (rank,), at, seconds))
    return faults
