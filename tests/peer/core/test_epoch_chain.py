"""Chains of epochs of many peers: drawn interleavings of news, disks, rounds and crashes, and what holds in each."""

import gc
import random
from collections import defaultdict

import pytest

from dpeer.exceptions import ProtocolError
from dpeer.peer.core.epoch import EpochGraph, EpochSetup, Member, SignedEpoch, Void, first_epoch, operator_of, successor
from dpeer.peer.core.epoch_chain import ChainRecord, EpochChain
from dpeer.peer.core.round_clock import RoundClock
from dpeer.topology import Relabeled, build
from tests.thinning import every

SECRET = bytes(range(32))
GRAPH = EpochGraph(settings={"topology": "ring"}, edges="0" * 16)
ROUNDS = 60


def first(size=4):
    return first_epoch("0" * 64, size=size, operators=[operator_of(SECRET)], signers=1, graph=GRAPH, rounds=ROUNDS)


def graphs_of(epoch):
    return Relabeled(build("full", len(epoch.members)), epoch.ranks)


def signed(epoch):
    return SignedEpoch(epoch=epoch).signed_with(SECRET).encode()


def after(previous, begins, **changes):
    return successor(previous, begins=begins, graph=GRAPH, **changes)


class Chained:
    """A peer of whose rounds only their ends are played.

    Attributes:
        ran: The epoch of each round that it has completed.
        disk: What it has on disk: the record, and the rounds that it has completed.
    """

    def __init__(self, rank, size=4, genesis=None):
        self.rank, self.size = rank, size
        self.first = genesis or first(size)
        self.disk = ChainRecord(), 0
        self.ran = {}
        self.begin()

    def begin(self):
        """Its process begins."""
        record, completed = self.disk
        self.clock = RoundClock(self.rank, self.size, ROUNDS)
        self.chain = EpochChain(EpochSetup(self.first, graphs_of), self.rank, self.clock)
        self.chain.take_up(record)
        self.chain.start(completed)
        self.writing = None

    @property
    def completed(self):
        return self.clock[self.rank]

    def consider(self):
        record = self.chain.consider()
        self.writing = record or self.writing

    def hand(self, epoch):
        self.chain.learn(signed(epoch))
        self.consider()

    def write(self):
        """What is under way to the disk is there."""
        if self.writing is not None:
            self.disk = self.writing, self.disk[1]
            self.chain.kept(self.writing)
            self.writing = None
            self.consider()

    def hear(self, other):
        for document in other.chain.lacking(self.chain.known):
            self.chain.learn(document)
        self.clock.merge(other.clock.table, other.clock.epochs)
        self.consider()

    def may_begin(self):
        number = self.completed
        return (
            not self.chain.removed
            and number < self.chain.rounds
            and number <= self.clock.quorum + 1
            and not self.chain.undecided(number)
        )

    def runs(self):
        """A whole round, if it may begin."""
        if not self.may_begin():
            return None
        number = self.completed
        turn = self.chain.enter(number)
        if self.chain.removed:
            return turn
        self.ran[number] = self.chain.current
        self.disk = self.disk[0], number + 1
        self.clock.reached(self.rank, number + 1)
        self.consider()
        return turn


def talk(peers, times=3):
    """All hear all, and write."""
    for _ in range(times):
        for one in peers:
            for other in peers:
                if one is not other:
                    one.hear(other)
            one.write()


def together(peers, until):
    """All run rounds until they have completed so many."""
    for _ in range(3 * until):
        for one in peers:
            if one.completed < until:
                one.runs()
        talk(peers, 1)


# -- the way of an epoch -----------------------------------------------------------------------------------------------


def test_an_epoch_is_accepted_on_disk_and_begins_in_its_round_at_all():
    peers = [Chained(rank) for rank in range(4)]
    together(peers, 5)
    epoch = after(first(), 10, leave=[3])
    peers[1].hand(epoch)
    assert peers[1].clock.epochs == b"", "it is not on disk yet"
    assert peers[1].chain.undecided(10)
    peers[1].write()
    assert peers[1].clock.accepted(1).revision == 1
    talk(peers)
    assert all(one.chain.pending == epoch for one in peers)
    together(peers, 12)
    assert [one.ran[9].number for one in peers] == [0] * 4
    assert [one.ran[10].number for one in peers[:3]] == [1] * 3
    assert peers[3].chain.removed
    assert peers[3].chain.rounds == 10
    assert max(peers[3].ran) == 9
    assert peers[0].clock.quorum == 12


