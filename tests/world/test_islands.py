"""Which part of a divided federation goes on: no island runs ahead, and after the cuts all train together again."""

import pytest

from dpeer.peer.waiting import Waiting
from tests.world.faults import Fault
from tests.world.scenario import Scenario
from tests.world.world import Violation, World


@pytest.mark.parametrize("seconds", [5.0, 20.0, 40.0, 120.0])
def test_a_site_whose_line_drops_pauses_and_trains_with_the_others_again(seconds):
    """One of four, rounds of half a second: before, most rounds had no exchange anywhere after the cut."""
    world = World(Scenario(1, "ring", 4, 120, pace=0.5, faults=(Fault("part", (3,), 10.0, seconds),))).run()
    nothing = [(rank, number) for (rank, number), heard in world.used.items() if not heard]
    assert {rank for rank, _ in nothing} <= {3}
    assert len(nothing) <= 1
    if seconds < 60:  # else the others have ended
        assert all(life.outcome.status == "done" for life in world.present)
        assert all(len(world.used[rank, 119]) == 2 for rank in range(4))


def test_an_island_that_may_advance_is_found(monkeypatch):
    """The same with the rule left out: the lone site runs rounds ahead of what a quorum has completed."""
    monkeypatch.setattr(Waiting, "_held", lambda self, number: None)
    with pytest.raises(Violation, match="begins round"):
        World(Scenario(1, "ring", 4, 120, pace=0.5, faults=(Fault("part", (3,), 10.0, 40.0),))).run()
