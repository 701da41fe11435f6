"""Federations in which some peers sit rounds out, over every transport."""

import asyncio
import json

import numpy as np
import pytest

from dpeer.peer import LivenessConfig
from dpeer.topology import Isolated, Participation, ServerSampling, build

ROUNDS = 12
NO_HEARTBEAT = LivenessConfig(heartbeat=0)
PATIENT = LivenessConfig(heartbeat=0.2, suspect_after=2, dead_after=20, stop_grace=10.0)


def recursion(topology, participation, rounds, width=5):
    """X <- W' (0.9 X + d) for those who take part; the weight of those who sit out is on the diagonal."""
    x = np.zeros((topology.size, width))
    drift = np.arange(topology.size)[:, None] + 1.0
    for number in range(rounds):
        active = np.array([rank in participation.participants(number) for rank in range(topology.size)])
        together = topology.weights * np.outer(active, active)
        np.fill_diagonal(together, 0)
        together += np.diag(1 - together.sum(axis=1))
        x = together @ np.where(active[:, None], 0.9 * x + drift, x)
    return x


@pytest.mark.slow
@pytest.mark.parametrize("liveness", [PATIENT, NO_HEARTBEAT], ids=["heartbeats", "no heartbeats"])
@pytest.mark.parametrize(("name", "size", "fraction"), [("ring", 5, 0.6), ("full", 6, 0.4), ("grid", 6, 0.1)])
async def test_bodies_follow_the_recursion(federation, kind, name, size, fraction, liveness):
    topology = build(name, size)
    drawn = Participation(topology, fraction, seed=3)
    ours = federation(kind, drawn, rounds=ROUNDS, liveness=liveness)
    async with asyncio.timeout(100):
        found = await ours.run()
    assert all(outcome.status == "done" for outcome in found.values()), found
    np.testing.assert_allclose(ours.bodies(), recursion(topology, drawn, ROUNDS), rtol=1e-12)
    for peer in ours.peers.values():
        assert not peer.core.drops.counts
        # With heartbeats, a handshake that is answered late is asked for again, which brings a body twice.
        assert set(peer.core.exchange.inbox.dropped) <= ({"duplicate"} if liveness.heartbeat else set())
        assert peer.core.members.lost == {}


async def test_who_sits_out_neither_trains_nor_exchanges_and_says_so(federation, kind, tmp_path):
    drawn = Participation(build("ring", 4), 0.5, seed=1)
    ours = federation(kind, drawn, rounds=ROUNDS, out=tmp_path)
    trained = {rank: [] for rank in range(4)}
    for rank, learner in ours.learners.items():
        learner.on_train = trained[rank].append
    await ours.run()
    for rank in range(4):
        took_part = [number for number in range(ROUNDS) if rank in drawn.participants(number)]
        assert trained[rank] == took_part
        assert 0 < len(took_part) < ROUNDS, "the seed is one for which everyone sits out sometimes"
        entries = [json.loads(line) for line in (tmp_path / f"rank-{rank}" / "metrics.jsonl").read_text().splitlines()]
        assert [entry["round"] for entry in entries if entry["active"]] == took_part
        samples = [10 * (rank + 1) * (number in took_part) for number in range(ROUNDS)]
        samples[-1] += 5  # what is done after the last round is of that round
        assert [entry["samples"] for entry in entries] == samples
        for entry in entries:
            if not entry["active"]:
                assert entry["train_loss"] is None
                assert entry["bytes_sent"] == entry["bytes_received"] == 0
                assert entry["heard"] == entry["missed"] == []
                assert entry["accuracy"] is not None, "its model is evaluated all the same"


async def test_a_run_that_was_stopped_goes_on_to_the_same_bodies(federation, kind, tmp_path, until):
    topology = build("ring", 4)
    drawn = Participation(topology, 0.5, seed=1)
    first = federation(kind, drawn, rounds=ROUNDS, out=tmp_path)
    held = next(number for number in range(4, ROUNDS) if 2 in drawn.participants(number))
    first.learners[2].hold = held
    running = asyncio.create_task(first.run())
    await until(first.learners[2].held.is_set)
    for peer in first.peers.values():
        peer.stop()
    await running
    again = federation(kind, drawn, rounds=ROUNDS, out=tmp_path, resume=True)
    found = await again.run()
    assert all(outcome.status == "done" for outcome in found.values()), found
    np.testing.assert_allclose(again.bodies(), recursion(topology, drawn, ROUNDS), rtol=1e-12)


async def test_nobody_is_waited_for_where_nothing_is_shared(federation, kind):
    ours = federation(kind, Participation(Isolated(3), 0.5, seed=0), rounds=4)
    await ours.run()
    assert all(learner.finished == 3 for learner in ours.learners.values())


async def test_the_learner_is_told_which_rounds_go_by_without_it(federation, kind):
    drawn = Participation(build("ring", 4), 0.5, seed=1)
    ours = federation(kind, drawn, rounds=ROUNDS)
    await ours.run()
    for rank, learner in ours.learners.items():
        assert learner.sat_out == [number for number in range(ROUNDS) if rank not in drawn.participants(number)]


# Where a sample sends to all ---------------------------------------------------------------------------------------


def servers(drawn, rounds, width=5):
    """x <- the mean over the sample of 0.9 x + d, which all take."""
    x = np.zeros(width)
    for number in range(rounds):
        x = np.mean([0.9 * x + rank + 1.0 for rank in sorted(drawn.participants(number))], axis=0)
    return np.tile(x, (drawn.size, 1))


@pytest.mark.parametrize("liveness", [PATIENT, NO_HEARTBEAT], ids=["heartbeats", "no heartbeats"])
async def test_all_take_the_mean_of_those_drawn(federation, kind, liveness, tmp_path):
    drawn = ServerSampling(build("full", 6), 0.4, seed=3)
    ours = federation(kind, drawn, rounds=ROUNDS, liveness=liveness, out=tmp_path)
    async with asyncio.timeout(100):
        found = await ours.run()
    assert all(outcome.status == "done" for outcome in found.values()), found
    np.testing.assert_allclose(ours.bodies(), servers(drawn, ROUNDS), rtol=1e-12)
    for rank, peer in ours.peers.items():
        assert not peer.core.drops.counts
        entries = [json.loads(line) for line in (tmp_path / f"rank-{rank}" / "metrics.jsonl").read_text().splitlines()]
        for number, entry in enumerate(entries):
            sample = drawn.participants(number)
            assert entry["active"] == (rank in sample)
            assert entry["heard"] == sorted(sample - {rank})
            assert entry["missed"] == []
            assert (entry["bytes_sent"] > 0) == (rank in sample)
            assert (entry["train_loss"] is None) == (rank not in sample)
            assert entry["bytes_received"] > 0


async def test_a_stopped_run_in_which_a_sample_sends_to_all_goes_on_to_the_same_bodies(
    federation, kind, tmp_path, until
):
    drawn = ServerSampling(build("full", 4), 0.5, seed=1)
    first = federation(kind, drawn, rounds=ROUNDS, out=tmp_path)
    first.learners[2].hold = next(number for number in range(4, ROUNDS) if 2 in drawn.participants(number))
    running = asyncio.create_task(first.run())
    await until(first.learners[2].held.is_set)
    for peer in first.peers.values():
        peer.stop()
    await running
    again = federation(kind, drawn, rounds=ROUNDS, out=tmp_path, resume=True)
    found = await again.run()
    assert all(outcome.status == "done" for outcome in found.values()), found
    np.testing.assert_allclose(again.bodies(), servers(drawn, ROUNDS), rtol=1e-12)