def test_who_has_accepted_pauses_before_the_round_until_quorums_have():
    peers = [Chained(rank) for rank in range(4)]
    together(peers, 9)
    epoch = after(first(), 10, join={4: Member(address="tcp://new:1")})
    peers[0].hand(epoch)
    peers[0].write()
    peers[0].runs()
    assert peers[0].completed == 10
    assert peers[0].chain.undecided(10) == epoch
    for other in peers[1:3]:  # three of four are a quorum of the old epoch, and three of five of the new one
        other.hear(peers[0])
        other.write()
        peers[0].hear(other)
    assert peers[0].chain.undecided(10) is None


def test_a_joint_quorum_needs_members_of_the_new_epoch_too():
    peers = [Chained(rank) for rank in range(4)]
    together(peers, 5)
    joiners = {rank: Member(address=f"tcp://new:{rank}") for rank in range(4, 10)}
    epoch = after(first(), 10, join=joiners)
    peers[0].hand(epoch)
    talk(peers)
    together(peers, 10)
    assert all(one.completed == 10 and one.chain.undecided(10) == epoch for one in peers)
    new = [Chained(rank) for rank in (4, 5)]
    talk([*peers, *new])
    assert not any(one.chain.undecided(10) for one in peers)


def test_an_epoch_that_a_quorum_has_gone_past_is_void():
    """Two of five have it, and were cut off from the others, which have run its first round without."""
    peers = [Chained(rank, 5) for rank in range(5)]
    together(peers, 8)
    epoch = after(first(5), 10, leave=[0])
    peers[4].hand(epoch)
    talk(peers[3:])
    together(peers[3:], 10)
    together(peers[:3], 12)
    assert all(one.completed == 10 or one.completed == 9 for one in peers[3:])
    talk(peers)
    assert all(one.chain.void == [epoch] for one in peers)
    assert not any(one.chain.undecided(one.completed) for one in peers)
    assert peers[4].clock.accepted(4).revision == 2
    together(peers, 14)
    assert {one.ran[number].number for one in peers for number in one.ran} == {0}
    follower = after(first(5), 20, leave=[0], void=[Void(1, epoch.digest)])
    peers[2].hand(follower)
    talk(peers)
    together(peers, 22)
    assert {one.ran[21] for one in peers[1:]} == {follower}


def test_who_has_run_on_in_the_old_epoch_goes_over_before_its_next_round():
    peers = [Chained(rank, 5) for rank in range(5)]
    together(peers, 9)
    epoch = after(first(5), 10, join={5: Member()})
    peers[0].hand(epoch)
    talk(peers[:4])
    for _ in range(3):
        peers[4].runs()
    assert peers[4].completed == 11
    together(peers[:4], 12)
    peers[4].hear(peers[0])
    assert peers[4].chain.undecided(11)
    peers[4].write()
    assert peers[4].chain.pieces()[-1].begins == 0, "the graph of a round that runs does not change"
    turn = peers[4].runs()
    assert turn.wrong
    assert turn.now == epoch


def test_forced_it_begins_without_the_old_quorum():
    """Two of four are lost for good."""
    peers = [Chained(rank) for rank in range(4)]
    together(peers, 5)
    alive = [peers[1], peers[3]]
    plain, forced = (after(first(), 8, leave=[0, 2], forced=one) for one in (False, True))
    together(alive, 8)
    assert alive[0].completed == 7, "a quorum has completed five rounds"
    alive[0].hand(forced)
    talk(alive)
    together(alive, 12)
    assert {one.ran[11] for one in alive} == {forced}
    assert plain != forced


def test_of_twins_none_begins_and_a_later_epoch_names_both():
    peers = [Chained(rank) for rank in range(4)]
    together(peers, 5)
    one, other = after(first(), 10, leave=[3]), after(first(), 10, leave=[2])
    peers[0].hand(one)
    peers[3].hand(other)
    for peer in (peers[0], peers[3]):
        peer.write()
    talk(peers)
    assert all(set(peer.chain.void) == {one, other} for peer in peers)
    together(peers, 12)
    assert {peer.ran[11].number for peer in peers} == {0}
    heal = after(first(), 20, leave=[3], void=[Void(1, epoch.digest) for epoch in (one, other)])
    peers[1].hand(heal)
    talk(peers)
    together(peers, 22)
    assert {peer.ran[21] for peer in peers[:3]} == {heal}


