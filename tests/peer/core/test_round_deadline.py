"""How long a round waits: deadlines, bodies on their way, and a peer whose bodies come too late for everybody."""

import math

import pytest

from dpeer.peer.core import wire
from dpeer.peer.core.chunking import chunked
from dpeer.peer.core.effects import Deliver
from dpeer.peer.core.round_deadline import RoundDeadline
from tests.peer.table import CHUNK, payload, ring

# -- what the deadline is ----------------------------------------------------------------------------------------------


def after(rounds, waits, deadline="auto"):
    """Patience that has seen rounds of these lengths, which waited for so long."""
    found, now = RoundDeadline(deadline), 0.0
    found.collected(0, 0.0, now)
    for number, (seconds, waited) in enumerate(zip(rounds, waits, strict=True), 1):
        now += seconds
        found.collected(number, waited, now)
    return found


@pytest.mark.parametrize(
    ("rounds", "waits", "deadline"),
    [
        ([], [], 3600.0),
        ([1, 1], [0, 0], 3600.0),
        ([1, 1, 1], [0, 0, 0], 60.0),  # never less
        ([20] * 5, [1] * 5, 200.0),  # ten times the median round
        ([20, 20, 20, 900, 20], [1] * 5, 200.0),  # one long round counts little
        ([20] * 5, [1, 11, 21, 31, 41], 200.0),
        ([20] * 5, [0, 50, 100, 150, 200], 600.0),  # median 100, deviation 50
    ],
)
def test_a_deadline_is_found_from_rounds_and_waits(rounds, waits, deadline):
    assert after(rounds, waits).seconds == deadline


def test_rounds_around_a_pause_or_sat_out_do_not_count():
    found = after([30] * 2, [0] * 2)
    found.collected(50, 0, 61)  # 47 were sat out
    found.paused()
    found.collected(51, 0, 10**6)
    assert found.seconds == 3600.0, "two rounds are not enough"
    found.collected(52, 0, 10**6 + 30)
    assert found.seconds == 300.0


def test_old_rounds_are_forgotten():
    assert after([100] * 64 + [7] * 64, [0] * 128).seconds == 70.0


def test_without_a_deadline_a_round_waits_for_ever():
    assert after([1] * 9, [0] * 9, None).seconds == math.inf
    assert after([1] * 9, [0] * 9, 5.0).seconds == 5.0


# -- a neighbor that hangs ---------------------------------------------------------------------------------------------


def hears(peer, *ranks, number=0):
    """Heartbeats of these ranks, which are there."""
    for rank in ranks:
        peer.hear(peer.links[1] if rank == 1 else "from 2", peer.beat(rank, number))


def rounds_with_both(peer, count, seconds):
    """Rounds with both neighbors, of so many seconds each."""
    for number in range(count):
        peer.runs(number)
        peer.wait(seconds, lambda number=number: hears(peer, 1, 2, number=number))
        for link, rank in ((peer.links[1], 1), ("from 2", 2)):
            peer.hear(link, peer.body(rank, number))
        assert isinstance(peer.ended.pop(), Deliver)
    return count


def test_by_itself_a_round_goes_on_without_a_neighbor_whose_disk_hangs_and_says_whose():
    peer = ring(deadline="auto", rounds=20)
    number = rounds_with_both(peer, 5, 10)
    peer.runs(number)
    peer.hear(peer.links[1], peer.body(1, number))
    peer.wait(99, lambda: hears(peer, 1, 2, number=number))
    assert peer.ended == []
    assert "goes on without in 70 s, --deadline auto" in peer.events("waiting")[0].message
    peer.wait(1, lambda: hears(peer, 1, 2, number=number))
    assert peer.ended[0].bodies.keys() == {1}
    (lost,) = peer.events("neighbor-lost")
    assert lost.level == "warning"
    assert "lost rank 2 (sent nothing within 100 s (--deadline auto))" in lost.message
    assert "hang" in lost.message


# -- a body on its way -------------------------------------------------------------------------------------------------


