"""Overlapped rounds: drawn schedules, a round's length, and broken rules that they find."""

from dataclasses import replace

import pytest

from dpeer.peer import rounds
from dpeer.peer.core import chunking, limits, send_queue, wire
from dpeer.peer.core.protocol import Core
from dpeer.simulation.network import Conditions
from tests.thinning import every
from tests.world.checking import check, why
from tests.world.disk import Files
from tests.world.faults import Fault
from tests.world.overlaps import OVERLAPS, OverlappedLearner, generate_overlaps
from tests.world.scenario import Scenario
from tests.world.world import World

CHUNKS = 12


@pytest.mark.slow
@pytest.mark.parametrize("chunk", every(6, range(CHUNKS)))
def test_the_invariants_hold_while_rounds_overlap(chunk):
    check(generate_overlaps, range(chunk, OVERLAPS, CHUNKS))


def cut_short(patch):
    """Bodies of 40 bytes travel in chunks of 8, and no link leads by more than one. Returns who was held."""
    found = []
    for module in (chunking, limits, send_queue):
        patch.setattr(module, "LEAST_CHUNK", 8)
    patch.setattr(send_queue, "LEAD", 0)
    waits = send_queue.SendQueues.waits

    def noted(self, link):
        found.extend([link] if (held := waits(self, link)) else [])
        return held

    patch.setattr(send_queue.SendQueues, "waits", noted)
    return found


def generate_in_step(seed):
    """Links that take few messages at once, so that some lag behind others."""
    found = generate_overlaps(seed)
    return replace(found, conditions=replace(found.conditions, chunk_bytes=16, capacity=1 + seed % 3))


@pytest.mark.slow
@pytest.mark.parametrize("chunk", every(6, range(CHUNKS)))
def test_the_invariants_hold_while_links_keep_in_step(chunk, monkeypatch):
    held = cut_short(monkeypatch)
    check(generate_in_step, range(chunk, OVERLAPS, CHUNKS))
    assert held


def length(**changes):
    """The seconds of a round of four peers on a ring."""
    world = World(Scenario(2, "ring", 4, 20, disk=(0.0,), **changes)).run()
    return (world.ended[0, 18] - world.ended[0, 8]) / 10


@pytest.mark.parametrize("seconds", [1.0, 4.0])
def test_a_round_lasts_as_long_as_the_longer_of_training_and_exchange(seconds):
    line = {"conditions": Conditions(latency=(2.0, 2.0)), "pace": seconds}
    alone = length(conditions=Conditions(latency=(0.001, 0.001)), pace=seconds)
    apart, together = length(**line), length(**line, overlap=True)
    assert apart > alone + 1.5
    assert together < max(alone, 2.0) * 1.1 + 0.2


class Counting(World):
    """Counts the bytes of bodies that rank 0 sends to rank 1: ahead of their release, and in all."""

    def __init__(self, scenario):
        super().__init__(scenario)
        self.ahead = self.all = 0
        self._tags = set()

    def _sent(self, source, target, frames):
        super()._sent(source, target, frames)
        if (source, target) != (0, 1):
            return
        if not wire.is_chunk(frames):
            fields = wire.unpack(frames[0])
            self.all += wire.size(frames[1:])
            self._tags |= {wire.tag(frames[0])} if fields["kind"] == "ahead" else set()
            return
        self.all += wire.size(frames[1:])
        self.ahead += wire.size(frames[1:]) if bytes(frames[0][1:9]) in self._tags else 0


CUT = Scenario(2, "ring", 4, 20, disk=(0.0,), conditions=Conditions(latency=(0.5, 0.5), chunk_bytes=16), overlap=True)
"""A body has 40 bytes, in three chunks of which the last one waits for the release."""


def test_bytes_go_ahead_where_the_line_would_rest_and_none_goes_twice():
    world = Counting(CUT)
    world.run()
    assert world.all == 20 * 40
    assert world.ahead == 19 * 32, "of the first round nothing is trained before"


def test_of_a_private_peer_nothing_goes_ahead(monkeypatch):
    monkeypatch.setattr(OverlappedLearner, "privacy", {"epsilon": 1.0, "delta": 1e-5})
    world = Counting(CUT)
    world.run()
    assert (world.all, world.ahead) == (20 * 40, 0)


def lose_what_waits(patch):
    """A resumed peer trains once more what it has released, from another body."""
    patch.setattr(rounds._OverlappedRounds, "_known", lambda self, number: None)
    patch.setattr(OverlappedLearner, "held", lambda self, number: None)


def note_nothing(patch):
    complete = Files.complete
    patch.setattr(Files, "complete", lambda self, entry, *, over=False, ahead=None: complete(self, entry, over=over))


def take_bytes_ahead_for_the_round(patch):
    """As if the sender had completed the round before."""
    handle = Core._on_message

    def claims(self, link, neighbor, message, frames, now):
        if isinstance(message, wire.Ahead):
            self.note(neighbor, message.round, b"", now)
            self.connection_setup.heard(neighbor, message.round, now)
        handle(self, link, neighbor, message, frames, now)

    patch.setattr(Core, "_on_message", claims)


MUTATIONS = (lose_what_waits, note_nothing, take_bytes_ahead_for_the_round)


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_a_mutation_is_found(mutation, monkeypatch):
    mutation(monkeypatch)
    assert any(why(generate_overlaps(seed)) for seed in range(60))


def test_a_peer_that_was_stopped_completes_its_rounds_though_the_neighbors_of_its_next_one_have_ended():
    """Rank 0, which it meets in another round, was stopped, too, and is hardly further."""
    stops = Fault("stop", (0,), 6.429, 9.0), Fault("stop", (6,), 6.725, 4.0)
    conditions = Conditions(latency=(0.001, 0.05))
    scenario = Scenario(438356, "one-peer-exponential", 8, 6, conditions=conditions, faults=stops, overlap=True)
    world = World(scenario).run()
    assert [number for rank, number in sorted(world.used) if rank == 6] == [*range(6)]
    assert world.present[6].outcome.status == "done"


def test_a_peer_that_was_away_releases_twice_in_the_round_of_its_entry():
    world = World(Scenario(1, "ring", 6, 40, faults=(Fault("power", (3,), 5.0, 20.0),), wait=300.0, overlap=True)).run()
    ((way,),) = ([one for one in world.returns if one.entered is not None],)
    ledger = [number for number, _ in world.disks[3].ledger]
    assert way.adopted
    assert ledger.count(way.entered) == ledger.count(way.entered + 1) == 1
    assert 3 in world.used[2, way.entered]