def test_a_twin_that_comes_after_a_quorum_has_completed_the_round_changes_nothing():
    peers = [Chained(rank) for rank in range(4)]
    together(peers, 5)
    one, other = after(first(), 10, join={4: Member()}), after(first(), 10, leave=[2])
    peers[0].hand(one)
    talk(peers)
    together(peers, 11)
    peers[3].hand(other)
    talk(peers)
    together(peers, 15)
    assert {peer.ran[14] for peer in peers} == {one}
    assert not peers[0].chain.void


def test_a_late_twin_changes_nothing_though_all_begin_again_with_both_on_disk():
    """None of them has heard yet that a quorum has completed the round; each has completed it itself."""
    peers = [Chained(rank) for rank in range(4)]
    together(peers, 5)
    one, twin = after(first(), 10, rounds=ROUNDS + 1), after(first(), 10, leave=[2])
    peers[0].hand(one)
    talk(peers)
    together(peers, 11)
    peers[3].hand(twin)
    for to, gone in ((0, 1), (3, 2)):
        peers[to].hand(after(one, 20, leave=[gone]))
    talk(peers)
    assert all(len(peer.chain.void) == 2 and len(peer.disk[0].documents) == 4 for peer in peers)
    for peer in peers:
        peer.begin()
        peer.consider()
    talk(peers)
    together(peers, 15)
    assert {peer.ran[14] for peer in peers} == {one}
    assert all(peer.chain.line == (first(), one) for peer in peers)


def test_an_epoch_after_void_ones_waits_until_these_are_known_to_be_void():
    """Else three that each take another one for the first to come wait for each other in its round."""
    peers = [Chained(rank, 5) for rank in range(5)]
    together(peers, 5)
    made_up = [[Void(number, f"{number:064x}") for number in range(1, last)] for last in (1, 2, 3)]
    found = [after(first(5), 10, leave=[4], void=void) for void in made_up]
    for rank, epoch in enumerate(found):
        peers[rank].hand(epoch)
        peers[rank].write()
    assert [peer.chain.pending for peer in peers[:3]] == [found[0], None, None]
    talk(peers)
    assert {peer.chain.pending for peer in peers} == {found[0]}
    together(peers, 12)
    assert {peer.ran[11] for peer in peers[:4]} == {found[0]}


def test_an_epoch_after_the_next_waits_for_that_one():
    peers = [Chained(rank) for rank in range(4)]
    together(peers, 5)
    one = after(first(), 10, join={4: Member()})
    two = after(one, 14, rounds=ROUNDS + 10)
    peers[0].hand(one)
    peers[0].hand(two)
    talk(peers)
    assert all(peer.chain.pending == one for peer in peers)
    together(peers, 12)
    assert all(peer.chain.pending == two and peer.chain.rounds == ROUNDS + 10 for peer in peers)


def test_a_document_that_follows_nothing_known_is_refused_and_a_known_one_is_no_news():
    one = after(first(), 10, leave=[3])
    peer = Chained(0)
    with pytest.raises(ProtocolError, match="follows one that is not known here"):
        peer.chain.learn(signed(after(one, 14, leave=[2])))
    assert peer.chain.learn(signed(one)) == one
    assert peer.chain.learn(signed(one)) is None


def test_endless_epochs_of_one_number_are_of_no_use():
    peer = Chained(0)
    found = [peer.chain.learn(signed(after(first(), begins, leave=[3]))) for begins in range(10, 30)]
    assert found.index(None) == 16


def test_of_an_epoch_that_is_not_kept_the_graph_is_not_kept_either():
    built = []

    class Graphs(Relabeled):
        def __del__(self):
            built.remove(id(self))

    def counted(epoch):
        graphs = Graphs(build("full", len(epoch.members)), epoch.ranks)
        built.append(id(graphs))
        return graphs

    chain = EpochChain(EpochSetup(first(), counted), 0, RoundClock(0, 4, ROUNDS), build("full", 4))
    for begins in range(10, 50):
        chain.learn(signed(after(first(), begins, leave=[3])))
    gc.collect()
    assert len(built) == 16


