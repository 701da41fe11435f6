"""Dialled links: which of them are dialled anew."""

from dpeer.peer.core.dialling import Dialling
from dpeer.peer.core.membership import Neighbor, Status


def test_a_rank_with_another_address_is_dialled_there_once_it_is_not_heard_at_the_old_one():
    lists = {}
    dialling = Dialling(9.0, lists.get)
    dialling.add(2, "link", 0.0)
    neighbor = Neighbor(2, link="link", status=Status.ALIVE, heard_at=5.0)
    lists[2] = "tcp://10.0.0.2:7700"
    assert not dialling.overdue("link", neighbor, 6.0), "it is still there"
    neighbor.turn("goodbye")
    assert dialling.overdue("link", neighbor, 6.0)
    assert dialling.begin([2])[0].address == "tcp://10.0.0.2:7700"
