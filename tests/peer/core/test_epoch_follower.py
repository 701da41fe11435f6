"""A core that follows epochs: what is on disk before others hear of it, and how links and neighbors follow."""

import pytest

from dpeer.exceptions import Isolated, Refused
from dpeer.peer.core import wire
from dpeer.peer.core.effects import Admit, Dial, Fail, Keep, Wake
from dpeer.peer.core.epoch import EpochSetup, Member, operator_of
from dpeer.topology import build
from tests.messages.epochs import ONE, SECRET, TWO, after, first, record, ring, signed
from tests.peer.table import Table


class Following(Table):
    """A core in a federation of four on a ring that operators can change; all of its neighbors are there.

    Attributes:
        keeps: What was to be put on disk.
        admits: Who was to be let in.
    """

    def __init__(self, rank=0, **config):
        self.keeps, self.admits, self.dials = [], [], []
        super().__init__(rank, build("ring", 4), rounds=20, epochs=EpochSetup(first(), ring), **config)

    def do(self, effects):
        effects = list(effects)
        self.keeps += [one.record for one in effects if isinstance(one, Keep)]
        self.admits += [one.keys for one in effects if isinstance(one, Admit)]
        self.dials += [one.rank for one in effects if isinstance(one, Dial)]
        super().do(effects)

    def meet(self, *ranks, number=0):
        """These ranks shake hands and are in a round, as all are."""
        for rank in ranks:
            self.hear(f"from {rank}", self.hello(rank, number), self.beat(rank, number, presence=[number] * 4))

    def write(self):
        """What was to be put on disk is there."""
        while self.keeps:
            self.do(self.core.kept(self.keeps.pop(0), self.now))

    def told(self, epoch, rank=1):
        self.hear(f"from {rank}", wire.EpochMessage(rank=rank, document=signed(epoch)))

    def kinds_to(self, rank):
        return self.kinds(f"from {rank}")


def test_an_epoch_is_on_disk_before_others_hear_that_it_is_accepted():
    peer = Following()
    peer.meet(1, 3)
    peer.written("from 3")
    peer.told(ONE)
    assert peer.keeps == [record(ONE)]
    assert peer.kinds_to(3) == ["epoch"], "it is passed on at once"
    assert peer.core.round_clock.epochs == b""
    assert peer.core.epochs.chain.pending is None
    assert "is known to have accepted it" in peer.core.waiting.blocked(0)
    peer.write()
    assert peer.core.round_clock.accepted(0).revision == 1
    assert peer.core.epochs.chain.pending == ONE
    assert peer.core.waiting.blocked(0) is None
    assert peer.kinds_to(3) == ["heartbeat"]
    assert [said.event for said in peer.said if said.event == "epoch-accepted"] == ["epoch-accepted"]


def test_other_operators_are_logged_when_their_epoch_is_accepted():
    peer = Following()
    peer.meet(1, 3)
    theirs = operator_of(bytes([7] * 32))
    peer.told(after(first(), 9, rounds=30, operators=[theirs]))
    peer.write()
    [line] = [said for said in peer.said if said.event == "operators-changed"]
    assert line.message == (
        f"epoch 1 changes who signs: operator added: {theirs[:16]}…; operator removed: {operator_of(SECRET)[:16]}…; "
        "operators: 1, of whom 1 must sign the next change"
    )


def test_the_same_operators_are_not_logged():
    peer = Following()
    peer.meet(1, 3)
    peer.told(ONE)
    peer.write()
    assert [said.event for said in peer.said if said.event.startswith("operators")] == []


def test_an_epoch_beyond_the_bytes_that_a_peer_keeps_is_refused_where_it_is_handed_over(monkeypatch):
    monkeypatch.setattr("dpeer.peer.core.epoch_chain.ALL_EPOCHS_BYTES", len(signed(ONE)) + 10)
    peer = Following()
    peer.meet(1, 3)
    peer.told(ONE)
    peer.write()
    refused, _ = peer.core.hand(signed(TWO), peer.now)
    assert refused == "epoch 2 is one more than a peer keeps: start the federation anew from its models"
    peer.told(TWO)
    peer.write()
    assert [one.number for one in peer.core.epochs.chain.line] == [0, 1]


