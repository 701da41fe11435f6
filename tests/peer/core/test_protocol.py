"""The core by itself: its waits, deadlines, and dialling."""

import pytest

from dpeer.exceptions import Drained, PeersMissing
from dpeer.peer.core import wire
from dpeer.peer.core.effects import Deliver, Fail, Wake
from tests.peer.table import Table, ring


def beats(table, *ranks, number=0):
    """Heartbeats of these ranks in a round."""
    for rank in ranks:
        table.hear(table.links[rank], table.beat(rank, number))


@pytest.fixture
def joining():
    """A peer that resumes at round 4 and waits for both neighbors, which it has dialled."""
    table = Table(dialled=[1, 2], rounds=10, start=4, wait=300.0)
    for rank in (1, 2):
        table.established(rank)
    table.do(table.core.wait("meet", 0, table.now))
    return table


def test_a_peer_that_is_restarted_where_all_have_been_there_waits_for_the_dead_for_a_minute(joining):
    joining.wait(100)
    joining.hear(joining.links[1], joining.hello(1, 9, reply=True, presence=[4, 9, 6]))
    joining.wait(59, lambda: beats(joining, 1, number=9))
    assert not joining.ended
    joining.wait(1, lambda: beats(joining, 1, number=9))
    assert joining.ended == [Wake()]
    assert (joining.status(2), joining.core.members[2].why_away) == ("dead", "did not appear")


def test_when_all_are_resumed_every_neighbor_is_waited_for(joining):
    joining.hear(joining.links[1], joining.hello(1, 5, reply=True))
    joining.wait(299, lambda: beats(joining, 1, number=5))
    assert not joining.ended
    joining.wait(1, lambda: beats(joining, 1, number=5))
    (end,) = joining.ended
    assert isinstance(end, Fail)
    assert isinstance(end.error, PeersMissing)
    assert str(end.error).startswith("rank 2 (connected, but its hello does not come: ")
    assert " did not appear within 300 s (--wait): " in str(end.error)


def test_a_round_names_the_ranks_it_waits_for_less_and_less_often():
    table = ring()
    table.links[2] = "from 2"
    table.runs(0)
    for seconds, count in ((29, 0), (1, 1), (200, 3)):
        table.wait(seconds, lambda: beats(table, 1, 2))
        assert len(table.events("waiting")) == count
    first = table.events("waiting")[0].message
    assert first.startswith("round 1 has been waiting for rank 1 (in round 1), rank 2 (in round 1)")
    assert not table.ended
    assert table.core.waiting.ranks(table.now) == [1, 2]


@pytest.mark.parametrize(("there", "awaited"), [(2, [1, 2]), (1, [1, 2]), (0, [1])])
def test_with_a_deadline_a_round_goes_on_without_one_that_hangs_and_takes_it_back(there, awaited):
    """In round 2, once it is in the one before: it may hear of this peer's rounds later than this peer begins them."""
    table = ring(deadline=20.0)
    table.links[2] = "from 2"
    for number in (0, 1):
        table.do(table.core.begin(number, table.now))
        table.releases(number)
        table.hear(table.links[1], table.body(1, number))
        table.do(table.core.wait("collect", number, table.now))
        if number == 0:
            table.wait(19, lambda: beats(table, 1, 2))
            assert not table.ended, "the first round waits, the second knows that rank 2 hangs"
            table.wait(1, lambda: beats(table, 1, 2))
        assert [*table.ended.pop().bodies] == [1]
        beats(table, 1, number=number + 1)
        table.do(table.core.wait("settle", number, table.now))
        assert isinstance(table.ended.pop(), Wake)
    assert table.core.members.lost == {2: "sent nothing within 20 s (--deadline)"}
    beats(table, 2, number=there)
    table.runs(2)
    assert table.core.waiting.ranks(table.now) == awaited


