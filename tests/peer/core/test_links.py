"""Two peers that dial each other: on which link one of them writes, which it gives up, and what it sends again.

tests/world/crossings.py draws what happens between both.
"""

from tests.peer.table import Table


def crossed(rank):
    """One of two that have dialled each other, with the answer on its own link; and that link."""
    other = 1 - rank
    table = Table(rank=rank, dialled=[other])
    table.established(other)
    table.hear(table.links[other], table.hello(other, reply=True))
    table.written(table.links[other])
    return table, table.links[other]


def test_the_link_of_the_lower_rank_stays():
    table, own = crossed(0)
    table.hear("from 1", table.hello(1))
    assert table.core.members[1].link == own
    assert table.kinds("from 1") == [], "the higher rank gives it up"
    assert not table.core.reports.counts


def test_the_higher_rank_gives_its_link_up_and_sends_again_on_the_other_one_what_went_there():
    table, own = crossed(1)
    table.runs(0)
    assert "body" in table.kinds(own)
    table.hear("from 0", table.hello(0))
    assert table.core.members[0].link == "from 0"
    assert table.closed == [own]
    assert [kind for kind in table.kinds("from 0") if kind != "chunk"] == ["hello", "body", "heartbeat"]


def test_what_is_under_way_on_the_other_link_is_read():
    """The answer on the lower rank's own link comes when the other one is in use."""
    table = Table(rank=0, dialled=[1])
    table.established(1)
    table.hear("from 1", table.hello(1))
    table.runs(0)
    own = table.links[1]
    table.hear(own, table.hello(1, reply=True))
    assert table.core.members[1].link == own
    table.hear("from 1", table.body(1, 0))
    assert table.inbox.has(1, 0)
    table.breaks("from 1")
    assert table.core.members[1].link == own


def test_a_link_that_is_not_established_yet_is_given_up_for_one_that_is():
    table = Table(rank=0, dialled=[1])
    own = table.links[1]
    table.hear("from 1", table.hello(1))
    assert table.closed == [own]


def test_a_link_that_is_not_heard_for_a_while_does_not_stay():
    """The neighbor has lost it, and dials by itself."""
    table, own = crossed(0)
    table.wait(4)
    table.hear("from 1", table.hello(1))
    assert table.core.members[1].link == own
    table.wait(1)
    table.hear("from 1", table.hello(1))
    assert table.core.members[1].link == "from 1"


def test_a_link_on_which_a_neighbor_that_is_heard_on_its_own_answers_no_hello_is_given_up():
    """What this peer says on it is lost on the way."""
    table = Table(rank=0, dialled=[1])
    table.established(1)
    table.hear("from 1", table.hello(1))
    for _ in range(4):
        table.wait(1)
        table.hear("from 1", table.beat(1, 0))
        assert not table.closed
    table.wait(1)
    assert table.closed == [table.links[1]]
    assert table.core.members[1].link == "from 1"


def test_a_rank_that_was_given_up_a_link_to_is_dialled_again_once_the_other_link_is_broken():
    table, own = crossed(1)
    table.hear("from 0", table.hello(0))
    table.wait(1)
    assert table.links[0] == own, "one link is enough"
    table.breaks("from 0")
    table.wait(1)
    assert table.links[0] != own


def test_of_two_links_that_one_end_has_dialled_the_later_one_lasts():
    table = Table()
    for link in ("from 2", "from 2 anew"):
        table.hear(link, table.hello(2))
    assert table.core.members[2].link == "from 2 anew"
