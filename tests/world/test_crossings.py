"""Neighbors that dial each other both: drawn schedules, and rules without which they write on two connections."""

import pytest

from dpeer.peer.core.links import Links
from tests.thinning import every
from tests.world.checking import check, why
from tests.world.crossings import CROSSINGS, generate_crossings
from tests.world.faults import Fault
from tests.world.scenario import Scenario
from tests.world.world import World

CHUNKS = 16


@pytest.mark.slow
@pytest.mark.parametrize("chunk", every(8, range(CHUNKS)))
def test_the_invariants_hold_where_neighbors_dial_each_other(chunk):
    check(generate_crossings, range(chunk, CROSSINGS, CHUNKS))


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(69, id="a link that one end alone hears"),
        pytest.param(99, id="the same on a changing graph"),
        pytest.param(146, id="a peer that leaves while it meets the others"),
    ],
)
def test_what_went_wrong_once_goes_well(seed):
    assert why(generate_crossings(seed)) is None


@pytest.mark.parametrize("topology", ["ring", "full"])
def test_without_faults_all_mix_with_all_from_the_first_round_on(topology):
    """Bits are compared; no body comes on a link that its receiver does not read."""
    scenario = Scenario(1, topology, 5, 10, crossed=True)
    world = World(scenario).run()
    assert all(world.used[rank, 0] == list(scenario.graphs.at(0, rank).in_neighbors) for rank in range(5))
    assert not any(life.peer.core.drops.counts for life in world.present)


# -- mutations ---------------------------------------------------------------------------------------------------------


def each_writes_on_its_own_link(patch):
    patch.setattr(Links, "chosen", lambda self, *, lower: self.dialled or self.accepted)


def the_other_link_is_another_process(patch):
    patch.setattr(Links, "is_of", lambda self, process: False)


MUTATIONS = {
    each_writes_on_its_own_link: Scenario(1, "ring", 4, 20, crossed=True),
    the_other_link_is_another_process: Scenario(
        1, "ring", 4, 20, crossed=True, faults=(Fault("cut", (0, 1), 5.0, 1.0),)
    ),
}
"""Broken rules, and a schedule that finds each."""


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_a_mutation_is_found(mutation, monkeypatch):
    assert why(MUTATIONS[mutation]) is None
    mutation(monkeypatch)
    assert why(MUTATIONS[mutation])
