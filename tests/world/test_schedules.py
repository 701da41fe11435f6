"""Invariants of the protocol under random fault schedules, and fixed runs with known results."""

from dataclasses import replace

import pytest

from tests.thinning import every
from tests.world.__main__ import main
from tests.world.checking import report, shrink, why
from tests.world.faults import Fault
from tests.world.learner import WorldLearner
from tests.world.scenario import Scenario, generate
from tests.world.world import World


def test_fewer_schedules_than_families_are_played(capsys):
    assert main(["--schedules", "2", "--processes", "1"]) == 0
    assert "2 schedules from 0 on in " in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("chunk", every(8, range(8)))
def test_the_invariants_hold_where_a_sample_sends_to_all(chunk):
    """The same faults, in federations in which half of the peers train in a round, and all take their mean."""
    for seed in range(chunk, 80, 8):
        scenario = replace(generate(seed), topology="server", participation=0.5, hidden=())
        problem = why(scenario)
        if problem:
            pytest.fail(report(seed, problem, scenario))


def test_where_a_sample_sends_to_all_every_peer_mixes_in_every_round():
    world = World(Scenario(3, "server", 5, 6, participation=0.4)).run()  # compares the bits
    assert all(life.outcome.status == "done" for life in world.present)
    assert len(world.used) == 30
    assert not world.sat_out


@pytest.mark.parametrize("topology", ["ring", "one-way", "one-peer-exponential"])
def test_without_faults_all_bits_are_known(topology):
    world = World(Scenario(3, topology, 4, 4)).run()  # compares them
    assert all(life.outcome.status == "done" for life in world.present)
    assert len(world.used) == 16


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5, 11])
def test_a_schedule_happens_again_to_the_byte(seed):
    def trace():
        return World(generate(seed), trace=True).run().trace.hexdigest()

    assert trace() == trace()


def test_rounds_go_on_without_a_silent_neighbor_which_is_taken_back():
    """The power fails at rank 2 for half a minute, and the others go on; then it sits out, and takes part again."""
    world = World(Scenario(1, "ring", 4, 8, pace=5.0, faults=(Fault("power", (2,), 12.0, 30.0),)))
    world.run()
    missed = [number for number in range(8) if 2 not in world.used.get((1, number), ())]
    assert missed
    assert any((2, number) in world.sat_out for number in missed)
    assert 2 in world.used[1, 7]
    assert world.present[2].outcome.status == "done"


@pytest.mark.slow
def test_a_violation_names_the_rank_and_the_schedule_is_shrunk(monkeypatch):
    """With a rule broken that only one of four faults can show, that one is left."""
    faults = (
        Fault("slow", (1,), 1.0, 3.0, times=3.0),
        Fault("freeze", (0,), 1.5, 1.0),
        Fault("crash", (2,), 7.345, 1.5),
        Fault("stall", (0, 1), 3.0, 1.0),
    )
    scenario = Scenario(2, "ring", 6, 8, faults=faults)
    assert why(scenario) is None
    monkeypatch.setattr("tests.world.disk.Files.take_up", lambda self: 0)
    problem = why(scenario)
    assert "rank 2" in problem
    small = shrink(scenario)
    assert [fault.what for fault in small.faults] == ["crash"]
    assert small.size < 6
    text = report(2, problem, scenario)
    assert "shrunk to 1 of 4 faults" in text
    code = text[text.index("from math") : text.index(", log=True")] + ")"
    played = {}
    exec(code.replace("\nworld_of(", "\nworld = world_of("), played)
    with pytest.raises(AssertionError) as raised:
        played["world"].run()
    assert str(raised.value) == why(small).partition(": ")[2]


def test_a_peer_that_trains_twenty_times_slower_logs_that_no_peer_mixes_its_bodies(monkeypatch):
    train = WorldLearner.train

    def slowly(self, number, *, share):
        self._life.costs.owe(19.0 if self.rank == 3 else 0.0)
        return train(self, number, share=share)

    monkeypatch.setattr(WorldLearner, "train", slowly)
    world = World(Scenario(4, "full", 5, 60, deadline=5.0), log=True).run()
    assert not any(3 in heard for (rank, _), heard in world.used.items() if rank != 3), "all its bodies are late"
    warned = [line for line in world.log if "no peer mixes them" in line]
    assert warned
    assert all("rank 3: the last 3 bodies" in line for line in warned)
    assert (
        "let it train less in a round (--round-seconds auto, or a smaller --body-epochs) or on a faster device, or"
        in warned[0]
    )
    assert world.present[3].peer.core.lateness.late_bodies >= 3
    assert {life.outcome.status for life in world.present if life.rank != 3} == {"done"}
