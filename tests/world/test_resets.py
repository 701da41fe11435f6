"""Resets in mid-body: drawn schedules, one whose bytes are counted, and rules without which bytes come twice."""

from dataclasses import replace

import pytest

from dpeer.peer.core import wire
from dpeer.peer.core.bodies import Inbox
from dpeer.peer.core.chunking import Reassembly
from dpeer.peer.core.exchange import Exchange
from dpeer.simulation.network import Conditions
from tests.thinning import every
from tests.world.checking import check, why
from tests.world.resets import CHUNK, RESETS, Reset, generate_resets
from tests.world.scenario import Scenario
from tests.world.world import World

CHUNKS = 16
LINE = Conditions(latency=(0.01, 0.01), capacity=2, chunk_bytes=CHUNK, keys=True, flushed=0.0)
ONCE = Scenario(1, "ring", 3, 6, conditions=LINE, resets=(Reset(0, 1, 90), Reset(1, 0, 170), Reset(2, 0, 110)))
"""The third, fifth and third body of three directions breaks in its middle."""


@pytest.mark.slow
@pytest.mark.parametrize("chunk", every(8, range(CHUNKS)))
def test_no_byte_that_has_come_is_sent_again(chunk):
    check(generate_resets, range(chunk, RESETS, CHUNKS))


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


def test_bytes_that_were_under_way_are_all_that_a_reset_costs(monkeypatch):
    """40 bytes are a body; without resets each of three peers sends two copies in each of six rounds."""
    world = World(ONCE).run()
    assert world.deliveries.happened == {*ONCE.resets}
    assert world.deliveries.bytes_again == 0
    least = 3 * 6 * 2 * 40
    assert body_bytes(World(replace(ONCE, resets=())).run()) == least
    whole = World(ONCE)
    what_is_said_is_not_heeded(monkeypatch)
    with pytest.raises(AssertionError, match="have come"):
        whole.run()
    assert least < body_bytes(world) < body_bytes(whole)


# -- mutations ---------------------------------------------------------------------------------------------------------


def nothing_is_said(patch):
    patch.setattr(wire, "holding", lambda bodies: b"")


def nothing_is_kept(patch):
    patch.setattr(Reassembly, "keep", Reassembly.forget)


def what_is_said_is_not_heeded(patch):
    patch.setattr(Exchange, "_held", lambda self, neighbor, number, frames: None)


def a_whole_body_is_not_mentioned(patch):
    patch.setattr(Inbox, "holds", lambda self, rank: {})


def one_chunk_too_few_is_sent(patch):
    held = Exchange._held

    def more(self, neighbor, number, frames):
        found = held(self, neighbor, number, frames)
        return found + CHUNK if found else found

    patch.setattr(Exchange, "_held", more)


def the_receiver_begins_anew(patch):
    patch.setattr(Reassembly, "_begun", lambda self, body, name: None)


MUTATIONS = {
    nothing_is_said: ONCE,
    nothing_is_kept: ONCE,
    what_is_said_is_not_heeded: ONCE,
    a_whole_body_is_not_mentioned: None,
    one_chunk_too_few_is_sent: ONCE,
    the_receiver_begins_anew: ONCE,
}
"""Broken rules, and a schedule that finds each; None: the drawn ones."""


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_a_mutation_is_found(mutation, monkeypatch):
    schedules = [MUTATIONS[mutation]] if MUTATIONS[mutation] else [generate_resets(seed) for seed in range(40)]
    mutation(monkeypatch)
    assert any(why(schedule) for schedule in schedules)
