"""Peers of this version of the protocol and of the next one train together, while one after the other is upgraded."""

from dataclasses import replace

import msgpack
import pytest

from dpeer.peer.core import wire
from dpeer.peer.core.exchange import Exchange
from tests.peer.next_version import NEWEST, NEXT, Greeting, Heartbeat
from tests.thinning import every
from tests.world.drains import generate_drains
from tests.world.faults import Fault
from tests.world.scenario import Scenario
from tests.world.world import World

UPGRADES = tuple(Fault("drain", (rank,), 5.0 + 10 * rank, 4.0) for rank in range(4))
"""Each of four peers is drained in its turn, and comes back."""


@pytest.fixture(autouse=True)
def moods(monkeypatch):
    """Peers of the next version have its field in their heartbeats."""
    heartbeat = Exchange.heartbeat

    def moody(self, link):
        plain = heartbeat(self, link)
        return Heartbeat(**plain.model_dump(), mood="good") if self._protocol is NEXT else plain

    monkeypatch.setattr(Exchange, "heartbeat", moody)


class Upgraded(World):
    """Peers speak the next version, too, if they are among the newer ones, or have come back.

    Attributes:
        later: Sender and receiver of each message with what the next version added, and whether both speak it.
    """

    def __init__(self, scenario, newer=(), **options):
        super().__init__(scenario, **options)
        self.newer, self.later = set(newer), []

    def _peer(self, life, config, learner, worker):
        newer = life.incarnation > 0 or life.rank in self.newer
        return super()._peer(life, replace(config, protocol=NEXT) if newer else config, learner, worker)

    def begins(self, life, number, due, *, trains):
        super().begins(life, number, due, trains=trains)
        core, config = life.peer.core, life.peer.config
        greeting = Greeting(rank=life.rank, federation=wire.federation_id(config.fingerprint), words="good day")
        for one in core.members.all():
            if config.protocol is NEXT and core.members.reachable(one.rank) and NEXT.speaks("greeting", one.version):
                core.send_queues[one.link].add("greeting", wire.encode(greeting, one.version, NEXT))

    def _sent(self, source, target, frames):
        super()._sent(source, target, frames)
        if bytes(frames[0])[:1] != b"\xc1" and {"mood", "words"} & msgpack.unpackb(frames[0]).keys():
            both = [self.lives[rank][-1].peer.config.protocol is NEXT for rank in (source, target)]
            self.later.append((source, target, all(both)))


def check(world):
    """All is as in a run of one version, whose bits `World` compares; and no peer got what it cannot read."""
    assert all(both for _, _, both in world.later)
    assert {life.outcome.status for life in world.present} == {"done"}
    assert not world.sat_out


def test_two_versions_train_together_and_each_link_has_the_lower_one():
    world = Upgraded(Scenario(1, "full", 4, 8), newer={1, 3}).run()
    check(world)
    assert {pair[:2] for pair in world.later} == {(1, 3), (3, 1)}
    versions = {(life.rank, one.rank): one.version for life in world.present for one in life.peer.core.members.all()}
    assert {pair for pair, version in versions.items() if version > NEWEST} == {(1, 3), (3, 1)}
    assert {*versions.values()} == {NEWEST, NEWEST + 1}


def test_a_federation_is_upgraded_while_it_trains():
    world = Upgraded(Scenario(1, "ring", 4, 14, pace=1.0, faults=UPGRADES)).run()
    check(world)
    assert [len(lives) for lives in world.lives] == [2, 2, 2, 2]
    assert all(len(heard) == 2 for heard in world.used.values()), "no round is lost"
    assert {pair[:2] for pair in world.later} == {
        (rank, other) for rank in range(4) for other in ((rank + 1) % 4, (rank - 1) % 4)
    }
    for life in world.present:
        assert {one.version for one in life.peer.core.members.all()} == {NEWEST + 1}


@pytest.mark.slow
@pytest.mark.parametrize("seed", every(4, range(24)))
def test_upgrades_at_random_moments_lose_nothing(seed):
    """The versions of a schedule's peers are drawn, too: who comes back may go up or stay."""
    scenario = generate_drains(seed)
    world = Upgraded(scenario, newer={rank for rank in range(scenario.size) if (seed >> rank % 3) % 2}).run()
    assert all(both for _, _, both in world.later)


def test_what_is_sent_to_the_older_version_all_the_same_is_found(monkeypatch):
    monkeypatch.setattr(type(NEXT), "left_out", lambda self, kind, version: set())
    with pytest.raises(AssertionError, match="malformed"):
        Upgraded(Scenario(1, "full", 4, 8), newer={1, 3}).run()
