"""Which connections a listener ends; no sockets."""

from dpeer.peer.core.limits import MOST_UNPROVED, PROVE_WITHIN
from dpeer.peer.transports.connections import Connections


def test_strangers_who_are_too_many_displace_those_from_the_same_host_and_nobody_else():
    connections = Connections()
    assert connections.accepted(1, "honest", 0.0) == []
    for number in range(MOST_UNPROVED - 1):
        assert connections.accepted(100 + number, "flood", 0.0) == []
    ended = [one for number in range(1000) for one in connections.accepted(1000 + number, "flood", 0.1)]
    assert len(ended) == len(set(ended)) == 1000, "each once, though the word that it has ended comes later"
    assert 1 not in ended
    assert ended[:2] == [100, 101], "the oldest first"
    for one in ended:
        connections.closed(one)
    assert len(connections) == MOST_UNPROVED


def test_one_who_has_proved_a_key_is_ended_neither_by_a_flood_nor_by_time():
    connections = Connections()
    connections.accepted(1, "host", 0.0)
    connections.spoke(1, 7, 0.1)
    ended = [one for number in range(100) for one in connections.accepted(10 + number, "host", 0.2)]
    assert 1 not in ended
    assert 1 not in connections.overdue(1e6)


def test_one_who_has_not_proved_a_key_in_time_is_overdue():
    connections = Connections()
    connections.accepted(1, "host", 0.0)
    assert connections.overdue(PROVE_WITHIN - 0.1) == []
    assert connections.overdue(PROVE_WITHIN) == [1]
    connections.closed(1)
    assert connections.overdue(1e6) == []


def test_of_each_identity_the_newest_connection_stays():
    connections = Connections()
    ended = []
    for number in range(10):
        connections.accepted(number, "host", float(number))
        for one in connections.spoke(number, 7, number + 0.5):
            connections.closed(one)
            ended.append(one)
        assert connections.spoke(number, 7, number + 0.6) == [], "said once for each connection"
    assert ended == list(range(9))
    connections.accepted(50, "host", 50.0)
    assert connections.spoke(50, 8, 50.0) == [], "another identity's"


def test_a_message_may_come_before_the_word_that_its_connection_was_accepted():
    connections = Connections()
    assert connections.spoke(1, 7, 0.0) == []
    connections.accepted(1, "host", 0.1)
    assert connections.spoke(1, 7, 0.2) == []
    assert connections.overdue(1e6) == []


def test_a_number_that_is_used_again_is_a_new_connection():
    connections = Connections()
    connections.accepted(1, "host", 0.0)
    connections.spoke(1, 7, 0.1)
    connections.closed(1)
    connections.accepted(1, "other", 1.0)
    assert connections.overdue(1.0 + PROVE_WITHIN) == [1]
