"""A neighbor may send what it likes; what it costs has bounds."""

import pytest

from dpeer.peer.core import limits, wire
from dpeer.peer.core.effects import Throttle
from dpeer.peer.core.limits import RateLimiter
from dpeer.peer.transport import Arrival
from tests.peer.table import Table, chunked, payload, ring


def test_what_is_spent_comes_back_with_time_up_to_the_bound():
    allowance = RateLimiter(10.0, 5.0, 8)
    assert [allowance.spend("a", 2, 0.0) for _ in range(3)] == [True, True, False]
    assert allowance.spend("a", 1, 0.0)
    assert not allowance.spend("a", 1, 0.05)
    assert allowance.spend("a", 1, 0.11)
    assert allowance.spend("a", 5, 100.0)
    assert not allowance.spend("a", 0.1, 50.0), "a clock that goes back gives nothing"
    allowance.earn("a", 3)
    assert [allowance.spend("a", 3, 100.0), allowance.spend("a", 1, 100.0)] == [True, False]


def test_each_sender_has_its_tokens_and_the_oldest_is_forgotten():
    allowance = RateLimiter(0.0, 1.0, 2)
    assert [allowance.spend(who, 1, 0.0) for who in "abab"] == [True, True, False, False]
    assert allowance.spend("c", 1, 0.0)
    assert allowance.spend("a", 1, 0.0), "forgotten, as it was heard before b"
    allowance.earn("nobody", 1)


def excess(table, link, *messages):
    """How many of the messages are one too many."""
    found = 0
    for message in messages:
        frames = message if isinstance(message, list) else wire.encode(message)
        effects = table.core.happened(Arrival(link, frames), table.now)
        found += sum(isinstance(effect, Throttle) for effect in effects)
    return found


def test_heartbeats_without_end_are_late_and_not_lost():
    table = ring()
    assert excess(table, "from 2", *[table.beat(2, 0)] * 3000) == 3000 - limits.AT_ONCE - 1, "the first one is news"
    assert excess(table, "from 2", table.beat(2, 1)) == 1
    assert table.core.members[2].current_round == 1
    assert not table.core.reports.counts


def test_costly_messages_are_dropped_and_counted_and_logged_once():
    table = ring()
    large = [bytes(limits.HEADER_UNIT)]
    table.hear("from 2", *[large] * 3000)
    assert table.core.reports.counts == {"malformed": 500, "too-many": 2500}
    line = table.events("message-dropped")[-1]
    assert line.fields == {"reason": "too-many", "neighbor": 2}
    assert "see what runs there" in line.message


def test_others_are_heard_and_the_sender_is_again_when_it_has_been_quiet():
    table = ring()
    excess(table, "from 2", *[table.beat(2, 0)] * 3000)
    assert excess(table, table.links[1], table.beat(1, 0)) == 0
    table.now += 1
    assert excess(table, "from 2", *[table.beat(2, 0)] * 200) == 100


@pytest.mark.slow
def test_bodies_that_are_used_pay_for_all_that_belongs_to_them():
    """However quick the rounds are: no time passes here."""
    table = ring(rounds=300)
    for number in range(300):
        table.runs(number)
        for link, rank in ((table.links[1], 1), ("from 2", 2)):
            several = [
                table.beat(rank, number),
                *chunked(table.body(rank, number), 64),
                table.beat(rank, number + 1),
            ]
            assert excess(table, link, *several) == 0
    assert not table.core.reports.counts


def test_chunks_that_belong_to_nothing_are_counted_and_not_hurried():
    table = ring()
    stray = list(wire.chunk(b"t" * 8, 0, bytes(64)))
    assert excess(table, "from 2", *[stray] * 1500) == 500
    assert table.core.reports.counts == {"stray": 1500}
    table.runs(0)
    several = list(chunked(table.body(2, 0), 64))
    table.now += 1
    excess(table, "from 2", *several)
    assert table.inbox.has(2, 0)


def test_bodies_that_come_again_and_again_are_read_slowly():
    table = ring()
    table.runs(0)
    table.hear("from 2", *chunked(table.body(2, 0), 64))
    again = list(chunked(table.body(2, 0), 64))
    assert excess(table, "from 2", *again * 3) == 0
    assert 0 < excess(table, "from 2", *again * 2) < 2 * len(again) - 2
    assert table.inbox.dropped == {"duplicate": 5}


def test_further_hellos_on_a_link_are_costly():
    table = ring()
    table.hear("from 2", *[table.hello(2)] * 50)
    assert table.core.reports.counts == {"too-many": 50 - 9}
    table.now += 2
    table.hear("from 2", table.hello(2))
    assert table.core.reports.counts == {"too-many": 50 - 9}


def test_large_headers_are_dear():
    table = ring()
    large = table.hello(2).model_copy(update={"manifest": {"x": "x" * (2**20 - 2**16)}})
    table.hear("from a stranger", *[large] * 10)
    assert table.core.reports.counts["too-many"] == 10 - 4


def test_one_that_comes_and_goes_writes_few_lines():
    table = Table(authenticated=True)
    for number in range(1000):
        link = f"from 2, {number}"
        table.hear(link, table.hello(2), identity=2)
        table.hear(link, table.goodbye(2, "failed"), identity=2)
        table.breaks(link)
        table.now += 0.01
    assert 5 <= len(table.said) <= (limits.AT_ONCE + 10 * limits.EACH_SECOND) / limits.LINE
    assert not table.core.reports.counts


@pytest.mark.parametrize("count", [1, 17, 33])
def test_many_frames_are_dear(count):
    assert wire.cost([b"x"] * count) == 1 + count // 16


def test_nothing_costs_as_much_as_a_message():
    assert wire.cost([]) == 1
    assert wire.cost([bytes(2**16), payload(1.0, ring().learner)]) == 17
