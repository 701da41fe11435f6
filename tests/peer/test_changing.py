"""Whole federations whose graph changes with the round, over every transport."""

import asyncio
import json
import random
import time

import numpy as np
import pytest

from dpeer.peer import LivenessConfig

ROUNDS = 14
PATIENT = LivenessConfig(heartbeat=0.2, suspect_after=2, dead_after=20, stop_grace=10.0)
NO_HEARTBEAT = LivenessConfig(heartbeat=0)


def done(found, status="done"):
    for rank, outcome in found.items():
        if isinstance(outcome, BaseException):
            raise AssertionError(f"rank {rank}: {outcome!r}") from outcome
        assert outcome.status == status
    return found


def healthy(ours):
    """Nobody was lost and nothing was dropped, but for copies: of a handshake that is repeated a body comes twice."""
    for rank, peer in ours.peers.items():
        core = peer.core
        assert not core.drops.counts, (rank, core.drops.counts, ours.logs[rank])
        assert core.exchange.inbox.dropped.keys() <= {"duplicate"}, (rank, core.exchange.inbox.dropped)
        assert core.members.lost == {}


def uneven(ours, seed, most=0.02):
    """Every round of every peer takes another time; one in ten takes very long."""
    for rank, learner in ours.learners.items():
        generator = random.Random(f"{seed} {rank}")

        def pause(number, generator=generator):
            time.sleep(generator.random() * most * (0.1 if generator.random() < 0.9 else 4))

        learner.on_train = pause


@pytest.mark.slow
@pytest.mark.parametrize("name", ["matching", "shift", "random-senders"])
async def test_bodies_follow_the_recursion(federation, kind, expected, changing, name):
    """tests/world plays many more schedules, in virtual time."""
    topology = changing[name](5, 1)
    ours = federation(kind, topology, rounds=ROUNDS, liveness=PATIENT if kind == "tcp" else NO_HEARTBEAT)
    uneven(ours, 0)
    async with asyncio.timeout(100):
        done(await ours.run())
    np.testing.assert_allclose(ours.bodies(), expected(topology, ROUNDS), rtol=1e-12)
    healthy(ours)


async def resumed(federation, kind, topology, out, liveness):
    again = federation(kind, topology, rounds=ROUNDS, out=out, resume=True, liveness=liveness)
    async with asyncio.timeout(100):
        done(await again.run())
    for rank, peer in again.peers.items():
        lines = [json.loads(line) for line in (out / f"rank-{rank}" / "metrics.jsonl").read_text().splitlines()]
        assert [line["round"] for line in lines] == list(range(ROUNDS))
        assert not any(line["missed"] for line in lines)
        assert peer.core.members.lost == {}
        assert "early" not in peer.core.exchange.inbox.dropped
    return again.bodies(), [sent_and_received(out / f"rank-{rank}") for rank in again.peers]


