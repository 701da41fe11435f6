"""Schedules of crossed links: scenarios of other families in which both neighbors dial: each link has a twin."""

import random
from dataclasses import replace

from tests.world.drains import generate_drains
from tests.world.islands import generate_islands
from tests.world.returns import generate_returns
from tests.world.scenario import Scenario, generate


def generate_crossings(seed: int) -> Scenario:
    """The scenario of a seed."""
    rng = random.Random(f"crossings {seed}")
    scenario = rng.choice((generate, generate, generate_islands, generate_returns, generate_drains))(seed)
    conditions = replace(scenario.conditions, keys=rng.random() < 0.5)
    return replace(scenario, conditions=conditions, crossed=True, hidden=())