def test_a_document_is_passed_on_once_and_never_back():
    peer = Following()
    peer.meet(1, 3)
    for rank in (1, 3):
        peer.written(f"from {rank}")
    for _ in range(2):
        peer.told(ONE)
        peer.told(ONE, rank=3)
    peer.write()
    assert peer.kinds_to(1) == ["heartbeat"]
    assert peer.kinds_to(3) == ["epoch", "heartbeat"]


def test_a_document_that_is_not_valid_is_dropped_and_the_next_one_taken():
    peer = Following()
    peer.meet(1, 3)
    for document in (b"{", signed(TWO), signed(ONE).replace(b'"begins":9', b'"begins":8')):
        peer.hear("from 1", wire.EpochMessage(rank=1, document=document))
    assert peer.keeps == []
    assert peer.core.drops.counts == {"malformed": 1, "epoch": 2}
    peer.told(ONE)
    assert peer.keeps == [record(ONE)]


def test_new_neighbors_are_dialled_in_the_round_before_and_admitted_once_the_epoch_is_on_disk():
    epoch = after(first(), 3, join={4: Member(address="tcp://10.0.0.4:7700", keys=("ab" * 32,))})
    peer = Following()
    peer.meet(1, 3)
    peer.told(epoch)
    assert not peer.admits or 4 not in peer.admits[-1]
    peer.write()
    assert peer.admits[-1] == {0: (), 1: (), 2: (), 3: (), 4: (bytes.fromhex("ab" * 32),)}
    for number in (0, 1):
        peer.do(peer.core.begin(number, peer.now))
    assert peer.dials == []
    peer.do(peer.core.begin(2, peer.now))
    assert peer.dials == [4]
    assert peer.core.members[4].status.value == "dead", "a joiner that has not appeared holds no round up"


def test_who_has_been_a_member_for_longer_is_let_in_first():
    """Of two with one key the first one has it; here 5 joins after 17."""
    one = after(first(), 3, join={17: Member()}, leave=[1])
    two = after(one, 6, join={5: Member()})
    peer = begun(one)
    peer.told(two)
    peer.write()
    assert [*peer.admits[-1]] == [0, 1, 2, 3, 17, 5]


def begun(epoch, dials=(), accept=(0, 1, 2, 3)):
    """A peer in the first round of an epoch, which these have accepted; it has dialled one neighbor, or none."""
    peer = Following()
    peer.meet(*{1, 3} - {*dials})
    for rank in dials:
        peer.core.epochs.addresses[rank] = f"tcp://10.0.0.{rank}:7700"
        peer.do(peer.core.connection_setup.dialling.begin([rank]))
        peer.established(rank)
        peer.hear(peer.links[rank], peer.hello(rank, reply=True))
    peer.told(epoch)
    peer.write()
    accepted = peer.core.round_clock.epochs[:20]  # this peer's own
    for number in range(1, epoch.begins + 1):
        for rank in (1, 3):
            there = number if rank in accept else number - 1
            beat = peer.beat(rank, there, presence=[number, number, number, there])
            epochs = b"".join(accepted if one in accept else bytes(20) for one in range(4))
            link = peer.links[rank] if rank in dials else f"from {rank}"
            peer.hear(link, beat.model_copy(update={"epochs": epochs}))
        peer.do(peer.core.begin(number, peer.now))
        assert not peer.core.waiting.holds(number)
        peer.do(peer.core.enter(number, peer.now))
    assert peer.core.epochs.chain.current == epoch
    return peer


@pytest.mark.parametrize(
    ("number", "paused", "awaited"), [(2, False, True), (3, True, True), (3, False, False), (4, True, False)]
)
def test_a_neighbor_is_waited_for_until_it_has_begun_another_epoch(number, paused, awaited):
    """One that has not accepted the epoch, because its disk is slow, may still begin it."""
    peer = begun(after(first(), 3, leave=[2]), accept=(0, 1, 2))
    peer.hear("from 3", peer.beat(3, number, presence=[3, 3, 3, number], paused=paused))
    assert (3 in peer.core.exchange.awaited(3, peer.now)) is awaited


