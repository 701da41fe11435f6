"""Whole peers that send parts of changes: losses and returns cost payloads of all values, and nothing else."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from dpeer.peer.core.protocol import Core
from dpeer.training.codecs import new_codec
from dpeer.training.codecs.contraction import Contraction
from dpeer.training.flat import Flat
from dpeer.training.mixing.gossip import Gossip
from tests.world.faults import Fault
from tests.world.scenario import Scenario
from tests.world.test_running_sums import _MARK, Averaging
from tests.world.world import World

pytestmark = pytest.mark.slow

SHAPES = ((6, 10), (10,))
COUNT, SIZE, ROUNDS = 70, 6, 80


class Contracting(Averaging):
    """Peers begin with other values, and train nothing; the world counts what is stale, and who sends all values."""

    name = "topk:0.2:0.4"

    def __init__(self, world, life):
        super().__init__(world, life)
        random = np.random.default_rng(self.rank).standard_normal(COUNT, dtype=np.float32)
        self.flat = Flat("body", [("w", torch.nn.Parameter(torch.from_numpy(random)))])
        codec = new_codec(self.name, torch.zeros(COUNT), self.rank, steady=True, shapes=SHAPES)
        self.gossip = Gossip(self.flat, self.rank, codec)
        self.pushes, self.mix_share, self.push_to, self.forget = (
            self.gossip.pushes, self.gossip.mix_share, self.gossip.push_to, self.gossip.forget
        )  # fmt: skip
        self.payload_bytes = _MARK.size + codec.payload_bytes
        for table in ("stale", "whole"):
            world.__dict__.setdefault(table, [])

    def release(self, number):
        (payload,) = super().release(number)
        if payload.nbytes == self.payload_bytes:
            self._world.whole.append((self.rank, number))
        return [payload]

    def _parts(self, received, number):
        """The buffers of each payload; the mark ahead has been taken off."""
        found = {}
        for rank, (raw,) in self._unmarked(received, number).items():
            cut = [8, raw.nbytes - 8] if raw.nbytes == 8 + 4 * COUNT else self._cuts(raw.nbytes)
            ends = np.cumsum([0, *cut])
            found[rank] = [raw[first:last] for first, last in itertools.pairwise(ends)]
        return found

    def _cuts(self, size):
        half = (size - 8) // 2
        return [8, half, half] if self.name.startswith("topk") else [8, size - 8]

    def mix_sound(self, received, weigh):
        refused = self.gossip.mix(self._parts(received, self.releasing), weigh)
        self._world.check({*refused.values()} <= {"stale"}, f"rank {self.rank} refuses {refused}")
        self._world.stale += [(self.rank, self.releasing, rank) for rank in refused]
        self._world.mixed(self._life, self.releasing, sorted(received.keys() - refused.keys()))
        self.next = self.releasing + 1
        return refused

    def adopt(self, number, received, weigh):
        refused = self.gossip.adopt(self._parts(received, number), weigh)
        if adopted := sorted(received.keys() - refused.keys()):
            self._world.adopts(self._life, number, adopted)
        return refused


class Thin(Contracting):
    name = "powersgd:2:0.4"


def ended(monkeypatch, kind, *faults, **settings):
    """The bodies of all peers at the end of a run, and the world."""
    monkeypatch.setattr("tests.world.world.WorldLearner", kind)
    world = World(Scenario(2, "ring", SIZE, ROUNDS, faults=faults, wait=300.0, **settings)).run()
    assert all(life.outcome.status == "done" for life in world.present)
    return np.stack([world.disks[rank].saved.learner["values"].numpy() for rank in range(SIZE)]), world


def spread(bodies):
    return np.linalg.norm(bodies - bodies.mean(axis=0))


def mean():
    return np.mean([np.random.default_rng(rank).standard_normal(COUNT, dtype=np.float32) for rank in range(SIZE)], 0)


ONE_WAY = [Fault("vanish", (1, 2), 2.0)]
"""A while in which rank 2 does not hear rank 1."""


@pytest.mark.parametrize("kind", [Contracting, Thin])
def test_without_faults_only_changes_travel_and_all_end_at_the_mean(kind, monkeypatch):
    bodies, world = ended(monkeypatch, kind, deadline=1000.0)
    assert world.whole == world.stale == []
    assert spread(bodies) < 0.3
    np.testing.assert_allclose(bodies.mean(axis=0), mean(), atol=1e-5)


@pytest.mark.parametrize("kind", [Contracting, Thin])
def test_after_a_loss_in_one_direction_all_values_come_once_it_is_known(kind, monkeypatch):
    bodies, world = ended(monkeypatch, kind, *ONE_WAY, deadline=8.0)
    assert (2, 1) in {(receiver, sender) for receiver, _, sender in world.stale}
    assert len(world.whole) < 0.1 * SIZE * ROUNDS
    assert max(number for _, number, _ in world.stale) < max(number for _, number in world.whole) < ROUNDS / 2
    assert spread(bodies) < 0.3


@pytest.mark.parametrize("kind", [Contracting, Thin])
def test_a_peer_that_was_away_adopts_all_values_and_takes_part_again(kind, monkeypatch):
    bodies, world = ended(monkeypatch, kind, Fault("power", (3,), 5.0, 30.0))
    assert world.adopted
    assert {rank for rank, _ in world.whole} == {2, 3, 4}
    assert spread(bodies) < 0.3


def test_a_mutation_that_sends_no_more_than_changes_after_a_loss_stays_stale(monkeypatch):
    monkeypatch.setattr(Contraction, "_is_missed", lambda self, number: False)
    _, world = ended(monkeypatch, Contracting, *ONE_WAY, deadline=8.0)
    assert max(number for _, number, _ in world.stale) == ROUNDS - 1


def test_a_mutation_that_never_sends_all_values_keeps_a_returner_out(monkeypatch):
    receivers = Core.receivers
    monkeypatch.setattr(Contraction, "_is_missed", lambda self, number: False)
    monkeypatch.setattr(Core, "receivers", lambda self, number: replace(receivers(self, number), adopting=()))
    monkeypatch.setattr(Contraction, "forget", lambda self, ranks: None)
    _, world = ended(monkeypatch, Contracting, Fault("power", (3,), 5.0, 30.0))
    assert not world.adopted
