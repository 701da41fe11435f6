"""Resets in mid-body: drawn schedules, one whose bytes are counted, and broken rules that they find."""

from dataclasses import replace

import pytest

from dpeer.peer.core.bodies import Inbox, Outbox
from dpeer.peer.core.exchange import Exchange
from dpeer.simulation.network import Conditions
from tests.world.checking import found_in, why
from tests.world.resets import CHUNK, Reset, generate_resets
from tests.world.scenario import Scenario
from tests.world.world import World

LINE = Conditions(latency=(0.01, 0.01), capacity=2, chunk_bytes=CHUNK, keys=True, flushed=0.0)
ONCE = Scenario(1, "ring", 3, 6, conditions=LINE, resets=(Reset(0, 1, 90), Reset(1, 0, 170), Reset(2, 0, 110)))
"""The third, fifth and third body of three directions breaks in its middle."""


ONCE_WRONG = {
    47: "a late header on the other link",
    50: "the same in the first round",
    4649: "a body that is asked for anew, and word of the next round before it",
}


@pytest.mark.parametrize("seed", ONCE_WRONG, ids=ONCE_WRONG.values())
def test_what_went_wrong_once_where_neighbors_dial_each_other_goes_well(seed):
    assert why(replace(generate_resets(seed), crossed=True)) is None


def body_bytes(world):
    return sum(world.deliveries.written.values())


def test_a_reset_costs_at_most_one_body_each_way():
    """40 bytes are a body; without resets each of three peers sends two copies in each of six rounds."""
    world = World(ONCE).run()
    assert world.deliveries.happened == {*ONCE.resets}
    least = 3 * 6 * 2 * 40
    assert body_bytes(World(replace(ONCE, resets=(Reset(0, 1, 10**6),))).run()) == least
    assert least < body_bytes(world) <= least + 2 * 40 * len(ONCE.resets)


# -- mutations ---------------------------------------------------------------------------------------------------------


def what_was_under_way_is_not_sent_again(patch):
    patch.setattr(Exchange, "parted", lambda self, rank, unfinished: None)
    patch.setattr(Outbox, "ask", lambda self, rank, current_round: None)


def a_body_is_known_by_its_header(patch):
    wants = Inbox.wants

    def known(self, body):
        found = wants(self, body)
        self._digests.setdefault(body.rank, {}).setdefault(body.round, [body.digest])
        return found

    def put(self, body, received):
        self._rounds.setdefault(body.round, {})[body.rank] = received
        return True

    patch.setattr(Inbox, "wants", known)
    patch.setattr(Inbox, "put", put)


def bodies_are_sent_again_without_a_reset(patch):
    begin = Exchange.begin

    def begun(self, number):
        begin(self, number)
        for neighbor in self._members.all():
            self.outbox.ask(neighbor.rank, number - 1)

    patch.setattr(Exchange, "begin", begun)


MUTATIONS = [what_was_under_way_is_not_sent_again, a_body_is_known_by_its_header, bodies_are_sent_again_without_a_reset]

test_a_mutation_is_found = found_in("resets", dict.fromkeys(MUTATIONS, ONCE))
