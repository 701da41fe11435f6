"""Checks of drawn scenarios: `why` plays one, `check` many, and `shrink` makes one that fails smaller.

Later draws change when a fault is left out, so this tries; it need not end at the smallest.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from dpeer.simulation.network import Conditions
from tests.world.families import FAMILIES
from tests.world.members import MemberScenario, MemberWorld
from tests.world.scenario import Scenario
from tests.world.world import World

SCHEDULES = 240
"""Schedules of each family, from seed 0 on, in the test suite."""


def world_of(scenario: Scenario, **how: bool) -> World:
    """The world that plays a scenario."""
    return (MemberWorld if isinstance(scenario, MemberScenario) else World)(scenario, **how)


def why(scenario: Scenario) -> str | None:
    """The first violation in a scenario; None if all invariants hold."""
    try:
        world_of(scenario).run()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def shrink(scenario: Scenario, fails: Callable[[Scenario], object] = why, tries: int = 150) -> Scenario:
    """The smallest scenario found that fails, too.

    Args:
        scenario: A scenario that fails.
        fails: Whether a scenario fails.
        tries: The most scenarios that are played.
    """
    seen = {scenario}
    smaller = True
    while smaller:
        smaller = False
        for candidate in _simpler(scenario):
            if candidate in seen:
                continue
            if len(seen) > tries:
                return scenario
            seen.add(candidate)
            if fails(candidate):
                scenario, smaller = candidate, True
                break
    return scenario


def _simpler(scenario: Scenario) -> Iterator[Scenario]:
    faults = scenario.faults
    half = len(faults) // 2
    for kept in (faults[:half], faults[half:], *(faults[:i] + faults[i + 1 :] for i in range(len(faults)))):
        yield replace(scenario, faults=kept)
    if isinstance(scenario, MemberScenario):
        for i in range(len(scenario.changes)):
            yield replace(scenario, changes=scenario.changes[:i] + scenario.changes[i + 1 :])
    for i in range(len(scenario.resets)):
        yield replace(scenario, resets=scenario.resets[:i] + scenario.resets[i + 1 :])
    yield replace(scenario, hidden=())
    yield replace(scenario, participation=1.0)
    plain = Conditions()
    for name in ("latency", "capacity", "chunk_bytes", "redial", "notice", "listener_told", "flushed"):
        yield replace(scenario, conditions=replace(scenario.conditions, **{name: getattr(plain, name)}))
    highest = max((rank for fault in faults for rank in fault.ranks), default=0)
    if scenario.topology in ("ring", "full", "star", "one-way") and scenario.size > max(3, highest + 1):
        yield replace(scenario, size=scenario.size - 1, hidden=())
    if scenario.rounds > 1:
        yield replace(scenario, rounds=scenario.rounds - 1)
    for index, fault in enumerate(faults):
        for name in ("at", "seconds"):
            value = getattr(fault, name)
            if value < float("inf") and value != round(value):
                rounder = replace(fault, **{name: float(round(value))})
                yield replace(scenario, faults=(*faults[:index], rounder, *faults[index + 1 :]))


def found_in(family: str, mutations: Mapping[Callable[[Any], None], Scenario | int]) -> Callable[..., None]:
    """The test that schedules of a family find each of these mutations, which break a rule.

    Args:
        family: Its name.
        mutations: With the seed that found each when it was written, or a schedule made for it, which is played first.
    """

    @pytest.mark.slow
    @pytest.mark.parametrize("mutation", mutations, ids=lambda mutation: mutation.__name__)
    def found(mutation: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch) -> None:
        first, generate = mutations[mutation], FAMILIES[family]
        scenario = first if isinstance(first, Scenario) else generate(first)
        assert scenario is not first or why(scenario) is None, "a schedule that is made for it ends well without it"
        mutation(monkeypatch)
        problem = why(scenario)
        wrong = re.search(r"(Type|Attribute|Name|Index)Error|unhandled", problem or "")
        assert not wrong, f"the mutation does not break a rule, but the code: {problem}"
        assert problem or any(why(generate(seed)) for seed in range(SCHEDULES))

    return found


def report(seed: int, problem: str, scenario: Scenario) -> str:
    """The report of a seed that fails: the violation, and a smaller scenario as code that plays it again."""
    small = shrink(scenario)
    return (
        f"seed {seed}: {problem}\n\nshrunk to {len(small.faults)} of {len(scenario.faults)} faults, which gives\n"
        f"{why(small)}\n\nto play it again:\n\n"
        "from math import inf\n"
        "from tests.world.faults import Fault\n"
        "from dpeer.simulation.network import Conditions\n"
        "from tests.world.checking import world_of\n"
        "from tests.world.members import Change, MemberScenario\n"
        "from tests.world.resets import Reset\n"
        "from tests.world.scenario import Scenario\n"
        f"\nworld_of({small!r}, log=True).print_log()\n"
    )


def check(generate: Callable[[int], Scenario], seeds: Iterable[int]) -> None:
    """Play the scenario of each seed; the first one that fails is reported.

    Raises:
        AssertionError: One fails; with its report.
    """
    for seed in seeds:
        scenario = generate(seed)
        problem = why(scenario)
        assert problem is None, report(seed, str(problem), scenario)
