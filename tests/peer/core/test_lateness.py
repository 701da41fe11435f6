"""Bodies that come too late to be mixed: known while they are trained, counted, and warned of."""

import pytest

from tests.peer.table import ring


@pytest.mark.parametrize(
    ("there", "in_vain"),
    [((2, 2), False), ((6, 2), False), ((6, 6), True)],
    ids=["all may still use it", "one may", "all have gone past it"],
)
def test_a_body_that_no_neighbor_can_use_any_more_is_known_while_it_is_trained(there, in_vain):
    table = ring(rounds=9)
    table.do(table.core.begin(1, table.now))
    table.core.train(1, table.now)
    assert not table.core.lateness.in_vain
    for link, rank, number in ((table.links[1], 1, there[0]), ("from 2", 2, there[1])):
        table.hear(link, table.beat(rank, number))
    assert table.core.lateness.in_vain is in_vain
    if in_vain:
        table.do(table.core.release(1, None, table.now))
    else:
        table.releases(1)
    assert table.core.lateness.late_bodies == 1
    table.do(table.core.begin(2, table.now))
    table.core.train(2, table.now)
    assert table.core.lateness.in_vain is False, "it is found anew for each round"


def test_a_body_is_not_in_vain_while_no_quorum_has_passed_its_round():
    table = ring(rounds=9, quorum=3)
    table.do(table.core.begin(1, table.now))
    table.core.train(1, table.now)
    for link, rank in ((table.links[1], 1), ("from 2", 2)):
        table.hear(link, table.beat(rank, 6))
    assert not table.core.lateness.in_vain


@pytest.mark.parametrize("late_for", [(1, 2), (1,)], ids=["both", "one"])
def test_a_peer_that_is_too_slow_for_all_its_neighbors_is_warned_with_the_remedy(late_for):
    peer = ring(rounds=20)
    for number in range(4):
        peer.do(peer.core.begin(number, peer.now))
        for link, rank in ((peer.links[1], 1), ("from 2", 2)):
            peer.hear(link, peer.beat(rank, number + (rank in late_for)))
        assert peer.events("too-slow") == []
        peer.releases(number)
    if late_for == (1,):
        assert (peer.core.lateness.late_bodies, peer.events("too-slow")) == (0, [])
        return
    (line,) = peer.events("too-slow")
    assert "the last 3 bodies" in line.message
    assert "--round-seconds auto" in line.message
    assert peer.core.lateness.late_bodies == 3  # the first may have been sent by an earlier process