def test_a_peer_takes_its_chain_up_where_it_was():
    peers = [Chained(rank) for rank in range(4)]
    together(peers, 5)
    one = after(first(), 10, join={4: Member()})
    peers[0].hand(one)
    talk(peers)
    peers[0].begin()
    assert peers[0].chain.pending == one
    assert peers[0].clock.accepted(0).revision == 1
    talk(peers)
    together(peers, 12)
    peers[0].begin()
    assert peers[0].chain.current == one
    peers[0].disk = peers[0].disk[0], 10  # a round that was not on disk
    peers[0].begin()
    assert peers[0].chain.current == first()
    assert peers[0].chain.undecided(10) == one, "presence is heard anew"


# -- drawn interleavings -----------------------------------------------------------------------------------------------


class Play:
    """Peers in random order: news between two that are not parted, disks, rounds, crashes, epochs handed."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        size = self.rng.randint(3, 7)
        self.first = first(size)
        self.peers = {rank: Chained(rank, size, self.first) for rank in range(size)}
        self.parted = set()
        self.twins = self.rng.random() < 0.4
        self.epochs = [self.first]
        self.down = set()

    def run(self, steps=600):
        for step in range(steps):
            self.step()
            if step % 20 == 0:
                self.check()
        self.parted, self.down = set(), set()
        running = True
        while running:  # joiners have many rounds to go
            talk(list(self.peers.values()), 2)
            before = [peer.completed for peer in self.peers.values()]
            for _ in range(3):
                for peer in self.peers.values():
                    peer.runs()
            running = before != [peer.completed for peer in self.peers.values()]
        talk(list(self.peers.values()), 2)
        self.check(over=True)
        return self

    def step(self):
        rng, peers = self.rng, list(self.peers.values())
        kind, one = rng.random(), rng.choice(peers)
        if one.rank in self.down:
            if kind < 0.05:
                self.down.discard(one.rank)
            return
        if kind < 0.5:
            other = rng.choice(peers)
            apart = (one.rank in self.parted) != (other.rank in self.parted)
            if other.rank not in self.down and not apart:
                one.hear(other)
        elif kind < 0.65:
            one.write()
        elif kind < 0.93:
            one.runs()
        elif kind < 0.95:
            one.begin()
        elif kind < 0.96:
            one.begin()
            self.down.add(one.rank)
        elif kind < 0.98:
            self.parted = set() if self.parted else set(rng.sample(sorted(self.peers), rng.randint(1, len(peers) - 1)))
        elif not one.chain.removed and one.rank in one.chain.current.members:
            self.hand(one)

    def hand(self, peer):
        """The operator's command: an epoch after the one of this peer, if none is under way there."""
        chain, rng = peer.chain, self.rng
        known = [epoch for epoch in self.epochs if chain.epoch(epoch.digest) and epoch.previous == chain.current.digest]
        if any(epoch not in chain.void for epoch in known) and not (self.twins and rng.random() < 0.2):
            return
        void = [Void(epoch.number, epoch.digest) for epoch in known if epoch in chain.void]
        begins = max(peer.completed, chain.current.begins) + rng.randint(2, 6)
        if begins >= ROUNDS - 1 or len(self.epochs) > 8:
            return
        leave = [rng.choice(chain.current.ranks)] if len(chain.current.members) > 2 and rng.random() < 0.6 else []
        join = (
            {}
            if leave and rng.random() < 0.7
            else {max(self.peers) + 1: Member(address=f"tcp://{max(self.peers) + 1}")}
        )
        epoch = after(chain.current, begins, join=join, leave=leave, void=void)
        if epoch in self.epochs:
            return
        self.epochs.append(epoch)
        try:
            peer.hand(epoch)
        except ProtocolError:  # of a rank that has been used elsewhere
            self.epochs.pop()
            return
        for rank in join:
            self.peers[rank] = Chained(rank, len(self.first.members), self.first)

    def check(self, over=False):
        """Of one round no two quorums are in two epochs; a void epoch was never one that a quorum has run."""
        ran = defaultdict(lambda: defaultdict(set))
        for peer in self.peers.values():
            for number, epoch in peer.ran.items():
                ran[number][epoch].add(peer.rank)
        for epoch in self.epochs[1:]:
            before = next(one for one in self.epochs if one.digest == epoch.previous)
            within = {rank for one, ranks in ran[epoch.begins].items() if descends(self, one, epoch) for rank in ranks}
            outside = {rank for ranks in ran[epoch.begins].values() for rank in ranks} - within
            assert not (quorum(before.ranks, within) and quorum(before.ranks, outside)), f"epoch {epoch.number}"
            for peer in self.peers.values() if over else ():
                if epoch in peer.chain.void:
                    assert not quorum(before.ranks, within), f"epoch {epoch.number} is void at rank {peer.rank}"
        single = [
            epoch
            for epoch in self.epochs
            if sum(other.previous == epoch.previous and other.number == epoch.number for other in self.epochs) == 1
        ]
        for peer in self.peers.values():
            assert not {*peer.ran.values()} & {*peer.chain.void} & {*single}, "a void epoch has begun"


