"""Neighbors that dial each other both: drawn schedules, and rules without which they write on two connections."""

import pytest

from dpeer.peer.core.connection_setup import ConnectionSetup
from tests.world.checking import found_in
from tests.world.scenario import Scenario
from tests.world.world import World


@pytest.mark.parametrize("topology", ["ring", "full"])
def test_without_faults_all_mix_with_all_from_the_first_round_on(topology):
    """Bits are compared; no body comes on a link that its receiver does not read."""
    scenario = Scenario(1, topology, 5, 10, crossed=True)
    world = World(scenario).run()
    assert all(world.used[rank, 0] == list(scenario.graphs.at(0, rank).in_neighbors) for rank in range(5))
    assert not any(life.peer.core.reports.counts for life in world.present)


# -- mutations ---------------------------------------------------------------------------------------------------------


def each_writes_on_its_own_link(patch):
    patch.setattr(ConnectionSetup, "_is_second", lambda self, link, rank: link not in self.dialling)


def the_other_link_is_not_given_up(patch):
    take = ConnectionSetup._take_link

    def keeps(self, neighbor, link):
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(self, "give_up", lambda rank: [])
            take(self, neighbor, link)

    patch.setattr(ConnectionSetup, "_take_link", keeps)


MUTATIONS = dict.fromkeys(
    (each_writes_on_its_own_link, the_other_link_is_not_given_up), Scenario(1, "ring", 4, 20, crossed=True)
)

test_a_mutation_is_found = found_in("crossings", MUTATIONS)
