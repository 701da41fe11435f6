"""The wait for the start: who has come, who is named as missing and how often, and a neighbor with other settings."""

import numpy as np
import pytest

from dpeer.exceptions import PeersMissing, Refused
from dpeer.peer.core.effects import Fail, Wake
from dpeer.peer.core.wait import LONG_WAIT
from dpeer.peer.transport import Unreachable
from dpeer.topology import build
from tests.peer.table import BEAT, Table

WEEK = 7 * 86400.0
OTHER = {"size": 4, "rounds": 6}


def there(*ranks, size=4):
    """A table in which these ranks have been there."""
    return np.array([0 if rank in ranks else -1 for rank in range(size)], "<i4").tobytes()


def assembling(**options):
    """Rank 0 of a ring of four: it dials 1, rank 3 dials it, and rank 2 is no neighbor."""
    table = Table(topology=build("ring", 4), dialled=[1], fingerprint={"size": 4, "rounds": 5}, **options)
    table.established(1)
    table.do(table.core.wait("meet", 0, table.now))
    return table


def hello(table, rank, *ranks, reply=False, **fields):
    """A hello of a rank that knows that these ranks have been there."""
    return table.hello(rank, reply=reply).model_copy(update={"presence": there(*ranks), **fields})


def both_neighbors_come(table):
    """Both neighbors come, and know themselves alone."""
    table.hear(table.links[1], hello(table, 1, 1, reply=True))
    table.hear("from 3", hello(table, 3, 3))


# -- the start ---------------------------------------------------------------------------------------------------------


def test_a_peer_whose_neighbors_are_there_waits_for_word_of_the_others():
    table = assembling()
    both_neighbors_come(table)
    table.wait(100, lambda: table.hear("from 3", table.beat(3, 0, presence=[-1, 0, -1, 0])))
    assert table.ended == []
    assert table.core.round_clock.absent == [2]
    assert table.core.waiting.present(table.now).ranks == {2: "has not been there"}
    table.hear("from 3", table.beat(3, 0, presence=[0, 0, 0, 0]))
    assert table.ended == [Wake()]


def test_word_of_one_that_has_come_is_passed_on_before_the_next_heartbeat():
    table = assembling()
    both_neighbors_come(table)
    table.now += 0.5
    table.do(table.core.tick(table.now))
    table.written(table.links[1])
    table.hear("from 3", table.beat(3, 0, presence=[-1, -1, 0, 0]))
    table.do(table.core.tick(table.core.next_tick(table.now)))
    (beat,) = [one for one in table.written(table.links[1]) if one.kind == "heartbeat"]
    assert beat.presence == there(0, 1, 2, 3)


def test_a_peer_that_is_restarted_knows_all_who_were_there_with_the_first_hello_of_any_neighbor():
    table = assembling()
    table.hear(table.links[1], hello(table, 1, 0, 1, 3, reply=True))
    assert (table.core.round_clock.there, table.core.round_clock.absent) == ([0, 1, 3], [2])
    table.hear(table.links[1], table.beat(1, 0, presence=[0, 0, 0, 0]))
    table.hear("from 3", hello(table, 3, 3))
    assert table.ended == [Wake()]


def test_where_three_are_enough_a_neighbor_that_has_not_come_is_given_up_after_a_minute():
    table = assembling(quorum=3)
    table.hear(table.links[1], hello(table, 1, 1, 2, reply=True))
    table.wait(59, lambda: table.hear(table.links[1], table.beat(1, 0)))
    assert table.ended == []
    table.wait(2, lambda: table.hear(table.links[1], table.beat(1, 0)))
    assert table.ended == [Wake()]
    assert table.status(3) == "dead"


def test_where_all_are_needed_one_that_has_stopped_before_the_start_is_waited_for():
    table = assembling(wait=1000.0)
    both_neighbors_come(table)
    table.hear("from 3", table.goodbye(3, "failed"))
    table.wait(500, lambda: table.hear(table.links[1], table.beat(1, 0, presence=[0, 0, 0, 0])))
    assert table.ended == []
    table.hear("again from 3", hello(table, 3, 3))
    assert table.ended == [Wake()]


def test_where_the_others_run_rounds_one_that_has_stopped_is_given_up_after_a_minute():
    table = assembling(wait=1000.0)
    both_neighbors_come(table)
    table.hear("from 3", table.goodbye(3, "failed"))
    table.wait(61, lambda: table.hear(table.links[1], table.beat(1, 2, presence=[0, 2, 2, 0])))
    assert table.ended == [Wake()]


def test_after_the_wait_whoever_is_missing_is_named_with_the_trouble():
    table = assembling(wait=WEEK)
    table.do(table.core.happened(Unreachable(table.links[1], "connection refused"), table.now))
    table.now += WEEK
    table.do(table.core.tick(table.now))
    (end,) = table.ended
    assert isinstance(end, Fail)
    assert isinstance(end.error, PeersMissing)
    assert str(end.error).startswith(
        "ranks 1 (connection refused), 2, 3 did not appear within 7.0 days (--wait): start them"
    )