def test_a_leaver_is_let_in_until_a_round_without_it_is_complete():
    """Its last body, or its word that it is done, may be under way: a round that needs it would wait in vain."""
    peer = begun(after(first(), 3, leave=[3]))
    assert peer.admits[-1].keys() == {0, 1, 2, 3}
    assert peer.core.members[3].expected
    peer.do(peer.core.begin(4, peer.now))
    assert peer.admits[-1].keys() == {0, 1, 2}
    assert 3 not in peer.core.members


@pytest.mark.parametrize("how", [{"evict": [3]}, {"leave": [3], "forced": True}])
def test_who_is_taken_out_is_a_stranger_at_once_and_not_waited_for(how):
    peer = begun(after(first(), 3, **how))
    assert peer.admits[-1].keys() == {0, 1, 2}
    assert not peer.core.members[3].expected
    assert peer.core.exchange.unsettled(3, peer.now) == []


def test_a_silent_rank_is_dialled_anew_unless_an_epoch_has_taken_it_out():
    """Its key is gone: with keys the transport knows none that it could have to prove, and refuses to dial it."""
    for gone, dialled in ((1, [3, 3]), (3, [3])):
        peer = begun(after(first(), 3, evict=[gone]), dials=[3])
        peer.wait(40)
        assert [rank for rank in peer.dials if rank == 3] == dialled


def test_a_joiner_whose_epoch_is_void_is_not_dialled_anew():
    epoch = after(first(), 3, join={4: Member(address="tcp://10.0.0.4:7700")})
    peer = Following()
    peer.meet(1, 3)
    peer.told(epoch)
    peer.write()
    for number in (0, 1, 2):
        peer.do(peer.core.begin(number, peer.now))
    assert peer.dials == [4]
    peer.told(after(first(), 4, leave=[2]))
    peer.write()
    assert peer.admits[-1].keys() == {0, 1, 2, 3}
    peer.wait(40)
    assert 4 not in peer.dials[1:]


def test_a_joiner_does_not_dial_a_rank_of_its_file_that_was_taken_out():
    peer = Following(rank=4)
    peer.core.epochs.addresses = {rank: f"tcp://10.0.0.{rank}:7700" for rank in range(4)}
    taken_out = after(first(), 3, evict=[3])
    peer.core.epochs.take_up(record(taken_out))
    peer.core.prepare(0)
    assert sorted(peer.core.epochs.to_dial()) == [0, 1, 2]


def test_a_joiner_that_listens_nowhere_dials_its_neighbors_whatever_address_its_epoch_has():
    """Else its neighbors alone would dial it, in vain, once the links are broken by which it has come."""
    peer = Following(rank=4)
    peer.core.epochs.addresses = dict.fromkeys(range(4), "relay://10.0.0.9:7790")
    joined = after(first(), 9, join={4: Member(address="relay://10.0.0.9:7790")})
    peer.core.epochs.take_up(record(joined))
    assert not peer.core.epochs.is_to_dial(0)
    peer.core.epochs.listens = False
    assert peer.core.epochs.is_to_dial(0)


def test_a_joiner_that_listens_nowhere_hears_of_the_address_that_it_lacks_once():
    peer = Following(rank=4)
    peer.core.epochs.addresses = {0: "tcp://10.0.0.1:7700"}
    peer.core.epochs.listens = False
    peer.core.prepare(0)
    peer.core.epochs.to_dial()
    peer.do(peer.core.dialled(0, "from 0", peer.now))
    peer.do(peer.core.connected("from 0", peer.now))
    peer.hear("from 0", peer.hello(0, 3, reply=True))
    joined = after(first(), 9, join={4: Member(address="relay://10.0.0.9:7790")})
    for epoch in (joined, after(joined, 12, leave=[2])):
        peer.told(epoch, rank=0)
        peer.write()
    (line,) = peer.events("no-address")
    assert line.message == (
        "by its epoch neighbors dial this peer at relay://10.0.0.9:7790, and it listens nowhere: start it again with "
        "--resume, and with that address as rank.4.address in its federation file; until then it dials them"
    )


def early():
    """A joiner that enters in round 9, so that it begins with round 8; its neighbors are in round 2."""
    peer = Following(rank=4, wait=30.0, deadline=10.0)
    peer.core.epochs.take_up(record(after(first(), 9, join={4: Member()})))
    peer.core.prepare(8)
    peer.meet(0, 3, number=2)
    peer.do(peer.core.begin(8, peer.now))
    peer.do(peer.core.pause(8, peer.now))
    return peer


