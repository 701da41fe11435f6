"""How long a round waits: deadlines, and bodies on their way."""

import math
from itertools import accumulate

import pytest

from dpeer.peer.core import wire
from dpeer.peer.core.deadline import RoundDeadline
from dpeer.peer.core.effects import Deliver
from tests.peer.table import CHUNK, chunked, payload, ring

# -- the deadline ------------------------------------------------------------------------------------------------------


def after(rounds, deadline="auto"):
    """A deadline that has seen rounds of these lengths."""
    found = RoundDeadline(deadline)
    for number, now in enumerate(accumulate(rounds, initial=0.0)):
        found.collected(number, now)
    return found


@pytest.mark.parametrize(
    ("rounds", "given", "deadline"),
    [
        ([], "auto", 3600.0),
        ([1, 1], "auto", 3600.0),
        ([1, 1, 1], "auto", 60.0),  # never less
        ([20, 20, 20, 900, 20], "auto", 200.0),  # ten times the median round: one long round counts little
        ([100] * 64 + [7] * 64, "auto", 70.0),  # old rounds are forgotten
        ([1] * 9, None, math.inf),
        ([1] * 9, 5.0, 5.0),
    ],
)
def test_a_deadline_is_found_from_rounds(rounds, given, deadline):
    assert after(rounds, given).seconds == deadline


def test_rounds_around_a_pause_or_sat_out_do_not_count():
    found = after([30] * 2)
    found.collected(50, 61)  # 47 were sat out
    found.paused()
    found.collected(51, 10**6)
    assert found.seconds == 3600.0, "two rounds are not enough"
    found.collected(52, 10**6 + 30)
    assert found.seconds == 300.0


# -- a neighbor that hangs, and bodies on their way --------------------------------------------------------------------


def wait(peer, seconds, *ranks, number=0):
    """Let time pass in which heartbeats of these ranks come."""
    for _ in range(seconds):
        peer.wait(1)
        for rank in ranks:
            peer.hear(peer.links[1] if rank == 1 else "from 2", peer.beat(rank, number))


def slow_body(peer, seconds, number=0):
    """Rank 2's body comes chunk by chunk, one every so many seconds; gives the time after each."""
    for chunk in chunked(peer.body(2, number), CHUNK):
        peer.hear("from 2", list(chunk))
        yield
        wait(peer, seconds, 1, number=number)


def come(coming, chunks):
    for _ in range(chunks):
        next(coming)


def waits_for_two(**options):
    """Rank 1's body is here; rank 2 has not got this peer's before it is `getting` it."""
    peer = ring(rounds=20, **options)
    peer.runs(0)
    peer.hear(peer.links[1], peer.body(1, 0))
    peer.written("from 2")
    return peer


def getting(peer, seconds, a_second, got=0):
    """Rank 2 acknowledges every second how much of this peer's body it has."""
    for _ in range(seconds):
        wait(peer, 1, 1)
        got += a_second
        peer.hear("from 2", peer.beat(2, 0, got=got))


def went_on_without(peer, why):
    return peer.ended[0].bodies.keys() == {1} and peer.core.members.lost == {2: why}


HANGS = "sent nothing within 20 s (--deadline)"


def test_by_itself_a_round_goes_on_without_a_neighbor_whose_disk_hangs_and_names_it():
    peer = ring(deadline="auto", rounds=20)
    for number in range(5):
        peer.runs(number)
        wait(peer, 10, 1, 2, number=number)
        for link, rank in ((peer.links[1], 1), ("from 2", 2)):
            peer.hear(link, peer.body(rank, number))
        assert isinstance(peer.ended.pop(), Deliver)
    peer.runs(5)
    peer.hear(peer.links[1], peer.body(1, 5))
    wait(peer, 99, 1, 2, number=5)
    assert peer.ended == []
    assert "goes on without in 70 s, --deadline auto" in peer.events("waiting")[0].message
    wait(peer, 1, 1, 2, number=5)
    assert peer.ended[0].bodies.keys() == {1}
    (lost,) = peer.events("neighbor-lost")
    assert lost.level == "warning"
    assert "lost rank 2 (sent nothing within 100 s (--deadline auto))" in lost.message
    assert "hang" in lost.message


