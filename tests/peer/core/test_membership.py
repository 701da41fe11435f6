"""Membership: silence, goodbyes, handshakes, and which neighbors a round waits for."""

import pytest

from dpeer.peer.config import LivenessConfig
from dpeer.peer.core.membership import Dialling, Membership, Neighbor, Place, Status

CONFIG = LivenessConfig(heartbeat=1, suspect_after=3, dead_after=9, stop_grace=2)


@pytest.fixture
def members():
    found = Membership([4, 2], CONFIG)
    found.greet(2, "link-2", number=0, now=0.0)
    return found


def run_clock(members, start, end):
    """Tick once a second; who died when."""
    return [(now, died.rank) for now in range(start, end) for died in members.tick(float(now))]


def test_everyone_is_unseen_until_the_handshake(members):
    assert members.missing() == [4]
    assert members.by_link("link-2") is members[2]
    assert members.by_link("link-4") is None
    assert 4 in members
    assert 3 not in members


def test_silence_makes_suspect_then_dead_and_a_word_makes_alive(members):
    run_clock(members, 0, 4)
    assert members[2].status is Status.SUSPECT
    assert members.reachable(2)
    assert members.awaited(2, 0, 4.0)
    assert run_clock(members, 4, 12) == [(9, 2)]
    assert not members.reachable(2)
    assert not members.awaited(2, 0, 12.0)
    assert members.lost == {}
    assert members.note_lost(2) == "silent for 9 s"
    assert members.note_lost(2) is None  # no news
    assert members.lost == {2: "silent for 9 s"}
    assert members.heard(members[2], 0, 12.0)
    assert members.reachable(2)


def test_the_unseen_are_not_declared_dead(members):
    assert all(rank == 2 for _, rank in run_clock(members, 0, 100))


def test_when_this_process_stood_still_no_neighbor_is_blamed(members):
    run_clock(members, 0, 2)
    members.heard(members[2], 0, 1.0)
    assert members.tick(1000.0) == []
    assert members[2].status is Status.ALIVE
    assert run_clock(members, 1001, 1020) == [(1008, 2)]  # as if heard at 999, when it fell asleep


def test_one_that_is_heard_before_the_clock_is_looked_at_is_mourned_no_later(members):
    run_clock(members, 0, 2)
    members.heard(members[2], 0, 1000.0)  # its message had waited in the socket
    assert members.tick(1000.0) == []
    assert run_clock(members, 1001, 1020) == [(1009, 2)]


def test_a_body_of_an_earlier_round_than_the_last_word_cannot_come(members):
    members.heard(members[2], 3, 1.0)
    assert not members.awaited(2, 2, 1.0)
    assert members.awaited(2, 3, 1.0)


def test_after_a_new_handshake_it_can_come_again(members):
    members.heard(members[2], 3, 1.0)
    members.greet(2, "link-2b", number=4, now=2.0)
    assert members.awaited(2, 3, 2.0)
    assert not members.awaited(2, 2, 2.0), "it has the bodies of its current round and of the one before, no others"
    assert members[2].current_round == 4


@pytest.mark.parametrize(("reason", "still"), [("stopped", True), ("done", False), ("failed", False)])
def test_one_that_was_stopped_is_awaited_a_moment_longer(members, reason, still):
    members.goodbye(members[2], reason, now=5.0)
    assert members.awaited(2, 0, 6.9) is still
    assert not members.awaited(2, 0, 7.1)
    assert not members.reachable(2)
    assert members.note_lost(2) == reason
    assert members.lost == {2: reason}


def test_one_that_is_merely_slow_is_waited_for_however_far_behind(members):
    members.current_round = 9
    members.heard(members[2], 3, 1.0)
    assert members.awaited(2, 9, 1.0)
    assert members.holds_up(2, 9, 1.0)
    assert not members.holds_up(2, 3, 1.0)


@pytest.mark.parametrize("leave", ["dies", "failed"])
def test_one_that_was_away_is_waited_for_when_it_has_caught_up(members, leave):
    members.current_round = 5
    members.heard(members[2], 5, 0.0)
    if leave == "dies":
        run_clock(members, 0, 10)
        members.current_round = 9
        members.heard(members[2], 5, 11.0)
    else:
        members.goodbye(members[2], "failed", 0.0)
        members.current_round = 9
        members.greet(2, "link-2b", 5, 11.0)
    assert members.reachable(2)
    assert not members.awaited(2, 9, 11.0)
    assert not members.holds_up(2, 9, 11.0)
    assert members.awaited(2, 6, 11.0)  # it could still be reached there
    members.heard(members[2], 8, 12.0)
    assert members.awaited(2, 9, 12.0)
    members.current_round = 20
    assert members.awaited(2, 20, 12.0)  # one like any other


def test_one_that_a_list_makes_a_neighbor_has_been_silent_only_since_then(members):
    members.follow([4], [2, 4], {}, began=True)
    members.parted("link-2")
    run_clock(members, 0, 30)
    assert members[2].status is Status.ALIVE, "no edge, so no reason to speak"
    members.follow([2, 4], [2, 4], {2: 7, 4: 7}, began=True)
    assert run_clock(members, 30, 50) == [(38, 2)]


# -- dialled links ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [Place("tcp://10.0.0.2:7700", ("aa",)), Place(None, ("aa", "bb"))])
def test_a_rank_with_another_address_or_key_is_dialled_by_it_once_it_is_not_heard_by_the_old_one_any_more(place):
    lists = {2: Place(None, ("aa",))}
    dialling = Dialling(9.0, lists.__getitem__)
    dialling.add(2, "link", 0.0)
    neighbor = Neighbor(2, link="link", status=Status.ALIVE, heard_at=5.0)
    lists[2] = place
    assert not dialling.overdue("link", neighbor, 6.0), "it is still there"
    neighbor.turn("goodbye")
    assert dialling.overdue("link", neighbor, 6.0)
    assert dialling.begin([2])[0].address == place.address
    dialling.add(2, "anew", 6.0)
    assert not dialling.overdue("anew", neighbor, 7.0), "once for each change"
