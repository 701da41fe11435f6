"""Which connections are endless; no sockets."""

from dpeer.peer import Limits
from dpeer.peer.core.limits import PIECE, UNREAD
from dpeer.peer.transports.undelivered import Undelivered, longest_message, on_the_wire

LONGEST = 1000
MOST = LONGEST * (UNREAD + 2)


def opened(*numbers):
    connections = Undelivered(LONGEST)
    for number in numbers:
        connections.opened(number)
    return connections


def test_no_message_of_a_peer_reaches_the_longest():
    body = Limits(payload_bytes=10 * PIECE)
    for sealed in (False, True):
        in_one = [body.small_header_bytes, PIECE - body.buffers + 1, *[1] * (body.buffers - 1)]
        assert on_the_wire(in_one, sealed=sealed) < longest_message(body, PIECE)
        hello = [body.header_bytes]
        assert on_the_wire(hello, sealed=sealed) < longest_message(Limits(payload_bytes=1), PIECE)


def test_more_than_may_wait_to_be_read_is_endless_at_once():
    connections = opened(1)
    assert not connections.look(1, MOST, MOST)
    assert connections.look(1, MOST + 1, MOST + 1)
    assert connections.numbers == []
    assert connections.emptied() == [], "each is said once"


def test_more_than_a_message_is_endless_if_nothing_waits_to_be_read():
    connections = opened(1, 2)
    assert not connections.look(1, LONGEST, LONGEST)
    assert not connections.doubtful
    assert not connections.look(1, LONGEST + 1, LONGEST + 1)
    assert connections.doubtful
    assert connections.emptied() == [1]
    assert connections.numbers == [2]


def test_what_waited_to_be_read_when_it_was_looked_at_is_not_endless():
    connections = opened(1)
    connections.look(1, 5 * LONGEST, 5 * LONGEST)
    for _ in range(4):
        connections.delivered(1, LONGEST)
    assert connections.emptied() == []
    assert not connections.doubtful
    connections.look(1, 5 * LONGEST + 1, 5 * LONGEST + 1)
    assert connections.emptied() == [1]


def test_what_came_after_the_look_is_judged_by_the_next_one():
    connections = opened(1)
    connections.look(1, LONGEST + 1, LONGEST + 1)
    connections.delivered(1, LONGEST)
    assert connections.emptied() == []
    assert connections.emptied() == []


def test_what_the_operating_system_has_and_libzmq_has_not_is_not_held():
    connections = opened(1)
    assert not connections.look(1, 100 * MOST, LONGEST)
    assert not connections.doubtful


def test_what_is_handed_out_while_it_is_looked_at_is_not_forgotten():
    """libzmq takes more between the two questions that are asked: `taken` may be less than was handed out."""
    connections = opened(1)
    for round_ in range(1, 1000):
        connections.delivered(1, LONGEST)
        connections.look(1, LONGEST * round_, LONGEST * round_ - 900)
    assert not connections.look(1, LONGEST * 1000, LONGEST * 1000)
    assert not connections.doubtful


def test_a_number_that_is_used_again_is_a_new_connection():
    connections = opened(1)
    connections.delivered(1, 500)
    connections.closed(1)
    connections.opened(1)
    connections.look(1, LONGEST, LONGEST)
    assert connections.emptied() == []
    connections.look(1, LONGEST + 1, LONGEST + 1)
    assert connections.emptied() == [1]


def test_the_last_messages_of_a_connection_buy_nothing_for_the_next_one_with_its_number():
    connections = opened(1)
    connections.closed(1)
    connections.delivered(1, 100 * LONGEST)
    connections.opened(1)
    connections.look(1, 100, 100)
    connections.look(1, LONGEST + 101, LONGEST + 101)
    assert connections.emptied() == [1]


def test_a_message_may_come_before_the_word_of_its_connection():
    connections = Undelivered(LONGEST)
    connections.delivered(1, 5 * LONGEST)
    assert connections.numbers == []
    connections.opened(1)
    connections.look(1, 5 * LONGEST + 10, 5 * LONGEST + 10)
    assert not connections.doubtful
