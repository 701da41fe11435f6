"""Dialled links: which of them are dialled anew."""

import pytest

from dpeer.peer.core.membership import Dialling, Neighbor, Place, Status


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
