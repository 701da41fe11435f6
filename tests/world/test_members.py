"""Member lists: peers come, go and move while rounds run, and rules that are broken one after another are found."""

import pytest

from dpeer.exceptions import ProtocolError
from dpeer.peer.core import member_list
from dpeer.peer.core.bodies import Inbox
from dpeer.peer.core.connection_setup import ConnectionSetup
from dpeer.peer.core.list_keeper import ListKeeper
from dpeer.peer.core.member_list import MemberLists, Rule
from dpeer.peer.core.membership import Membership
from dpeer.peer.core.protocol import Core
from dpeer.peer.core.schedule import Schedule
from dpeer.peer.core.waiting import Waiting
from dpeer.simulation.network import later
from tests.thinning import every
from tests.world import member_accidents as accidents


@pytest.mark.parametrize("accident", every(2, accidents.ACCIDENTS), ids=lambda one: one.__name__)
def test_an_accident_ends_well(accident):
    accident()


@pytest.mark.parametrize("accident", accidents.NOT_PROMISED)
def test_what_is_not_promised_ends_all_the_same(accident):
    """Two groups run rounds beside each other as long as the cut lasts; when it is over they have one list."""
    world = accident()
    depth, _ = world.split()
    assert depth >= 1
    assert {*world.statuses().values()} <= {"done", "left", "evicted"}


# -- mutations ---------------------------------------------------------------------------------------------------------


def a_list_counts_at_once(patch):
    patch.setattr(member_list, "is_quorum", lambda members, ranks: True)


def a_list_counts_once_anybody_has_it(patch):
    patch.setattr(member_list, "is_quorum", lambda members, ranks: bool({*ranks}))


def a_quorum_of_the_new_list_is_enough(patch):
    quorum = member_list.is_quorum

    def review(self, stamps):
        one = self.waits
        if one is None or not quorum(one.members, {rank for rank, stamp in stamps.items() if one.key in stamp}):
            return None
        self.counts, self.waits = one, None
        return member_list.Change(one, "a quorum of its own")

    patch.setattr(MemberLists, "review", review)


def lists_come_late(patch):
    """Who hears of a vote lacks what was voted for."""
    send = ListKeeper.send
    patch.setattr(ListKeeper, "send", lambda self, link: later(30.0, lambda: send(self, link)) and None)


def a_stamp_is_said_before_it_is_on_disk(patch):
    keep = ListKeeper._keep

    def hasty(self):
        keep(self)
        self.kept(self.lists.stamp)

    patch.setattr(ListKeeper, "_keep", hasty)


def presence_says_who_lacks_lists(patch):
    """What a lost disk had counts."""
    heard, send = ListKeeper.heard, ListKeeper.send
    patch.setattr(ListKeeper, "heard", lambda self, link, rank, table: heard(self, link, rank, self._stamps.table))
    patch.setattr(ListKeeper, "send", lambda self, link: send(self, link) if link in self._said else None)


def nobody_dials_all(patch):
    patch.setattr(Waiting, "is_stuck", lambda self, now: False)


def only_who_hears_no_neighbor_dials_all(patch):
    stuck = Waiting.is_stuck

    def lonely(self, now):
        return stuck(self, now) and not any(self._members.is_there(one.rank) for one in self._members.all())

    patch.setattr(Waiting, "is_stuck", lonely)


def newcomers_may_outnumber_those_who_stay(patch):
    from tests.world import members

    patch.setattr(member_list, "is_quorum", lambda members, ranks: True)
    patch.setattr(members, "is_quorum", lambda members, ranks: True)


def who_has_moved_waits_to_be_dialled(patch):
    patch.setattr(ListKeeper, "may_lack", lambda self, rank: False)


def all_rounds_are_complete_after_the_last_one(patch):
    wait = Core.wait

    def whole(self, kind, number, now):
        return wait(self, kind, self.schedule.rounds if kind == "linger" else number, now)

    patch.setattr(Core, "wait", whole)


def who_has_ended_by_another_list_is_not_awaited(patch):
    patch.setattr(Schedule, "fitting", lambda self, number: {b"", self.uses(number)})


def who_is_out_is_not_told(patch):
    heard = ListKeeper.heard

    def silent(self, link, rank, table):
        return rank not in self.lists.counts.former and heard(self, link, rank, table)

    patch.setattr(ListKeeper, "heard", silent)
    patch.setattr(ListKeeper, "has_to_tell", lambda self, rank, link: False)


def the_first_vote_stays(patch):
    rules = list(member_list.RULES)
    found = rules[-1].takes

    def first(ours, word):
        return None if ours.waits is not None else found(ours, word)

    rules[-1] = Rule(rules[-1].then, rules[-1].counts, first)
    patch.setattr(member_list, "RULES", tuple(rules))


def bodies_of_two_lists_are_mixed(patch):
    awaited = Membership.awaited
    patch.setattr(Inbox, "_fitting", lambda self, number: self._rounds.get(number, {}))
    patch.setattr(Membership, "awaited", lambda self, rank, number, now, uses=(): awaited(self, rank, number, now))


def who_leaves_is_no_member_in_a_round_that_has_begun(patch):
    def admits(self, rank):
        return rank in self._keeper.members

    patch.setattr(ConnectionSetup, "admits", admits)


MUTATIONS = [
    (a_list_counts_at_once, accidents.a_minority_evicts),
    (a_list_counts_at_once, accidents.the_other_half_evicts),
    (a_list_counts_at_once, accidents.one_after_the_other_is_evicted),
    (a_list_counts_once_anybody_has_it, accidents.a_minority_evicts),
    (a_quorum_of_the_new_list_is_enough, accidents.a_minority_evicts),
    (a_quorum_of_the_new_list_is_enough, accidents.the_other_half_evicts),
    (lists_come_late, accidents.a_vote_is_heard_of),
    (a_stamp_is_said_before_it_is_on_disk, accidents.a_vote_is_not_on_disk),
    (presence_says_who_lacks_lists, accidents.a_lost_disk_had_the_list),
    (nobody_dials_all, accidents.islands_hear_themselves),
    (only_who_hears_no_neighbor_dials_all, accidents.islands_hear_themselves),
    (nobody_dials_all, accidents.away_behind_a_firewall),
    (newcomers_may_outnumber_those_who_stay, accidents.newcomers_do_not_come),
    (who_has_moved_waits_to_be_dialled, accidents.a_member_moves_from_between_others),
    (all_rounds_are_complete_after_the_last_one, accidents.rounds_are_added_while_the_last_one_is_written),
    (who_has_ended_by_another_list_is_not_awaited, accidents.rounds_are_added_as_the_last_one_ends),
    (who_is_out_is_not_told, accidents.a_leaver_hears_late),
    (who_is_out_is_not_told, accidents.forced_beside_others),
    (the_first_vote_stays, accidents.two_operators_at_once),
    (bodies_of_two_lists_are_mixed, accidents.whole_rounds),
    (who_leaves_is_no_member_in_a_round_that_has_begun, accidents.whole_rounds),
]


@pytest.mark.parametrize(
    "broken", every(4, MUTATIONS), ids=[f"{one.__name__}-{other.__name__}" for one, other in MUTATIONS]
)
def test_an_accident_finds_a_broken_rule(broken, monkeypatch):
    mutation, accident = broken
    mutation(monkeypatch)
    with pytest.raises((AssertionError, KeyError, ProtocolError)):
        accident()
