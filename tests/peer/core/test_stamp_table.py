"""The table of stamps: how it travels, and that an entry only grows."""

from dpeer.peer.core.member_list import NO_KEY, Key, Stamp, StampTable, by_rank

ONE, TWO = Key(1, b"1" * 32), Key(2, b"2" * 32)
VOTED, COUNTS = Stamp(ONE, TWO), Stamp(TWO, NO_KEY)


def believes(rank, stamp):
    return True


def test_ranks_with_one_stamp_travel_together():
    ours = StampTable(0)
    assert ours.table == []
    assert all(ours.reached(rank, VOTED) for rank in (0, 300, 7))
    assert ours.reached(2, COUNTS)
    assert ours.table == [(VOTED, [0, 7, 300]), (COUNTS, [2])]
    assert by_rank(ours.table) == {0: VOTED, 7: VOTED, 300: VOTED, 2: COUNTS} == dict(ours)


def test_an_entry_grows_and_only_its_rank_raises_it():
    ours, theirs = StampTable(0), StampTable(1)
    ours.reached(0, VOTED)
    assert not ours.reached(0, VOTED)
    assert theirs.reached(0, COUNTS)
    assert theirs.reached(1, VOTED)
    assert ours.merge(theirs.table, believes)
    assert dict(ours) == {0: VOTED, 1: VOTED}, "what others say of this rank does not count"
    assert not ours.merge(theirs.table, believes)
    theirs.reached(1, COUNTS)
    assert ours.merge(theirs.table, believes)
    assert not ours.reached(1, VOTED)
    assert ours[1] == COUNTS
    assert not ours.merge(ours.table, believes)


def test_what_may_not_be_believed_is_left_out_of_the_table_too():
    ours, theirs = StampTable(0), StampTable(1)
    theirs.reached(1, VOTED)
    theirs.reached(2, VOTED)
    assert ours.merge(theirs.table, lambda rank, stamp: rank == 2)
    assert by_rank(ours.table) == {2: VOTED}
    assert not ours.merge(theirs.table, lambda rank, stamp: False)