def slow_body(peer, number, seconds):
    """Rank 2's body comes piece by piece, one every so many seconds; gives the time after each."""
    frames = peer.body(2, number)
    for chunk in chunked(frames, CHUNK):
        peer.hear("from 2", list(chunk))
        yield
        for _ in range(seconds):
            peer.wait(1, lambda: hears(peer, 1, number=number))


def waits_for_two(**options):
    peer = ring(rounds=20, **options)
    peer.runs(0)
    peer.hear(peer.links[1], peer.body(1, 0))
    return peer


def test_no_deadline_ends_a_wait_while_the_body_comes_at_a_useful_pace():
    peer = waits_for_two(deadline=20.0)
    chunks = len(payload(0, peer.learner)) // CHUNK + 1
    assert 10 * chunks > 2 * 20
    for _ in slow_body(peer, 0, 10):
        pass
    assert peer.ended[0].bodies.keys() == {1, 2}
    assert peer.core.members.lost == {}


def test_a_body_that_would_take_more_than_ten_deadlines_is_not_waited_for():
    peer = waits_for_two(deadline=2.0)
    for _ in slow_body(peer, 0, 10):
        pass
    assert peer.ended[0].bodies.keys() == {1}
    assert peer.core.members.lost == {2: "its body comes too slowly for 2.00 s (--deadline)"}


def test_a_body_that_stops_on_its_way_is_not_waited_for():
    peer = waits_for_two(deadline=20.0)
    coming = slow_body(peer, 0, 5)
    for _ in range(3):
        next(coming)
    peer.wait(19, lambda: hears(peer, 1, 2))
    assert peer.core.members.lost == {2: "sent nothing within 20 s (--deadline)"}
    assert peer.ended[0].bodies.keys() == {1}


def test_while_a_body_comes_the_line_says_how_far_it_is_and_not_to_give_it_up():
    peer = waits_for_two()
    coming = slow_body(peer, 0, 10)
    for _ in range(5):
        next(coming)
    (expected,) = peer.events("waiting")
    assert "rank 2 (in round 1; 128 B of 400 B of its body have come, 4 B/s, about 1 min 4 s to go)" in expected.message
    assert "hanging" not in expected.message
    assert "--deadline" not in expected.message
    peer.wait(60, lambda: hears(peer, 1, 2))
    assert "which is there, and slow or hanging (--deadline SECONDS" in peer.events("waiting")[-1].message


def test_of_two_only_the_one_whose_body_does_not_come_may_hang():
    peer = ring(rounds=20)
    peer.runs(0)
    coming = slow_body(peer, 0, 10)
    for _ in range(3):
        next(coming)
    peer.wait(12, lambda: hears(peer, 1))
    assert "of which 1 is there, and slow or hanging" in peer.events("waiting")[0].message


# -- this peer's body on its way to a neighbor, which needs it to go on ------------------------------------------------


def lacks_ours(**options):
    """Rank 1's body is here; rank 2 is still without this peer's, which has been written whole."""
    peer = waits_for_two(**options)
    peer.written("from 2")
    return peer


def getting(peer, seconds, a_second, got=0):
    """Rank 2 says every second how much it has."""

    def says():
        nonlocal got
        got += a_second
        hears(peer, 1)
        peer.hear("from 2", peer.beat(2, 0, got=got))

    peer.wait(seconds, says)


def test_no_deadline_ends_a_wait_while_the_neighbor_gets_this_peers_body_nor_soon_after():
    peer = lacks_ours(deadline=20.0)
    getting(peer, 50, 8)
    peer.wait(19, lambda: hears(peer, 1, 2))
    assert peer.ended == [], "it has the body now, and trains"
    peer.wait(2, lambda: hears(peer, 1, 2))
    assert peer.ended[0].bodies.keys() == {1}
    assert peer.core.members.lost == {2: "sent nothing within 20 s (--deadline)"}


