"""Schedules of unequal speeds: some ranks take many times as long, and have a budget for each round."""

import math
import random

from dpeer.exceptions import TopologyError
from dpeer.simulation.network import Conditions
from tests.world.faults import Fault
from tests.world.scenario import STATIC, Scenario, graphs


def generate_speeds(seed: int) -> Scenario:
    """The scenario of a seed."""
    rng = random.Random(f"speeds {seed}")
    size, rounds = rng.randint(3, 6), rng.randint(12, 24)
    topology = rng.choice(STATIC)
    try:
        graphs(topology, size, 1.0)
    except TopologyError:  # not of this size
        topology = "ring"
    found = rng.random() < 0.4
    # One of a slow peer's ten steps ends before the deadline, and all of them after it. Where the budget is found, a
    # step is no longer than a neighbor's round: else the peer would run behind whatever it leaves out.
    deadline, most = rng.choice(
        ((None, 10), (4.0, 10)) if found else ((None, 60), ("auto", 250), (8.0, 30), (15.0, 60))
    )
    slow = sorted(rng.sample(range(size), rng.choice((1, 1, 2))))
    times = [round(rng.uniform(0.5 * most, most), 1) for _ in slow]
    faults = [Fault("slow", (rank,), 0.0, math.inf, times=factor) for rank, factor in zip(slow, times, strict=True)]
    if rng.random() < 0.4:
        faults.append(Fault("crash", (rng.choice(slow),), round(rng.uniform(3, 20), 2), round(rng.uniform(0, 2), 2)))
    budgets = tuple((rank, "auto" if found else rng.choice((0.7, 1.5, 3.0))) for rank in slow)
    conditions = Conditions(latency=(0.001, rng.choice((0.002, 0.3))), chunk_bytes=rng.choice((None, 16)))
    return Scenario(
        seed, topology, size, rounds, wait=300.0, deadline=deadline, disk=(0.0, 0.002), budgets=budgets,
        conditions=conditions, faults=tuple(faults),
    )  # fmt: skip
