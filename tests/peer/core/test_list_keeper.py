"""Member lists in the core: which come in, what is written before it is said, and what goes on which link."""

from dataclasses import replace

import pytest

from dpeer.exceptions import TopologyError
from dpeer.peer.config import ListsConfig
from dpeer.peer.core import wire
from dpeer.peer.core.effects import Admit, Dial, Keep
from dpeer.peer.core.member_list import (
    NO_KEY,
    Former,
    Key,
    Member,
    MemberList,
    MemberListError,
    Signers,
    Stamp,
    StampTable,
    by_rank,
)
from dpeer.topology import build
from tests.peer.core.test_member_list import OPERATORS
from tests.peer.table import Table

PUBLIC = OPERATORS[0].public_key().public_bytes_raw().hex()
RUN = "ab" * 32
ZERO = MemberList(RUN, 0, b"", {rank: Member(f"tcp://host-{rank}:1") for rank in range(3)}, {}, 5, "ring", "")


def graph_of(one):
    if one.graph == "none":
        raise TopologyError("graph 'none' does not exist")
    return build(one.graph, len(one.members))


def after(before, *, add=(), remove=(), **changes):
    members = {rank: one for rank, one in before.members.items() if rank not in remove}
    members |= {rank: Member(f"tcp://host-{rank}:1", ("aa" * 32,)) for rank in add}
    former = {**before.former, **{rank: Former(("bb" * 32,), "left") for rank in remove}}
    how = {"version": before.version + 1, "previous": before.digest, "members": members, "former": former}
    return replace(before, signatures={}, **(how | changes)).signed(OPERATORS[0])


ONE = after(ZERO, add=[3])
OUT = after(ZERO, remove=[2])


class Listed(Table):
    """A table that notes what is to be written, and has it on disk when `writes` is called."""

    def __init__(self, rank=0, given=None, forbids=None, **config):
        self.keeps, self.admitted, self.order = [], [], []
        super().__init__(rank, lists=ListsConfig(ZERO, Signers((PUBLIC,)), graph_of, given, forbids), **config)

    def open(self, dialled, start):
        if self.core.lists._config.given is not None:
            self.core.lists.resume(None, None)
        self.do(self.core.open(dialled, start, self.now, {rank: f"tcp://host-{rank}:1" for rank in range(3)}))

    def do(self, effects):
        effects = list(effects)
        self.order += [type(one) for one in effects]
        self.keeps += [one for one in effects if isinstance(one, Keep)]
        self.admitted += [one for one in effects if isinstance(one, Admit)]
        super().do(effects)

    def hand(self, one):
        why, effects = self.core.hand(one, self.now)
        self.do(effects)
        return why

    def writes(self):
        for keep in [self.keeps.pop(0) for _ in list(self.keeps)]:
            self.do(self.core.kept(keep.stamp, self.now))

    @property
    def lists(self):
        return self.core.lists.lists


def lists(rank, counts=None, waits=None):
    return wire.Lists(
        rank=rank, counts=b"" if counts is None else counts.encode(), waits=b"" if waits is None else waits.encode()
    )


def stamps(*found):
    table = StampTable(99)
    for rank, stamp in found:
        table.reached(rank, stamp)
    return table.table


def ring(**how):
    table = Listed(dialled=[1], **how)
    table.established(1)
    table.hear(table.links[1], table.hello(1, reply=True))
    table.hear("from 2", table.hello(2))
    for link in (table.links[1], "from 2"):
        table.written(link)
    return table


def test_a_list_is_passed_on_at_once_and_its_stamp_is_said_when_it_is_on_disk():
    table = ring()
    assert table.hand(ONE) is None
    (keep,) = table.keeps
    assert (keep.counts, keep.waits) == (ZERO, ONE)
    (sent,) = table.written("from 2")
    assert (sent.kind, sent.counts, sent.waits) == ("lists", b"", ONE.encode())
    assert table.core.round_clock.stamps.table == [], "it is not on disk"
    table.writes()
    (beat,) = table.written("from 2")
    assert by_rank(beat.stamps) == {0: table.lists.stamp}