def sent_and_received(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [(line["bytes_sent"], line["bytes_received"], line["heard"], line["accuracy"]) for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["matching", "shift", "random-senders"])
@pytest.mark.parametrize(("kind", "seed"), [("inprocess", 0), ("tcp", 2)])
async def test_stopped_together_and_resumed_is_as_never_stopped(
    federation, kind, tmp_path, expected, changing, name, seed
):
    topology = changing[name](6, seed)
    generator = random.Random(seed)
    liveness = PATIENT if generator.random() < 0.5 else LivenessConfig(heartbeat=0, stop_grace=10.0)
    whole = federation(kind, topology, rounds=ROUNDS, out=tmp_path / "whole", liveness=liveness)
    done(await whole.run())
    records = [sent_and_received(tmp_path / "whole" / f"rank-{rank}") for rank in range(6)]

    out = tmp_path / "stopped"
    first = federation(kind, topology, rounds=ROUNDS, out=out, liveness=liveness)
    uneven(first, seed, most=0.03)
    running = asyncio.create_task(first.run())
    await asyncio.sleep(generator.uniform(0.1, 0.5))
    for rank in generator.sample(range(6), 6):
        first.peers[rank].stop()
        await asyncio.sleep(generator.random() * 0.05)
    for outcome in (await running).values():
        assert not isinstance(outcome, BaseException), outcome
    bodies, again = await resumed(federation, kind, topology, out, liveness)
    np.testing.assert_array_equal(bodies, whole.bodies())
    np.testing.assert_allclose(bodies, expected(topology, ROUNDS), rtol=1e-12)
    assert again == records


async def test_stopped_while_many_rounds_apart_and_resumed(federation, kind, tmp_path, edges, expected, until):
    """Rank 2 is idle but for rounds 0 and 6: the others run ahead of it as far as round 6."""
    pair, alone = [(0, 1), (1, 0)], []
    topology = edges(3, [(2, 0), (0, 1)], pair, pair, alone, pair, pair, [(0, 2), (1, 2), (2, 1)], pair)
    first = federation(kind, topology, rounds=ROUNDS, out=tmp_path, liveness=PATIENT)
    first.learners[2].hold = 2
    running = asyncio.create_task(first.run())
    # Bodies of round 6 are for rank 2, which has to be in round 5 for them.
    await until(lambda: all(first.peers[rank].core.members.current_round == 6 for rank in (0, 1)))
    await asyncio.sleep(0.2)
    for peer in first.peers.values():
        peer.stop()
    found = done(await running, "stopped")
    assert [found[rank].completed_rounds for rank in range(3)] == [6, 6, 2]
    bodies, _ = await resumed(federation, kind, topology, tmp_path, PATIENT)
    np.testing.assert_allclose(bodies, expected(topology, ROUNDS), rtol=1e-12)


@pytest.mark.parametrize("liveness", [PATIENT, NO_HEARTBEAT], ids=["heartbeats", "no heartbeats"])
async def test_one_that_is_many_rounds_behind_is_waited_for(federation, kind, expected, edges, until, liveness):
    pair = [(0, 1), (1, 0)]
    topology = edges(3, *[pair] * 6, [(2, 0), (0, 2)], [(1, 2)], pair)
    ours = federation(kind, topology, rounds=10, liveness=liveness)
    ours.learners[2].hold = 0
    running = asyncio.create_task(ours.run())
    await until(lambda: ours.peers[0].core.members.current_round == 6)
    await asyncio.sleep(0.3)
    assert [ours.peers[rank].core.members.current_round for rank in (0, 2)] == [6, 0]
    assert ours.peers[1].core.members.current_round in (6, 7)
    ours.learners[2].go.set()
    done(await running)
    np.testing.assert_allclose(ours.bodies(), expected(topology, 10), rtol=1e-12)
    healthy(ours)


async def test_nobody_completes_a_round_before_the_receivers_of_the_last_one_have(
    federation, kind, expected, edges, until
):
    """Else a stop would leave the receiver without the body: a checkpoint has only that of the last round."""
    topology = edges(2, [(0, 1)])
    ours = federation(kind, topology, rounds=6, liveness=NO_HEARTBEAT)
    ours.learners[1].hold = 2
    running = asyncio.create_task(ours.run())
    await until(lambda: ours.learners[1].held.is_set() and 3 in ours.learners[0].released)
    await asyncio.sleep(0.2)
    assert ours.peers[0].core.members.current_round == 3  # has sent round 3's body and not completed the round
    ours.learners[1].go.set()
    done(await running)
    np.testing.assert_allclose(ours.bodies(), expected(topology, 6), rtol=1e-12)
    healthy(ours)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["matching", "shift", "random-senders"])
async def test_when_one_dies_the_others_finish_and_say_whom_they_lost(
    federation, tmp_path, changing, name, until, silence
):
    topology = changing[name](5, 3)
    liveness = LivenessConfig(heartbeat=0.05, suspect_after=0.3, dead_after=1.0, stop_grace=0.3)
    ours = federation("tcp", topology, rounds=ROUNDS, out=tmp_path, liveness=liveness)
    ours.learners[4].hold = 5
    addresses = await ours.listen()
    silent = asyncio.create_task(ours.peers[4].serve(addresses))
    others = asyncio.create_task(ours.serve(addresses, range(4)))
    await until(ours.learners[4].held.is_set)
    silence(ours.peers[4])
    async with asyncio.timeout(100):
        found = done(await others)
    for rank in range(4):
        needed = [number for number in range(5, ROUNDS) if 4 in topology.at(number, rank).in_neighbors]
        lines = [json.loads(x) for x in (tmp_path / f"rank-{rank}" / "metrics.jsonl").read_text().splitlines()]
        assert [line["round"] for line in lines if line["missed"]] == needed
        assert all(line["missed"] in ([], [4]) for line in lines)
        assert set(found[rank].lost) == ({4} if needed else set())
    silent.cancel()
    await asyncio.gather(silent, return_exceptions=True)