@pytest.mark.parametrize(
    ("stopped", "again"),
    [(-3, False), (-1, True), (1, True), (7, True)],
    ids=["before its grace", "a moment before", "while the round before is written", "during the round"],
)
def test_a_peer_that_leaves_discards_a_round_that_waits_for_one_that_has_just_left(stopped, again):
    """Seconds from where the round begins: both run it again. That of one that left long before is complete."""
    table = ring(start=1, rounds=9)
    table.links[2] = "from 2"
    beats(table, 1, 2, number=1)
    entered = table.now + 4
    table.do(table.core.drain(table.now))

    def until(at):
        """Rank 1 is heard, and rank 2 until it leaves."""
        while table.now < entered + at:
            if table.now == entered + stopped:
                table.hear("from 2", table.goodbye(2, "stopped"))
            elif table.now < entered + stopped:
                beats(table, 2, number=1)
            table.wait(1, lambda: beats(table, 1, number=1))

    until(0)
    table.do(table.core.enter(1, table.now))
    until(5)
    table.do(table.core.begin(1, table.now))
    until(8)
    table.releases(1)
    table.hear(table.links[1], table.body(1, 1))
    assert table.status(2) == "gone"
    table.do(table.core.wait("collect", 1, table.now))
    (end,) = table.ended
    if again:
        assert isinstance(end, Fail)
        assert isinstance(end.error, Drained)
    else:
        assert isinstance(end, Deliver)
        assert [*end.bodies] == [1]


@pytest.mark.parametrize("begun", [1000.0, 1086.380990815057], ids=["whole seconds", "seconds that are rounded"])
def test_a_returner_whom_no_neighbor_can_help_sleeps_between_its_looks_and_ends(begun):
    """A timer in the past would be due for ever: the process would turn, and hear no message."""
    table = Table(wait=100.0, start=1)
    table.now, core = begun, table.core
    for rank in (1, 2):
        table.hear(f"from {rank}", table.hello(rank, 3))
    for number in (1, 2, 3):
        table.do(core.begin(number, table.now))
        assert core.behind(number)
        table.do(core.wait("collect", number, table.now))
    for rank in (1, 2):
        core.members.give_up(rank)
    assert [one.number for one in table.ended] == [1, 2]
    table.ended.clear()
    looks = 0
    while not table.ended and looks < 200:
        table.now, looks = max(table.now, core.next_tick(table.now)), looks + 1
        table.do(core.tick(table.now))
    (ended,) = table.ended
    assert str(ended.error) == "no neighbor had a body for its return for 100 s (--wait)"
    assert looks < 150, "a heartbeat a second, and little more"


def test_silent_neighbors_are_dialled_again_less_and_less_often():
    table = Table(dialled=[1])
    table.established(1)
    dialled = []
    for second in range(1, 400):
        link = table.links[1]
        table.wait(1)
        if table.links[1] != link:
            dialled.append(second)
            assert table.closed[-1] == link
    assert dialled == [15, 45, 105, 165, 225, 285, 345]


@pytest.mark.parametrize(("released", "held_up"), [(True, [1, 2]), (False, [])])
def test_a_round_ends_before_neighbors_have_the_one_before_where_nothing_was_released_in_that(released, held_up):
    """A returner passes slow neighbors on its way to those who are ahead."""
    table = ring(rounds=9)
    if released:
        table.runs(0)
    assert table.core.exchange.unsettled(1, table.now) == held_up


def test_bytes_are_counted_by_neighbor():
    table = ring(rounds=9)
    before = [(one.bytes_sent, one.bytes_received) for one in table.core.members.all()]
    table.runs(0)
    sent = 0
    while (frames := table.core.outgoing("from 2")) is not None:
        sent += wire.size(frames)
        table.core.taken("from 2")
    body = table.body(2, 0)
    table.hear("from 2", body)
    found = [(one.bytes_sent, one.bytes_received) for one in table.core.members.all()]
    assert found[0] == before[0], "nothing was written to rank 1, or came from it"
    assert found[1][1] - before[1][1] == wire.size(body)
    assert 0 < found[1][0] - before[1][0] == sent