def descends(play, epoch, other):
    while epoch is not None:
        if epoch == other:
            return True
        epoch = next((one for one in play.epochs if one.digest == epoch.previous), None)
    return False


def quorum(members, ranks):
    """Independent of the clock's."""
    there = len(set(members) & set(ranks))
    return there > len(members) / 2 or (there == len(members) / 2 and min(members) in ranks)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", every(10, range(20)))
def test_of_one_round_no_two_quorums_are_in_two_epochs(chunk):
    for seed in range(chunk, 160, 20):
        fails(seed)


def fails(seed):
    """Play a seed; raises what does not hold."""
    play = Play(seed).run()
    members = [peer for peer in play.peers.values() if peer.rank in peer.chain.current.members]
    newest = max((peer.chain.current for peer in members), key=lambda epoch: epoch.number)
    behind = [peer for peer in members if peer.chain.current != newest and peer.rank in newest.members]
    assert all(peer.chain.undecided(peer.completed) for peer in behind), f"seed {seed}: not all are in one epoch"


# -- broken rules ------------------------------------------------------------------------------------------------------


def two_of_five_evict_the_others():
    """They hear the others, and those do not hear them."""
    peers = [Chained(rank, 5) for rank in range(5)]
    together(peers, 8)
    epoch = after(first(5), 10, leave=[2, 3, 4])
    peers[0].hand(epoch)
    talk(peers[:2])
    for number in (10, 12):
        together(peers[2:], number)
        for one in peers[:2]:
            one.clock.merge(peers[2].clock.table, peers[2].clock.epochs)
        together(peers[:2], number)
    for one in peers[:2]:
        one.hear(peers[2])
        one.write()
        assert epoch not in one.ran.values(), "the other three have run its first round outside of it"
        assert one.chain.void == [epoch]


def an_epoch_is_heard_of_after_its_round_has_begun():
    """By the first of three that run it in the old one; the other two hear of it from this one alone."""
    peers = [Chained(rank, 5) for rank in range(5)]
    together(peers, 8)
    epoch = after(first(5), 10, leave=[0])
    peers[4].hand(epoch)
    talk(peers[3:])
    together(peers[:3], 10)
    peers[2].runs()
    assert peers[2].ran[10] == first(5)
    talk(peers[2:])
    together(peers[2:], 11)
    together(peers[:2], 11)
    assert all(epoch not in one.ran.values() for one in peers), "a quorum has run its first round outside of it"
    talk(peers)
    assert all(one.chain.void == [epoch] for one in peers)


def begins_without_a_quorum(patch):
    patch.setattr(EpochChain, "agreed", lambda self, epoch: True)


def skips_the_old_quorum(patch):
    def agreed(self, epoch):
        return self._clock.is_quorum(epoch.ranks, self._ranks(epoch, within=True, completed=0))

    patch.setattr(EpochChain, "agreed", agreed)


def takes_late_epochs(patch):
    following = EpochChain._next

    def late(self, last, void):
        entered, self.entered = self.entered, -1
        try:
            return following(self, last, void)
        finally:
            self.entered = entered

    patch.setattr(EpochChain, "_next", late)


ACCIDENTS = {
    begins_without_a_quorum: two_of_five_evict_the_others,
    skips_the_old_quorum: two_of_five_evict_the_others,
    takes_late_epochs: an_epoch_is_heard_of_after_its_round_has_begun,
}
"""Broken rules, and the accident that shows each."""


@pytest.mark.parametrize("accident", dict.fromkeys(ACCIDENTS.values()), ids=lambda accident: accident.__name__)
def test_an_accident_ends_well(accident):
    accident()


@pytest.mark.parametrize("broken", ACCIDENTS, ids=lambda broken: broken.__name__)
def test_a_broken_rule_shows(broken, monkeypatch):
    broken(monkeypatch)
    with pytest.raises(AssertionError):
        ACCIDENTS[broken]()