@pytest.mark.slow
async def test_one_that_was_dead_and_has_caught_up_is_waited_for_again(federation, expected, edges, until):
    """Declared dead while nobody needed it: nothing is lost."""
    pair = [(0, 1), (1, 0)]
    topology = edges(3, *[pair] * 8, [(2, 0), (0, 2)], *[pair] * 6, [(2, 1)], pair)
    ours = federation("inprocess", topology, rounds=20)
    sleeper, waker = ours.learners[2], ours.learners[0]
    sleeper.hold, waker.hold = 1, 7
    running = asyncio.create_task(ours.run())
    await until(lambda: sleeper.held.is_set() and waker.held.is_set())
    transport = ours.transports[2]
    send, transport.send = transport.send, lambda link, frames: True
    members = [ours.peers[rank].core.members for rank in (0, 1)]
    await until(lambda: not any(found.reachable(2) for found in members))
    assert all(found[2].left_behind for found in members)
    transport.send = send
    await until(lambda: all(found.reachable(2) for found in members))
    sleeper.go.set()
    await until(lambda: not any(found[2].left_behind for found in members))
    sleeper.hold, sleeper.go = 10, type(sleeper.go)()
    waker.go.set()
    await until(lambda: [peer.core.members.current_round for peer in ours.peers.values()][1:] == [15, 10])
    await asyncio.sleep(0.2)
    assert [peer.core.members.current_round for peer in ours.peers.values()][1:] == [15, 10]
    sleeper.go.set()
    done(await running)
    np.testing.assert_allclose(ours.bodies(), expected(topology, 20), rtol=1e-12)
    assert all(found.lost == {} for found in members)


async def test_who_sits_a_round_out_holds_up_nobody(federation, kind, edges):
    """Without heartbeats too: who would have got its body is told that it has gone on."""
    topology = edges(3, [(0, 1)], [(1, 2), (2, 0)], [(2, 0)], [(0, 1), (1, 0)], [(0, 1), (1, 2), (2, 0)])
    ours = federation(kind, topology, rounds=8, liveness=NO_HEARTBEAT)
    learner = ours.learners[0]
    release = learner.release
    learner.release = lambda number: release(number) if number % 3 == 1 else None
    async with asyncio.timeout(100):
        done(await ours.run())
    healthy(ours)


@pytest.mark.slow
async def test_who_was_left_behind_sits_out_what_it_cannot_have(federation, kind, tmp_path, edges):
    """Rank 1 has completed 2 rounds and rank 0 five, of which it needs the fourth's body; later rounds join nobody."""
    alone = [(2, 0), (0, 2)]
    topology = edges(3, alone, alone, alone, [(0, 1)], alone)
    for rounds, out in ((5, tmp_path), (2, tmp_path / "older")):
        done(await federation(kind, topology, rounds=rounds, out=out).run())
    (tmp_path / "rank-1").rename(tmp_path / "newer")
    (tmp_path / "older" / "rank-1").rename(tmp_path / "rank-1")
    again = federation(kind, topology, rounds=8, out=tmp_path, resume=True, wait=5.0)
    done(await again.run())
    assert [again.learners[rank].sat_out for rank in range(3)] == [[], [3], []]
    assert list(again.learners[1].released) == [2, 4, 5, 6, 7]
    lines = [json.loads(line) for line in (tmp_path / "rank-1" / "metrics.jsonl").read_text().splitlines()]
    assert [(line["round"], line["missed"]) for line in lines if not line["active"]] == [(3, [0])]
