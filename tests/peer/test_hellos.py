"""When a hello is sent again: not because its answer is late, but because it was lost."""

from tests.peer.table import Table


def hellos(table, seconds):
    """How often rank 0 says hello to rank 1 within some seconds, in which rank 1 is silent."""
    table.wait(seconds)
    return table.kinds(table.links[1]).count("hello")


def dialled():
    table = Table(dialled=[1])
    table.established(1)
    assert table.kinds(table.links[1]) == ["hello"]
    return table


def test_while_the_answer_is_late_no_second_hello_is_sent_and_the_body_goes_once():
    table = dialled()
    assert hellos(table, 4) == 0
    table.runs(0)
    table.hear(table.links[1], table.hello(1, reply=True))
    assert table.kinds(table.links[1]).count("body") == 1


def test_a_hello_that_is_never_answered_is_sent_again():
    table = dialled()
    assert [hellos(table, 5), hellos(table, 5)] == [1, 1]
