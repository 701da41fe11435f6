"""The core by itself: told what happens and when, it says what is to be done."""

import pytest

from dpeer.exceptions import PeersMissing
from dpeer.peer import LivenessConfig, PeerConfig
from dpeer.peer.core import wire
from dpeer.peer.core.effects import Close, Deliver, Dial, Fail, LogEvent, Wake, Write
from dpeer.peer.core.membership import Status
from dpeer.peer.core.protocol import Core
from dpeer.topology import build

FINGERPRINT = {"size": 3, "body_lr": 0.05}
LIVENESS = LivenessConfig(heartbeat=1.0, suspect_after=5.0, dead_after=15.0, stop_grace=2.0)


class Driven:
    """Rank 0 of a ring of three whose core is told everything by hand; it has dialled both neighbors."""

    def __init__(self, learner, start=0, **options):
        self.now = 0.0
        self.learner, self.effects = learner, []
        config = PeerConfig(
            rank=0, rounds=10, fingerprint=FINGERPRINT, liveness=LIVENESS, listen=None, wait=300.0, **options
        )
        self.core = Core(config, learner, build("ring", 3), None)
        self.do(self.core.open([1, 2], start, 0.0))
        for rank in (1, 2):
            self.do(self.core.dialled(rank, f"link-{rank}", 0.0))
            self.do(self.core.connected(f"link-{rank}", 0.0))
        self.do(self.core.meet(0.0))

    def do(self, effects):
        """Write all that is to be written; note the other effects."""
        todo = list(effects)
        while todo:
            effect = todo.pop(0)
            self.effects.append(effect)
            if isinstance(effect, Write):
                while self.core.outgoing(effect.link) is not None:
                    self.core.taken(effect.link)

    def hear(self, rank, message, link=None):
        self.do(self.core.receive(link or f"link-{rank}", wire.encode(message), self.now))

    def hello(self, rank, next_round, **fields):
        self.hear(rank, wire.Hello(
            rank=rank, next_round=next_round, reply=True, fingerprint=FINGERPRINT, manifest=self.learner.manifest,
            digest=self.learner.digest, **fields,
        ))  # fmt: skip

    def beat(self, rank, number):
        federation = wire.federation_id(FINGERPRINT)
        self.hear(rank, wire.Heartbeat(rank=rank, federation=federation, round=number))

    def wait(self, seconds, *beats):
        """Let time pass; the ranks beat, each in its round: (rank, round)."""
        for _ in range(seconds):
            self.now += 1.0
            for rank, number in beats:
                self.beat(rank, number)
            self.do(self.core.tick(self.now))

    def of(self, kind):
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def said(self, event):
        return [effect.message for effect in self.of(LogEvent) if effect.event == event]


@pytest.fixture
def driven(vector_learner):
    return lambda **options: Driven(vector_learner(0), **options)


def test_a_peer_that_joins_a_running_federation_waits_for_the_dead_no_longer_than_silence_is_death(driven):
    peer = driven(start=4)
    peer.wait(100)
    peer.hello(1, 9, running=True)
    peer.wait(14, (1, 9))
    assert not peer.of(Wake)
    peer.wait(1, (1, 9))
    assert peer.of(Wake)
    assert peer.core.members[2].status is Status.DEAD
    assert peer.core.members[2].why_away == "did not appear"


def test_when_all_are_resumed_everybody_is_waited_for(driven):
    peer = driven(start=4)
    peer.hello(1, 5)
    peer.wait(299, (1, 5))
    assert not peer.of(Wake)
    assert not peer.of(Fail)
    peer.wait(1, (1, 5))
    assert isinstance(peer.of(Fail)[0].error, PeersMissing)


def test_whoever_has_run_two_rounds_says_that_the_federation_is_running(driven):
    peer = driven(start=4)
    for number, running in ((4, False), (5, False), (6, True)):
        assert peer.core.handshake.hello(number, reply=False).running is running


def test_a_round_says_for_whom_it_waits_less_and_less_often(driven):
    peer = driven()
    for rank in (1, 2):
        peer.hello(rank, 0)
    peer.do(peer.core.begin(0, peer.now))
    peer.do(peer.core.release(0, peer.learner.release(0), peer.now))
    peer.do(peer.core.collect(0, peer.now))
    peer.wait(29, (1, 0), (2, 0))
    assert not peer.said("waiting")
    peer.wait(1, (1, 0), (2, 0))
    assert len(peer.said("waiting")) == 1
    assert peer.said("waiting")[0].startswith("round 1 has been waiting for rank 1 (in round 1), rank 2 (in round 1)")
    peer.wait(200, (1, 0), (2, 0))
    assert len(peer.said("waiting")) == 3
    assert not peer.of(Deliver)
    assert peer.core.waiting.ranks(peer.now) == [1, 2]


def test_with_a_deadline_a_round_goes_on_without_one_that_hangs_and_takes_it_back(driven):
    peer = driven(deadline=20.0)
    for rank in (1, 2):
        peer.hello(rank, 0)
    body = peer.learner.release(0)
    federation = wire.federation_id(FINGERPRINT)
    for number in (0, 1):
        peer.do(peer.core.begin(number, peer.now))
        peer.do(peer.core.release(number, body, peer.now))
        peer.hear(1, wire.body(federation, 1, number, body))
        peer.do(peer.core.collect(number, peer.now))
        assert len(peer.of(Deliver)) == 2 * number, "the first round waits, the second knows that rank 2 hangs"
        if number == 0:
            peer.wait(19, (1, 0), (2, 0))
            assert not peer.of(Deliver)
            peer.wait(1, (1, 0), (2, 0))
        assert [*peer.of(Deliver)[number].bodies] == [1]
        peer.beat(1, number + 1)
        woken = len(peer.of(Wake))
        peer.do(peer.core.settle(number, peer.now))
        assert len(peer.of(Wake)) == woken + 1
    assert peer.core.members.lost == {2: "sent nothing within 20 s (--deadline)"}
    peer.beat(2, 2)
    peer.do(peer.core.begin(2, peer.now))
    peer.do(peer.core.collect(2, peer.now))
    assert peer.core.waiting.ranks(peer.now) == [1, 2]


def test_silent_neighbors_are_dialled_again_less_and_less_often(driven):
    peer = driven()
    dialled = []
    for second in range(1, 400):
        before = len(peer.of(Dial))
        peer.wait(1)
        for effect in peer.of(Dial)[before:]:
            peer.do(peer.core.dialled(effect.rank, f"link-{effect.rank}-{second}", peer.now))
            dialled += [second] if effect.rank == 1 else []
    assert dialled == [15, 45, 105, 165, 225, 285, 345]
    assert [effect.link for effect in peer.of(Close) if "1" in effect.link][:2] == ["link-1", "link-1-15"]


def refused(peer, seconds, every=1):
    """Rank 1 says again and again that another process has the rank; after how many seconds the peer gives up."""
    for second in range(0, seconds, every):
        peer.hear(1, wire.Refusal(rank=1, reason="another process already takes part as rank 0"))
        if peer.of(Fail):
            return second
        peer.wait(every)
    return None


def test_a_second_process_gives_up_once_the_first_has_had_time_to_be_missed(driven):
    assert refused(driven(start=4), 60) == 10


def test_refusals_with_a_long_silence_between_them_end_nothing(driven):
    peer = driven(start=4)
    assert refused(peer, 15, every=12) is None
    peer.hello(1, 4)
    assert peer.core.members[1].status is Status.ALIVE