def beats(peer, number):
    for rank in (0, 3):
        peer.hear(f"from {rank}", peer.beat(rank, number, presence=[number] * 4))


def test_a_joiner_that_is_early_waits_for_members_that_are_there_however_long_their_rounds_last():
    peer = early()
    peer.wait(300, lambda: beats(peer, 2))
    assert peer.ended == []
    lines = peer.events("paused")
    assert {(one.level, one.message) for one in lines} == {
        ("info", "waits before round 9: the others are not in round 9 yet, before that of its entry")
    }
    assert len(lines) <= 6, "rarer and rarer"
    beats(peer, 8)
    assert peer.ended == [Wake()]
    assert peer.core.waiting.pauses.count == 0, "no line was cut"


def test_a_joiner_that_is_early_and_hears_no_member_any_more_ends_after_its_wait():
    peer = early()
    peer.wait(60, lambda: None)
    (end,) = peer.ended
    assert isinstance(end.error, Isolated)


def test_a_joiner_waits_for_the_bodies_of_neighbors_that_come_to_its_round_after_a_deadline():
    """They are slower than it thinks: it has not trained."""
    peer = early()
    beats(peer, 7)
    assert peer.ended == [Wake()]
    peer.core.join(8)
    assert peer.core.waiting.behind(8)
    peer.do(peer.core.collect(8, peer.now))
    peer.wait(60, lambda: beats(peer, 7))
    assert len(peer.ended) == 1
    assert not any(peer.core.members[rank].overdue for rank in (0, 3))
    assert not peer.events("waiting"), "neither is slow"


def test_a_peer_that_no_epoch_lists_says_hello_every_five_beats():
    peer = Following(rank=4)
    peer.core.epochs.addresses = {0: "tcp://10.0.0.1:7700"}
    peer.core.prepare(0)
    assert peer.core.epochs.to_dial() == peer.core.epochs.addresses
    peer.do(peer.core.dialled(0, "to 0", peer.now))
    peer.do(peer.core.connected("to 0", peer.now))
    peer.hear("to 0", peer.hello(0, 3, reply=True))
    said = []

    def hellos(seconds):
        peer.wait(seconds, lambda: said.extend(peer.kinds("to 0")))
        return said.count("hello")

    assert hellos(4) == 1
    assert hellos(2) == 2
    peer.hear("to 0", peer.hello(0, 3, reply=True))
    assert hellos(6) == 3
    joined = after(first(), 9, join={4: Member()})
    peer.hear("to 0", wire.EpochMessage(rank=0, document=signed(joined)))
    peer.write()
    assert "hello" in peer.kinds("to 0"), "its earlier ones were a stranger's"


@pytest.mark.parametrize(("recalls", "ended"), [(8, 0), (9, 1)])
def test_a_private_joiner_that_begins_again_is_told_of_a_lost_ledger_only_if_it_has_released(recalls, ended):
    """It counts as in the round before its entry, and the others know that of its process that was killed."""
    peer = Following(rank=4, unrecorded=True)
    peer.core.epochs.addresses = {0: "tcp://10.0.0.1:7700"}
    peer.core.prepare(0)
    peer.core.epochs.to_dial()
    peer.do(peer.core.meet(peer.now))
    peer.do(peer.core.dialled(0, "to 0", peer.now))
    peer.hear("to 0", peer.hello(0, 8, reply=True, recalls=recalls))
    assert not peer.ended
    peer.hear("to 0", wire.EpochMessage(rank=0, document=signed(after(first(), 9, join={4: Member()}))))
    peer.write()
    assert len([one for one in peer.ended if isinstance(one, Fail)]) == ended


def test_a_joiner_whose_settings_differ_ends_at_once():
    peer = Following(rank=4)
    peer.core.epochs.addresses = {0: "tcp://10.0.0.1:7700"}
    peer.core.prepare(0)
    peer.core.epochs.to_dial()
    peer.do(peer.core.meet(peer.now))
    peer.do(peer.core.dialled(0, "to 0", peer.now))
    peer.hear("to 0", peer.hello(0, 3, reply=True, fingerprint={"size": 4}))
    (failed,) = peer.ended
    assert isinstance(failed.error, Refused)
