"""Whole peers that mix by running sums: a loss in one direction leaves their mean, and moves that of plain mixing."""

import struct

import numpy as np
import pytest
import torch

from dpeer.peer.core.protocol import Core
from dpeer.receivers import Receivers
from dpeer.training.codecs.dense import Dense
from dpeer.training.flat import Flat
from dpeer.training.mixing.gossip import Gossip
from dpeer.training.mixing.running_sums import RunningSums
from tests.world.faults import Fault
from tests.world.learner import WorldLearner
from tests.world.scenario import Scenario
from tests.world.world import World

pytestmark = pytest.mark.slow

COUNT = 3
ROUNDS = 60
_MARK = struct.Struct("<qqq")


class Averaging(WorldLearner):
    """Peers begin with other values, train nothing, and mix by what `kind` is; a mark ahead names the body."""

    kind = RunningSums

    def __init__(self, world, life):
        super().__init__(world, life)
        start = torch.full((COUNT,), float(self.rank))
        self.flat = Flat("body", [("w", torch.nn.Parameter(start))])
        codec = () if self.kind is RunningSums else (Dense(self.flat.data, self.rank),)
        self.gossip = self.kind(self.flat, self.rank, *codec)
        self.pushes, self.linear = self.gossip.pushes, self.gossip.linear
        self.push_to, self.forget = self.gossip.push_to, self.gossip.forget
        self.payload_bytes = _MARK.size + self.gossip.codec.payload_bytes

    def state(self):
        kept = {name: values.clone() for name, values in self.gossip.state().items()}
        return {**super().state(), "values": self.flat.data.clone(), "gossip": kept}

    def take(self, state):
        super().take(state)
        self.flat.data.copy_(state["values"])
        self.gossip.restore(state["gossip"])

    def release(self, number):
        super().release(number)
        mark = _MARK.pack(self.rank, number, self._life.incarnation)
        return [memoryview(mark + b"".join(bytes(one) for one in self.gossip.release(number)))]

    def _unmarked(self, received, number):
        found = {}
        for rank, payload in received.items():
            raw = b"".join(bytes(part) for part in payload)
            self._world.check(_MARK.unpack_from(raw)[:2] == (rank, number), f"rank {self.rank} got another body")
            found[rank] = [memoryview(raw[_MARK.size :])]
        return found

    def mix_sound(self, received, weigh):
        assert self.gossip.mix(self._unmarked(received, self.releasing), weigh) == {}
        self._world.mixed(self._life, self.releasing, sorted(received))
        self.next = self.releasing + 1
        if self.pushes:
            self._world.least = min(getattr(self._world, "least", 1.0), float(self.gossip.state()["masses"][0]))
        return {}

    def adopt(self, number, received, weigh):
        assert self.gossip.adopt(self._unmarked(received, number), weigh) == {}
        self._world.adopts(self._life, number, sorted(received))
        return {}


class Plain(Averaging):
    kind = Gossip


def ended(monkeypatch, kind, *faults, topology="ring", **settings):
    """The models of all peers at the end of a run, and the world."""
    monkeypatch.setattr("tests.world.world.WorldLearner", kind)
    world = World(Scenario(2, topology, 6, ROUNDS, faults=faults, wait=300.0, **settings)).run()
    assert all(life.outcome.status == "done" for life in world.present)
    return np.stack([world.disks[rank].saved.learner["values"].numpy() for rank in range(6)]), world


@pytest.mark.parametrize("topology", ["ring", "exponential-directed"])
def test_without_faults_both_end_at_the_mean(topology, monkeypatch):
    for kind in (Averaging, Plain):
        models, _ = ended(monkeypatch, kind, topology=topology, deadline=1000.0)
        np.testing.assert_allclose(models, 2.5, atol=1e-4)


def one_way(world):
    """The rounds in which rank 2 did without the body of rank 1, which mixed that of rank 2."""
    mixed = [[world.used.get((rank, number), ()) for number in range(ROUNDS)] for rank in (1, 2)]
    return [number for number in range(ROUNDS) if 2 in mixed[0][number] and 1 not in mixed[1][number]]


ONE_WAY = {
    "late": ([Fault("stall", (1, 2), 2.0, 9.0), Fault("stall", (0, 1), 2.0, 9.0)], 1.6),
    "lost until taken for dead": ([Fault("vanish", (1, 2), 2.0)], 1.6),
    "lost, with longer rounds": ([Fault("vanish", (1, 2), 2.0)], 2.0),
}
"""Faults, and the seconds after which a round goes on without a body."""


@pytest.mark.parametrize("case", ONE_WAY)
def test_a_loss_in_one_direction_moves_the_mean_of_plain_mixing_alone(case, monkeypatch):
    """No peer adopts: all hear others all the while."""
    faults, deadline = ONE_WAY[case]
    plain, world = ended(monkeypatch, Plain, *faults, deadline=deadline)
    assert one_way(world)
    sums, world = ended(monkeypatch, Averaging, *faults, deadline=deadline)
    assert one_way(world)
    assert not world.adopted
    for models in (plain, sums):
        assert np.ptp(models) < 1e-3
    assert abs(plain.mean() - 2.5) > 0.02
    np.testing.assert_allclose(sums, 2.5, atol=1e-4)


def test_a_mutation_that_forgets_what_was_pushed_in_vain_moves_the_mean(monkeypatch):
    monkeypatch.setattr(RunningSums, "_recall", lambda self, rank: self._closed.pop(rank, None))
    faults, deadline = ONE_WAY["lost until taken for dead"]
    sums, _ = ended(monkeypatch, Averaging, *faults, deadline=deadline)
    assert abs(sums.mean() - 2.5) > 0.01


def test_while_a_peer_is_away_the_mass_of_the_others_stays(monkeypatch):
    """It adopts when it is back, and all end with one model between theirs."""
    models, world = ended(monkeypatch, Averaging, Fault("power", (3,), 5.0, 30.0))
    assert world.adopted
    assert np.ptp(models) < 1e-2
    assert 2.0 < models.mean() < 3.0
    assert world.least > 0.6


def test_a_mutation_that_serves_those_who_are_away_loses_their_mass(monkeypatch):
    receivers = Core.receivers
    monkeypatch.setattr(Core, "receivers", lambda self, number: Receivers(receivers(self, number).column))
    _, world = ended(monkeypatch, Averaging, Fault("power", (3,), 5.0, 30.0))
    assert world.least < 0.4
