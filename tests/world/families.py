"""Registry of the families of drawn schedules, and the numbers by which one of each follows the other."""

import functools
from collections.abc import Callable

from tests.world.assemblies import generate_assembly
from tests.world.checking import report, why
from tests.world.crossings import generate_crossings
from tests.world.drains import generate_drains
from tests.world.epochs import generate_epochs, why_epochs
from tests.world.islands import generate_islands
from tests.world.overlaps import generate_overlaps
from tests.world.resets import generate_resets
from tests.world.restores import generate_restores
from tests.world.returns import generate_returns
from tests.world.scenario import Scenario, generate
from tests.world.speeds import generate_speeds

SCENARIOS: dict[str, Callable[[int], Scenario]] = {
    "faults": generate,
    "islands": generate_islands,
    "returns": generate_returns,
    "drains": generate_drains,
    "assemblies": generate_assembly,
    "speeds": generate_speeds,
    "crossings": generate_crossings,
    "overlaps": generate_overlaps,
    "restores": generate_restores,
    "resets": generate_resets,
}
"""Families whose schedules are a scenario each."""

FAMILIES: dict[str, Callable[[int], str | None]] = {
    **{name: functools.partial(lambda generated, seed: why(generated(seed)), found) for name, found in
       SCENARIOS.items()},
    "epochs": why_epochs,
}  # fmt: skip
"""The first violation in the schedule of a seed, or None, by family."""


def schedule(number: int, names: list[str]) -> tuple[str, int]:
    """Family and seed of a schedule: seed 0 of each of these families, then seed 1 of each, and so on."""
    return names[number % len(names)], number // len(names)


def shown(name: str, seed: int, problem: str) -> str:
    """A failure, with code that plays it again."""
    if name in SCENARIOS:
        return report(seed, problem, SCENARIOS[name](seed))
    scenario, changes = generate_epochs(seed)
    code = f"from tests.world.epochs import *\n\nprint(play(\n    {scenario},\n    {changes},\n))"
    return f"seed {seed}: {problem}\n\nto play it again:\n\n{code}"