def test_the_lists_go_before_the_hello_and_once_on_a_link():
    table = ring()
    table.hand(ONE)
    table.writes()
    table.written("from 2")
    table.hear("anew", table.hello(2))
    table.wait(2)
    table.hear("anew", table.hello(2))
    assert table.kinds("anew")[:2] == ["lists", "answer"] or table.kinds("anew") == []


def test_a_quorum_on_disk_makes_a_list_count_and_its_members_neighbors():
    table = ring()
    table.hand(ONE)
    table.writes()
    voted = table.lists.stamp
    table.hear("from 2", replace_stamps(table.beat(2, 0), stamps((2, voted))))
    assert (table.lists.counts, table.lists.waits) == (ONE, None)
    assert table.core.round_clock.members == [0, 1, 2, 3]
    assert [one.rank for one in table.core.members.all()] == [1, 3]
    assert table.admitted[-1].keys[3] == ("aa" * 32,)
    assert table.keeps[-1].counts == ONE


def replace_stamps(beat, table):
    return beat.model_copy(update={"stamps": table})


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (replace(ONE, signatures={}), "0 operators have signed it, expected 1"),
        (replace(ONE, federation="cd" * 32).signed(OPERATORS[0]), "it is of federation cdcdcdcdcdcdcdcd"),
        (after(ZERO, graph="none"), "graph 'none' does not exist"),
        (after(ZERO, rounds=4), "it has 4 rounds, fewer than 5"),
        (replace(ONE, previous=b"x").signed(OPERATORS[0]), "it follows another list than the one in use"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused_in_one_line(one, why):
    table = ring()
    assert why in table.hand(one)
    assert table.keeps == []
    table.hear("from 2", lists(2, waits=one))
    assert table.lists.waits is None


def test_messages_before_a_hello_are_paid_by_the_rank_that_has_proved_itself():
    table, long = Listed(0, dialled=[], authenticated=True), wire.Lists(rank=2, counts=bytes(2**19))
    for number in range(200):
        table.hear(f"link {number}", long, identity=2)
        table.breaks(f"link {number}")
    assert table.core.reports.counts["too-many"] > 100


def test_a_list_that_is_here_already_is_not_taken_again():
    table = ring()
    table.hand(ONE)
    assert table.hand(ONE) == "member list 1 is here already"
    assert table.hand(OUT) == "member list 1: list 0 counts, and list 1 waits for votes: give it a higher version"
    table.hear("from 2", lists(2, counts=ONE))
    assert table.lists.counts == ONE
    assert table.hand(ONE) == "member list 1 is here already"


def test_without_operators_no_list_is_taken():
    table = Table()
    why, _ = table.core.hand(ONE, table.now)
    assert why == "the federation file lists no operators: no list can be signed"
    table.hear("from 2", table.hello(2), lists(2, counts=ONE))
    assert table.core.reports.counts["lists"] == 1


def test_a_former_member_that_knocks_gets_the_lists_and_nothing_else():
    table = ring()
    table.hear(table.links[1], lists(1, counts=OUT))
    table.writes()
    table.written("from 2")
    table.hear("knocks", table.hello(2))
    assert table.kinds("knocks") == ["lists"]
    table.hear("knocks", lists(2, counts=after(OUT)))
    assert table.lists.counts == OUT
    assert not table.core.reports.counts, "a list has had it"


def test_a_former_member_that_stays_gets_the_lists_alone_and_loses_its_link_once_it_knows():
    table = ring()
    table.hand(after(ZERO, remove=[2], force=True))
    table.writes()
    table.wait(20, lambda: table.hear("from 2", table.beat(2, 0)))
    assert table.kinds("from 2") == ["lists"]
    assert "from 2" not in table.closed
    table.hear("from 2", replace_stamps(table.beat(2, 0), stamps((2, table.lists.stamp))))
    table.wait(1)
    assert "from 2" in table.closed


def test_messages_of_a_rank_that_no_list_has_had_are_counted_as_dropped():
    table = ring()
    table.hear("knocks", table.hello(7), lists(7, waits=ONE))
    assert table.lists.waits is None
    assert table.core.reports.counts == {"no-member": 2}


def test_who_reads_a_higher_stamp_without_lists_answers_once_with_its_own():
    table, high = ring(), after(ONE)
    beat = replace_stamps(table.beat(2, 0), stamps((2, table.core.lists.lists.stamp._replace(counts=high.key))))
    table.hear("from 2", beat)
    assert table.kinds("from 2") == ["heartbeat"]
    table.hear("from 2", beat)
    assert table.kinds("from 2") == []


def test_what_is_said_of_lists_that_nobody_has_shown_holds_no_vote_back():
    table, none = ring(), Stamp(Key(2**31 - 1, b"\xff" * 32), NO_KEY)
    table.hear("from 2", replace_stamps(table.beat(2, 0), stamps((1, none))))
    table.hand(OUT)
    table.writes()
    voted = table.lists.stamp
    table.hear("from 2", replace_stamps(table.beat(2, 0), stamps((1, none), (7, voted))))
    assert dict(table.core.round_clock.stamps) == {0: voted}
    table.hear(table.links[1], replace_stamps(table.beat(1, 0), stamps((1, voted))))
    assert table.lists.counts == OUT


@pytest.mark.parametrize("table", [Table(), ring()], ids=["without operators", "with operators"])
def test_a_hello_with_stamps_of_ranks_and_lists_that_are_none_is_not_passed_on(table):
    many = stamps(*((rank, Stamp(Key(1, b"1" * 32), NO_KEY)) for rank in range(40)))
    table.hear("again", table.hello(2).model_copy(update={"stamps": many}))
    assert table.core.round_clock.stamps.table == []


def test_a_former_rank_0_says_nothing_in_the_name_of_another_rank():
    table = Listed(1, dialled=[], authenticated=True)
    out = after(ZERO, remove=[0], force=True)
    table.hand(out)
    table.writes()
    table.hear("from 0", lists(2, after(out, rounds=50)), identity=0)
    assert (table.lists.counts, table.core.reports.counts["wrong-rank"]) == (out, 1)


def test_a_peer_that_is_out_leaves_before_its_next_round():
    table = Listed(rank=2)
    table.hear("from 0", table.hello(0), lists(0, counts=OUT))
    assert table.core.lists.gone == "left"
    table.do(table.core.wait("pause", 0, table.now))
    assert type(table.ended[-1]).__name__ == "Wake"


def forbidding(rank=0, **config):
    """A table of a peer whose site allows five rounds and the neighbors 1 and 2."""

    def forbids(one, neighbors):
        return f"list {one.version} is forbidden" if one.rounds > 5 or {*neighbors} > {1, 2} else None

    return Listed(rank, forbids=forbids, **config)


@pytest.mark.parametrize("changes", [{"rounds": 6}, {"add": [3], "graph": "full"}])
def test_a_list_that_the_sites_policy_forbids_gets_no_vote_and_ends_the_peer_once_it_counts(changes):
    table, bad = forbidding(), after(ZERO, **changes)
    table.hear("from 2", table.hello(2), lists(2, waits=bad))
    assert (table.hand(bad), table.lists.waits, table.core.lists.end) == ("list 1 is forbidden", None, None)
    assert table.hand(after(ZERO, remove=[1])) is None, "another one gets it"
    table.hear("from 2", lists(2, counts=bad))
    assert table.lists.counts == bad
    assert (table.core.lists.end.ending, str(table.core.lists.end)) == ("stopped", "list 1 is forbidden")
    table.do(table.core.wait("pause", 0, table.now))
    assert type(table.ended[-1]).__name__ == "Wake"


def test_a_forced_list_that_the_policy_forbids_counts_all_the_same():
    table, bad = forbidding(), after(ZERO, rounds=6, force=True)
    table.hear("from 2", table.hello(2), lists(2, waits=bad))
    assert table.lists.counts == bad
    assert table.core.lists.end is not None


def test_list_0_was_looked_at_before_the_start():
    assert Listed(forbids=lambda one, neighbors: "never").core.lists.end is None


def test_a_newcomer_is_let_in_before_it_is_dialled():
    table = Listed(given=ONE)
    assert 3 in table.links
    assert table.order.index(Admit) < table.order.index(Dial)


def test_a_newcomer_waits_for_a_list_with_it_and_dials_all_members():
    table = Listed(rank=3, given=ONE)
    table.wait(1)
    assert {*table.links} == {0, 1, 2}
    table.established(0)
    table.do(table.core.wait("pause", 0, table.now))
    assert table.ended == []
    assert table.core.waiting.blocked(0) == "no member list that has this peer counts yet"
    table.hear(table.links[0], lists(0, counts=ONE), table.hello(0, reply=True))
    assert type(table.ended[-1]).__name__ == "Wake"
    assert table.core.behind(0), "it sits out until it has adopted bodies"


@pytest.mark.parametrize(("completed", "waits"), [(0, False), (1, True)])
def test_a_member_that_a_list_makes_a_neighbor_is_dialled_at_once_and_waited_for_if_it_keeps_up(completed, waits):
    table = Listed(rank=1, topology=build("star", 3), start=4)
    table.hear("from 0", table.hello(0, 4, presence=[4, 4, completed]))
    table.do(table.core.wait("meet", 0, table.now))
    table.do(table.core.enter(4, table.now))
    table.wait(1)
    assert 2 not in table.links
    table.hear("from 0", lists(0, counts=after(ZERO, graph="ring")))
    table.do(table.core.begin(4, table.now))
    assert 2 in table.links
    assert table.core.members.waited_for(2, 4, table.now) is waits


def test_a_list_given_at_the_start_takes_no_vote_back_for_another_of_its_number():
    low, high = sorted((after(ZERO, rounds=9), after(ZERO, rounds=8)), key=lambda one: one.key)
    table = Listed(given=high)
    table.core.lists.resume(None, low)
    assert table.lists.waits == low
    table = Listed(given=after(ZERO, rounds=7, version=2))
    table.core.lists.resume(None, low)
    assert table.lists.waits.version == 2


def test_a_list_given_at_the_start_is_said_when_it_is_on_disk():
    table = Listed(given=ONE)
    assert dict(table.core.round_clock.stamps) == {}
    assert [keep.waits for keep in table.keeps] == [ONE]
    table.writes()
    assert dict(table.core.round_clock.stamps) == {0: table.lists.stamp}


def test_a_list_on_disk_that_was_changed_by_hand_is_named_with_its_file():
    with pytest.raises(MemberListError, match=r"^members.json: member list 1: the signature of .* is none"):
        Listed().core.lists.resume(replace(ONE, rounds=9), None)


def test_a_member_that_the_higher_list_has_never_had_is_out():
    table = Listed(3, given=after(ZERO, add=[3]))
    assert table.core.lists.joins
    table.hear("from 0", table.hello(0), lists(0, after(ZERO, add=[3])))
    win = after(ZERO, remove=[2], version=2, force=True)
    table.hear("from 0", lists(0, win))
    assert (table.lists.counts, table.core.lists.gone, table.core.lists.joins) == (win, "evicted", False)
    newcomer = Listed(3, given=after(ZERO, add=[3]))
    newcomer.hear("from 0", newcomer.hello(0), lists(0, win))
    assert (newcomer.core.lists.gone, newcomer.core.lists.joins) == (None, True)


def test_messages_that_cannot_be_handled_are_logged_once(monkeypatch):
    table = ring()
    monkeypatch.setattr(table.core.lists, "on_lists", lambda message: 1 / 0)
    for _ in range(3):
        table.hear("from 2", lists(2, ONE))
    assert table.core.reports.counts["unhandled"] == 3
    assert len(table.events("message-unhandled")) == 1
