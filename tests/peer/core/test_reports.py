"""What a peer logs about links: messages without end, and a relay that is away."""

from dpeer.peer.transport import Endless, Relayed
from tests.peer.table import Table, ring


def test_an_endless_message_of_a_neighbor_is_counted_and_logged_once():
    table = ring()
    for link in (table.links[1], "from 2", "from 2"):
        table.do(table.core.happened(Endless(link, "10.0.0.2"), table.now))
    assert table.core.reports.counts == {"endless": 3}
    said = table.events("message-dropped")
    assert [one.fields for one in said] == [{"reason": "endless", "neighbor": rank} for rank in (1, 2)]
    assert "had no end" in said[0].message


def test_an_endless_message_on_a_dialled_link_counts_for_the_dialled_rank():
    table = Table(dialled=[1])
    table.do(table.core.happened(Endless(table.links[1], "10.0.0.1"), table.now))
    assert [one.fields for one in table.events("message-dropped")] == [{"reason": "endless", "neighbor": 1}]


def test_endless_messages_of_strangers_are_logged_once_for_each_host():
    table = ring()
    for link in (None, b"one", None, b"another"):
        table.do(table.core.happened(Endless(link, "10.0.0.9"), table.now))
    assert table.core.reports.counts == {"endless": 4}
    (said,) = table.events("message-dropped")
    assert said.fields == {"reason": "endless"}
    assert "10.0.0.9" in said.message


def test_a_relay_that_is_away_is_named_once_for_each_reason_and_once_when_it_is_back():
    table = ring()
    for trouble in ("it is silent", "it is silent", "it does not answer", None, None, "it is silent"):
        table.do(table.core.happened(Relayed(trouble), table.now))
    reasons = [one.fields["reason"] for one in table.events("relay-unreachable")]
    assert reasons == ["it is silent", "it does not answer", "it is silent"]
    assert len(table.events("relay-back")) == 1