def test_no_deadline_ends_a_wait_while_the_body_comes_at_a_useful_pace():
    peer = waits_for_two(deadline=20.0)
    assert 10 * (len(payload(0, peer.learner)) // CHUNK + 1) > 2 * 20
    for _ in slow_body(peer, 10):
        pass
    assert peer.ended[0].bodies.keys() == {1, 2}
    assert peer.core.members.lost == {}


def test_a_body_that_would_take_more_than_ten_deadlines_is_not_waited_for():
    peer = waits_for_two(deadline=2.0)
    for _ in slow_body(peer, 10):
        pass
    assert went_on_without(peer, "its body comes too slowly for 2.00 s (--deadline)")


@pytest.mark.parametrize(("chunks", "seconds"), [(3, 19), (1, 25)], ids=["in the middle", "after its announcement"])
def test_a_body_that_stops_on_its_way_is_not_waited_for(chunks, seconds):
    peer = waits_for_two(deadline=20.0)
    come(slow_body(peer, 5), chunks)
    wait(peer, seconds, 1, 2)
    assert went_on_without(peer, HANGS)


def test_no_deadline_ends_a_wait_while_the_neighbor_gets_this_peers_body_nor_soon_after():
    peer = waits_for_two(deadline=20.0)
    getting(peer, 50, 8)
    wait(peer, 19, 1, 2)
    assert peer.ended == [], "it has the body now, and trains"
    wait(peer, 2, 1, 2)
    assert went_on_without(peer, HANGS)


def test_a_body_that_has_just_been_announced_when_the_deadline_is_over_is_waited_for():
    peer = waits_for_two(deadline=20.0)
    getting(peer, 50, 8)
    wait(peer, 19, 1, 2)
    coming = slow_body(peer, 1)
    next(coming)
    wait(peer, 3, 1)
    assert peer.ended == [], "its header is here, and no byte of it"
    for _ in coming:
        pass
    assert peer.ended[0].bodies.keys() == {1, 2}


def test_a_neighbor_that_gets_no_more_of_this_peers_body_is_not_waited_for():
    peer = waits_for_two(deadline=20.0)
    getting(peer, 5, 8)
    getting(peer, 30, 0, got=40)
    assert peer.ended[0].bodies.keys() == {1}


def test_a_neighbor_that_gets_a_body_for_ever_is_waited_for_no_longer_than_a_body_may_take():
    peer = waits_for_two(deadline=2.0)
    for _ in range(5):
        getting(peer, 4, 90)
        wait(peer, 1, 1, 2)
    assert peer.core.members.lost.keys() == {2}


# -- the line of the log about a wait ----------------------------------------------------------------------------------


@pytest.mark.parametrize("whose", ["its", "this peer's"])
def test_while_a_body_is_on_its_way_the_line_shows_its_progress_and_does_not_advise_to_give_it_up(whose):
    peer = waits_for_two()
    if whose == "its":
        come(slow_body(peer, 10), 5)
        progress = "128 B of 400 B of its body have come, 4 B/s, about 1 min 4 s of 1 min 34 s to go"
    else:
        getting(peer, 40, 8)
        progress = "232 B of 400 B of this peer's body are there, 8 B/s, about 21.8 s of 51.8 s to go"
    (line,) = [one.message for one in peer.events("waiting")]
    assert f"rank 2 (in round 1; {progress})" in line
    assert "hanging" not in line
    assert "--deadline" not in line
    wait(peer, 90, 1, 2)
    assert "which is there, and slow or hanging (--deadline SECONDS" in peer.events("waiting")[-1].message


def test_of_two_only_the_one_whose_body_does_not_come_may_hang():
    peer = ring(rounds=20)
    peer.runs(0)
    come(slow_body(peer, 10), 3)
    wait(peer, 12, 1)
    assert "of which 1 is there, and slow or hanging" in peer.events("waiting")[0].message


def test_an_acknowledgement_of_more_than_a_whole_body_is_not_believed():
    peer = waits_for_two()
    getting(peer, 40, 401)
    assert "slow or hanging" in peer.events("waiting")[0].message


def test_a_peer_acknowledges_how_much_of_a_body_has_come():
    peer = waits_for_two()
    found = []
    for _ in slow_body(peer, 1):
        wait(peer, 1, 1)
        found += [one.got for one in peer.written("from 2") if isinstance(one, wire.Heartbeat)]
    assert found[-1] == 0, "it is there"
    assert set(found) <= {*range(0, len(payload(0, peer.learner)), CHUNK)}
    assert max(found) > 200
