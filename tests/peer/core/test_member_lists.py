"""The two lists of a peer: which it takes, and when one counts; and the table of stamps."""

from dpeer.peer.core.member_list import NO_KEY, Key, MemberLists, Stamp, StampTable, Word, by_rank
from tests.peer.core.test_member_list import after, first

ZERO = first(5)
ONE = after(ZERO, remove=[4])
OTHER = after(ZERO, add=[5])
TWO = after(ZERO, rounds=90, version=2)


def test_a_list_that_follows_is_voted_for_and_counts_once_a_quorum_has_it():
    ours = MemberLists(ZERO)
    assert ours.stamp == Stamp(ZERO.key, NO_KEY)
    assert [one.one for one in ours.take(Word(ZERO, ONE))] == [ONE]
    assert (ours.counts, ours.waits, ours.newest) == (ZERO, ONE, ONE)
    assert ours.stamp == Stamp(ZERO.key, ONE.key)
    stamps = {0: ours.stamp, 1: Stamp(ZERO.key, ONE.key)}
    assert ours.review(stamps) is None
    assert ours.voters(stamps) == {0, 1}
    change = ours.review(stamps | {2: Stamp(ONE.key, NO_KEY)})
    assert change == (ONE, "3 of 5 members have it on disk")
    assert (ours.counts, ours.waits) == (ONE, None)
    assert ours.review({}) is None


def test_a_newcomer_counts_no_votes_for_a_list_that_follows_one_which_it_lacks():
    later = after(ONE, add=[5])
    ours = MemberLists(ZERO, later)
    assert ours.review({rank: Stamp(ONE.key, later.key) for rank in range(5)}) is None
    assert [change.one for change in ours.take(Word(later))] == [later]


def test_votes_of_others_than_members_do_not_count():
    ours = MemberLists(ZERO, OTHER)
    voted = Stamp(ZERO.key, OTHER.key)
    assert ours.review({0: voted, 5: voted, 7: voted}) is None
    assert ours.review({rank: Stamp(ZERO.key, ONE.key) for rank in range(5)}) is None


def test_a_peer_votes_for_the_first_of_two_lists_of_one_number_and_a_higher_one_settles():
    ours, (low, high) = MemberLists(ZERO), sorted((ONE, OTHER), key=lambda one: one.key)
    ours.take(Word(ZERO, low))
    assert ours.take(Word(ZERO, high)) == [], "though its key is higher"
    assert ours.waits is low
    assert [change.one for change in ours.take(Word(ZERO, TWO))] == [TWO]
    assert ours.take(Word(ZERO, low)) == []
    assert ours.waits is TWO


def test_a_list_that_counts_elsewhere_is_taken_whatever_lists_are_between():
    ours = MemberLists(ZERO, OTHER)
    later = after(after(ONE, remove=[3]), add=[6])
    assert [change.one for change in ours.take(Word(later))] == [later]
    assert (ours.counts, ours.waits) == (later, None)
    assert ours.take(Word(ONE, after(ONE, remove=[3]))) == [], "an old peer's"


def test_what_waits_there_is_taken_behind_what_counts_there():
    ours, following = MemberLists(ZERO), after(ONE, remove=[3])
    assert [change.one for change in ours.take(Word(ONE, following))] == [ONE, following]
    assert (ours.counts, ours.waits) == (ONE, following)


def test_a_list_that_does_not_follow_is_not_voted_for():
    ours = MemberLists(ONE)
    assert ours.take(Word(ZERO, after(ZERO, remove=[3]))) == []
    assert ours.take(Word(ZERO, after(ONE, add=[5, 6, 7, 8, 9]))) == []
    assert ours.waits is None


def test_a_forced_list_counts_at_once_and_of_two_the_higher_key():
    forced = after(ZERO, remove=[2, 3, 4], force=True, version=3)
    ours = MemberLists(ZERO, ONE)
    assert [change.one for change in ours.take(Word(ZERO, forced))] == [forced]
    assert (ours.counts, ours.waits) == (forced, None)
    higher = after(ZERO, remove=[0, 1], force=True, version=4)
    assert [change.one for change in ours.take(Word(higher))] == [higher]
    assert ours.take(Word(ZERO, forced)) == []


# -- the table of stamps ----------------------------------------------------------------------------------------------


KEY, HIGHER = Key(1, b"1" * 32), Key(2, b"2" * 32)
VOTED, COUNTS = Stamp(KEY, HIGHER), Stamp(HIGHER, NO_KEY)


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
