"""Registry of the families of drawn schedules, and the numbers by which one of each follows the other."""

from collections.abc import Callable

from tests.world.assemblies import generate_assembly
from tests.world.crossings import generate_crossings
from tests.world.drains import generate_drains
from tests.world.islands import generate_islands
from tests.world.members import generate_members
from tests.world.resets import generate_resets
from tests.world.restores import generate_restores
from tests.world.returns import generate_returns
from tests.world.scenario import Scenario, generate
from tests.world.speeds import generate_speeds

FAMILIES: dict[str, Callable[[int], Scenario]] = {
    "faults": generate,
    "islands": generate_islands,
    "returns": generate_returns,
    "drains": generate_drains,
    "assemblies": generate_assembly,
    "speeds": generate_speeds,
    "crossings": generate_crossings,
    "restores": generate_restores,
    "resets": generate_resets,
    "members": generate_members,
}
"""What draws the scenario of a seed, by family."""


def schedule(number: int, names: list[str]) -> tuple[str, int]:
    """Family and seed of a schedule: seed 0 of each of these families, then seed 1 of each, and so on."""
    return names[number % len(names)], number // len(names)
