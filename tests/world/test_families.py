"""Scenario families: the invariants in drawn schedules, and in schedules that failed once."""

import pytest

from tests.thinning import every
from tests.world.checking import SCHEDULES, check, why
from tests.world.families import FAMILIES

STEP = 4


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("first", every(SCHEDULES // STEP, range(0, SCHEDULES, STEP)))
def test_the_invariants_hold_in_drawn_schedules(first, family):
    """`make test` plays a few of each family, `make test-all` sixty times as many, `make soak` a thousand of each."""
    check(FAMILIES[family], range(first, first + STEP))


ONCE_WRONG = {
    ("islands", 11240): "a returner waits in the last round for a body of which word came before",
    ("islands", 32030): "a peer whose only sender is slow, and comes back, too, may end without it",
    ("returns", 1312): "a heartbeat that leaves before an entry is on disk names that entry",
    ("returns", 5154): "a returner waits for a neighbor that was killed with the last body",
    ("returns", 5299): "the same once more",
    ("returns", 959): "lost disks are stated once, and killed side by side",
    ("drains", 633): "all leave together, and one was stopped while the round before was still being written",
    ("drains", 20024): "the same once more",
    ("assemblies", 11116): "those that end wait for one that has come and waits for two that never come",
    ("speeds", 6147): "two slow peers of three on slow lines hold nobody up",
    ("crossings", 69): "a link that one end alone hears",
    ("crossings", 99): "the same on a changing graph",
    ("crossings", 146): "a peer that leaves while it meets the others",
    ("crossings", 6149): "a link on which no hello of one end arrives",
    ("restores", 6182): "a peer whose neighbors were left behind and have ended finds none",
    ("restores", 31048): "a release of which nobody knew when a copy was put back is not found after the next",
    ("restores", 3335): "a body that was cut on its way is made again: the copy comes back to the very round",
    ("members", 5153): "two lists of one number: one that moves by the list that never counts may end isolated",
    ("members", 166): "a peer between one that is dead and a newcomer that has not come may end isolated",
    ("members", 20157): "bodies of a neighbor that a list has taken away stay until their rounds are over",
    ("members", 437): "one that moves is the only way to neighbors that do not have the list",
    ("members", 154): "rounds that a list adds while the last checkpoint is written are not complete",
}
"""Family and seed, and what is so in it."""


@pytest.mark.parametrize(("family", "seed"), ONCE_WRONG)
def test_what_went_wrong_once_goes_well(family, seed):
    assert why(FAMILIES[family](seed)) is None, ONCE_WRONG[family, seed]