def test_a_neighbor_whose_connection_stands_without_a_hello_is_named_with_the_mtu():
    """The handshake of the connection has passed, and a hello is longer than a packet."""
    table = assembling()
    table.wait(BEAT.suspect_after - 1)
    assert table.core.waiting.present(table.now).ranks[1] == "not heard yet"
    table.wait(2)
    why = table.core.waiting.present(table.now).ranks[1]
    assert "short messages pass, long ones may not (MTU of the path?)" in why
    assert "dpeer check --connect --within 60" in why
    table.hear(table.links[1], hello(table, 1, 1, reply=True))
    assert 1 not in table.core.waiting.present(table.now).ranks
    assert table.core.members[1].trouble_dialling == ""


def test_a_neighbor_that_is_not_connected_has_no_trouble_with_long_messages():
    away = Table(topology=build("ring", 4), dialled=[1])
    away.do(away.core.wait("meet", 0, away.now))
    away.wait(2 * BEAT.suspect_after - 1)
    assert away.core.waiting.present(away.now).ranks[1] == "not heard yet"


# -- lines of the log --------------------------------------------------------------------------------------------------


def test_lines_about_a_long_wait_get_rarer_up_to_an_hour_apart():
    table = assembling(wait=WEEK)
    times = []
    while table.now < 1000.0 + 86400:
        table.now = max(table.now + 1e-3, table.core.waiting.next_look(table.now))
        before = len(table.events("waiting"))
        table.do(table.core.look(table.now))
        times += [table.now - 1000.0] * (len(table.events("waiting")) - before)
    assert [round(at) for at in times[:5]] == [10, 20, 40, 80, 160]
    gaps = np.diff(times)
    assert max(gaps) == pytest.approx(LONG_WAIT, abs=0.1)
    assert len(times) < 35
    assert table.events("waiting")[0].message == "waiting for ranks 1, 2, 3; 1 of 4 have been there"
    assert table.events("waiting")[-1].message.startswith("waiting for ranks 1, 2, 3, for 24.")


def test_a_line_follows_soon_when_another_rank_has_come_and_says_since_when_one_is_silent():
    table = assembling(wait=WEEK)
    table.hear("from 3", hello(table, 3, 3))
    table.hear("from 3", table.goodbye(3, "stopped"))
    table.wait(200)
    count = len(table.events("waiting"))
    table.hear(table.links[1], hello(table, 1, 1, reply=True))
    table.wait(10, lambda: table.hear(table.links[1], table.beat(1, 0)))
    (line,) = table.events("waiting")[count:]
    assert line.message == (
        "waiting for ranks 2, 3 (last heard 3 min 30 s ago), for 3 min 30 s; 3 of 4 have been there"
    )
    assert line.fields == {"neighbors": [3], "absent": [2]}


# -- a neighbor with other settings ------------------------------------------------------------------------------------


def hello_with_other_settings(table, rank):
    return table.hello(rank, fingerprint=OTHER)


@pytest.mark.parametrize("accepted", [False, True])
def test_a_peer_that_a_neighbor_refuses_ends_with_the_reason_unless_another_one_has_accepted_it(accepted):
    table = assembling(wait=WEEK, refused_after=2.0)
    table.wait(100)
    table.hear("from 3", hello_with_other_settings(table, 3))
    table.wait(1)
    assert table.ended == []
    if accepted:
        table.hear(table.links[1], hello(table, 1, 1, reply=True))
    table.wait(2)
    assert [str(end.error) for end in table.ended] == ["rounds: 5 here, 6 at rank 3: use the same settings on both"] * (
        not accepted
    )
    assert all(isinstance(end.error, Refused) for end in table.ended)
    assert len(table.events("other-settings")) == 1


def test_a_rank_with_other_settings_is_named_to_the_end_and_taken_in_once_it_is_corrected():
    table = assembling(wait=WEEK)
    table.hear(table.links[1], hello(table, 1, 1, reply=True))
    table.wait(100)
    table.hear("from 3", *[hello_with_other_settings(table, 3)] * 2)
    (line,) = table.events("other-settings")
    assert line.message == (
        "rank 3 and this peer cannot train together: rounds: 5 here, 6 at rank 3: use the same settings on both; the "
        "start waits until one is corrected"
    )
    table.wait(70)
    assert "3 (rounds: 5 here, 6 at rank 3: use the same" in table.events("waiting")[-1].message
    table.hear(table.links[1], hello(table, 1, 1, reply=True))
    table.hear("again from 3", hello(table, 3, 1, 2, 3))
    assert table.ended == [Wake()]


def test_an_address_that_leads_to_another_rank_is_a_reason_too():
    table = assembling(wait=WEEK, refused_after=2.0)
    table.hear(table.links[1], hello(table, 2, 2, reply=True))
    table.wait(3)
    assert "rank: expected 1 at its address, found 2" in str(table.ended[0].error)