def test_a_body_that_has_just_been_announced_when_the_deadline_is_over_is_waited_for():
    peer = lacks_ours(deadline=20.0)
    getting(peer, 50, 8)
    peer.wait(19, lambda: hears(peer, 1, 2))
    coming = slow_body(peer, 0, 1)
    next(coming)
    peer.wait(3, lambda: hears(peer, 1))
    assert peer.ended == [], "its header is here, and no byte of it"
    for _ in coming:
        pass
    assert peer.ended[0].bodies.keys() == {1, 2}


def test_a_body_of_which_no_byte_follows_its_announcement_is_not_waited_for():
    peer = waits_for_two(deadline=20.0)
    next(slow_body(peer, 0, 1))
    peer.wait(25, lambda: hears(peer, 1))
    assert peer.ended[0].bodies.keys() == {1}


def test_a_neighbor_that_gets_no_more_of_this_peers_body_is_not_waited_for():
    peer = lacks_ours(deadline=20.0)
    getting(peer, 5, 8)
    getting(peer, 30, 0, got=40)
    assert peer.ended[0].bodies.keys() == {1}


def test_who_says_for_ever_that_it_gets_a_body_is_waited_for_no_longer_than_a_body_may_take():
    peer = lacks_ours(deadline=2.0)
    for _ in range(5):
        getting(peer, 4, 90)
        peer.wait(1, lambda: hears(peer, 1, 2))
    assert peer.core.members.lost.keys() == {2}


def test_the_line_says_how_far_this_peers_body_is():
    peer = lacks_ours()
    getting(peer, 40, 8)
    (expected,) = peer.events("waiting")
    assert (
        "rank 2 (in round 1; 232 B of 400 B of this peer's body are there, 8 B/s, about 21.8 s to go)"
        in expected.message
    )
    assert "hanging" not in expected.message
    assert "--deadline" not in expected.message
    peer.wait(60, lambda: hears(peer, 1, 2))
    assert "which is there, and slow or hanging (--deadline SECONDS" in peer.events("waiting")[-1].message


def test_more_than_a_whole_body_is_not_believed():
    peer = lacks_ours()
    getting(peer, 40, 401)
    assert "slow or hanging" in peer.events("waiting")[0].message


def test_a_peer_says_how_much_of_a_body_has_come():
    peer = waits_for_two()
    coming = slow_body(peer, 0, 1)
    expected = []
    for _ in coming:
        peer.wait(1, lambda: hears(peer, 1))
        expected += [one.got for one in peer.written("from 2") if isinstance(one, wire.Heartbeat)]
    assert expected[-1] == 0, "it is there"
    assert sorted(set(expected)) == sorted({*range(0, len(payload(0, peer.learner)), CHUNK)} & set(expected))
    assert max(expected) > 200


# -- one that is too slow for everybody --------------------------------------------------------------------------------


def released_late(peer, number):
    """The peer trains a round that both neighbors have completed meanwhile."""
    peer.do(peer.core.begin(number, peer.now))
    hears(peer, 1, 2, number=number + 1)
    peer.do(peer.core.release(number, [payload(number, peer.learner)], peer.now))


def test_who_is_too_slow_for_all_its_neighbors_is_told_so_with_what_to_do():
    peer = ring(rounds=20)
    for number in range(3):
        released_late(peer, number)
    assert peer.events("too-slow") == []
    assert peer.core.late_bodies == 2  # the first may have been sent by an earlier process
    released_late(peer, 3)
    (expected,) = peer.events("too-slow")
    assert "the last 3 bodies" in expected.message
    assert "--body-epochs" in expected.message
    assert peer.core.late_bodies == 3


def test_a_body_that_one_neighbor_can_use_is_not_late():
    peer = ring(rounds=20)
    for number in range(8):
        peer.do(peer.core.begin(number, peer.now))
        hears(peer, 1, number=number + 1)
        hears(peer, 2, number=number)
        peer.do(peer.core.release(number, [payload(number, peer.learner)], peer.now))
    assert peer.core.late_bodies == 0
