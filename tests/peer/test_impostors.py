"""Another process speaks for a neighbor, and leaves again."""

from dpeer.peer.core import wire
from tests.peer.table import Table, chunked, ring

# -- another process speaks for a neighbor -----------------------------------------------------------------------------


def test_a_new_connection_takes_the_old_ones_place_and_the_old_one_is_asked_for_a_hello():
    """Two processes of a rank take turns; a neighbor whose crash has not shown yet is back at once."""
    table = ring()
    body = list(chunked(table.body(2, 0, 7.0), 64))
    table.hear("from 2", *body[:2])
    table.hear("from another", table.hello(2))
    assert table.core.members[2].link == "from another"
    assert len(table.events("neighbor-reconnected")) == 1
    table.hear("from 2", body[2])
    assert table.kinds("from 2") == ["unknown"], "of a chunk, too"
    table.hear("from 2", table.hello(2, 0))
    assert table.core.members[2].link == "from 2"
    assert "hello" in table.kinds("from 2"), "the answer"
    table.runs(0)
    for link, rank in ((table.links[1], 1), ("from 2", 2)):
        table.hear(link, table.body(rank, 0))
    assert [*table.ended[-1].bodies] == [1, 2]


def test_a_check_gets_its_ping_back_and_is_no_stranger():
    table = ring()
    table.runs(0)
    ping = wire.ping(2, b"1" * 100)
    table.hear("from a check", ping, ping)
    assert table.written("from a check") == [wire.pong(ping)], "once in five seconds"
    table.written(table.links[1])
    table.hear(table.links[1], wire.ping(1, b""))
    assert table.written(table.links[1]) == [], "a neighbor that is known checks nothing"
    assert not table.core.reports.counts
    table.hear("from a check", wire.ping(2, bytes(2**15)))
    assert table.core.reports.counts == {"oversized": 1}, "it is longer than any ping"


def test_a_peer_that_is_asked_sends_its_hello_again_but_not_for_each_question():
    table = ring()
    table.hear(table.links[1], wire.Unknown(rank=1), wire.Unknown(rank=1))
    assert table.kinds(table.links[1]) == ["hello"]
    table.wait(6)
    table.written(table.links[1])
    table.hear(table.links[1], wire.Unknown(rank=1))
    assert "hello" in table.kinds(table.links[1])


def test_after_an_impostors_goodbye_the_neighbor_takes_part_in_the_round_that_it_names():
    table = ring()
    table.hear("from an impostor", table.hello(2), table.goodbye(2, "done"))
    table.runs(0)
    table.hear("from 2", table.hello(2, 0))
    assert table.core.members[2].current_round == 0
    assert "body" in table.kinds("from 2")


def test_an_impostor_with_other_settings_does_no_harm():
    table = ring()
    table.hear("from an impostor", table.hello(2, fingerprint={"size": 4}))
    assert table.core.members[2].link == "from 2"
    assert table.core.reports.counts == {"mismatch": 1}


# -- with keys nobody can ----------------------------------------------------------------------------------------------


def keyed():
    """Rank 0 of a ring of three, whose neighbors have proved who they are."""
    table = Table(dialled=[1], authenticated=True)
    table.established(1)
    table.hear(table.links[1], table.hello(1, reply=True), identity=1)
    table.hear("from 2", table.hello(2), identity=2)
    assert [table.status(rank) for rank in (1, 2)] == ["alive", "alive"]
    table.written("from 2")
    return table


def test_a_stranger_without_proof_hears_nothing_and_has_no_effect():
    table = keyed()
    table.hear("from a stranger", table.hello(2), table.beat(2, 0), table.goodbye(2, "done"))
    assert table.kinds("from a stranger") == []
    assert table.core.reports.counts == {"stranger": 3}
    assert table.status(2) == "alive"


def test_a_key_speaks_for_its_own_rank_only_and_learns_nothing_when_it_tries():
    table = keyed()
    table.hear("from 1", table.hello(2, fingerprint={"size": 99}), table.hello(2), identity=1)
    assert table.kinds("from 1") == []
    assert table.core.reports.counts == {"wrong-rank": 2}
    assert table.core.members[2].link == "from 2"
    assert not table.ended, "a hello of another rank ends nobody's start"


def test_a_peer_that_has_proved_a_key_is_named_before_the_handshake_too():
    table = Table(dialled=[1], authenticated=True)
    table.hear("from 2", table.beat(2, 0), identity=2)
    table.hear("from somebody", table.beat(1, 0))
    named, unknown = (one for one in table.said if one.event == "message-dropped")
    assert named.message.startswith("dropped a message from rank 2 (its key is proved): ")
    assert named.fields["neighbor"] == 2
    assert unknown.message.startswith("dropped a message from a stranger: ")


def test_a_new_connection_of_the_same_key_takes_the_old_ones_place_at_once():
    table = keyed()
    table.hear("anew from 2", table.hello(2), identity=2)
    assert table.core.members[2].link == "anew from 2"
    assert "hello" in table.kinds("anew from 2")
    assert len(table.events("neighbor-reconnected")) == 1
    for number in range(50):
        table.hear(f"{number} from 2", table.hello(2), identity=2)
    assert len(table.events("neighbor-reconnected")) <= 10, "as many lines as its tokens pay for"
