"""Runs that are stopped, killed and resumed: no body that a peer has released and heard is lost or made up."""

import asyncio
import json
import threading

import msgpack
import numpy as np
import pytest

from dpeer.peer import LivenessConfig
from dpeer.topology import Participation, build
from tests.peer.conftest import TIME_VARYING, done, expected_bodies, lines

RING = build("ring", 4)
PATIENT = LivenessConfig(heartbeat=0.2, suspect_after=20, dead_after=60, stop_grace=10.0)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), [("inprocess", "participation"), ("tcp", "ring"), ("tcp", "shift")])
async def test_stopped_together_and_resumed_is_as_never_stopped(federation, kind, tmp_path, name, until):
    topology = {"ring": build("ring", 5), "shift": TIME_VARYING["shift"](5, 2)}.get(name) or Participation(
        build("ring", 5), 0.5, seed=1
    )

    def make(**options):
        return federation(kind, topology, rounds=10, liveness=PATIENT, **options)

    whole = make()
    done(await whole.run())
    first = make(out=tmp_path)
    held = next(n for n in range(4, 10) if name != "participation" or 2 in topology.participants(n))
    first.learners[2].hold = held
    running = asyncio.create_task(first.run())
    await until(first.learners[2].held.is_set)
    for rank in (0, 1, 3, 4, 2):
        first.peers[rank].stop()
    found = done(await running, "stopped")
    assert found[2].completed_rounds == held
    assert np.frombuffer((tmp_path / "rank-2" / "model.safetensors").read_bytes()).min() >= 0
    card = json.loads((tmp_path / "rank-2" / "model.json").read_text())
    assert (card["federation"]["status"], card["federation"]["completed_rounds"]) == ("stopped", held)
    again = make(out=tmp_path, resume=True)
    done(await again.run())
    assert again.bodies().tobytes() == whole.bodies().tobytes()
    for rank, peer in again.peers.items():
        assert [(line["round"], line["missed"]) for line in lines(tmp_path, rank)] == [(n, []) for n in range(10)]
        assert peer.core.members.lost == {}


@pytest.mark.parametrize("ahead", [(1, 2), (0,)])
async def test_stopped_in_different_rounds_and_resumed_with_more_all_have_the_bits_of_one_long_run(
    federation, tmp_path, until, ahead
):
    def make(rounds, **options):
        """The number of rounds is part of every peer's fingerprint, as it is in a real run."""
        change = {rank: {"fingerprint": {"rounds": rounds}} for rank in range(3)}
        return federation("inprocess", build("ring", 3), rounds=rounds, change=change, **options)

    whole = make(7)
    done(await whole.run())
    ours = make(4, out=tmp_path)
    go = threading.Event()
    evaluated = dict.fromkeys(range(3), 0)
    for rank, learner in ours.learners.items():
        if rank in ahead:
            learner.hold = 3
            continue

        def evaluate(learner=learner, rank=rank, evaluate=learner.evaluate):
            evaluated[rank] += 1
            if evaluated[rank] == 5:  # twice a round: the body of the third round has been released and not mixed
                assert go.wait(100)
            return evaluate()

        learner.evaluate = evaluate
    running = asyncio.create_task(ours.run())
    await until(lambda: all(ours.learners[rank].held.is_set() for rank in ahead))
    await until(lambda: all(evaluated[rank] == 5 for rank in evaluated if rank not in ahead))
    for peer in ours.peers.values():
        peer.stop()
    go.set()
    done(await running, "stopped")
    assert [len(lines(tmp_path, rank)) for rank in range(3)] == [3 if rank in ahead else 2 for rank in range(3)]
    again = make(7, out=tmp_path, resume=True)
    done(await again.run())
    assert again.bodies().tobytes() == whole.bodies().tobytes()
    for rank in range(3):
        assert [line["missed"] for line in lines(tmp_path, rank)] == [[]] * 7
        assert again.peers[rank].core.drops.counts == {}


async def test_one_round_apart_on_resume_the_body_is_sent_again(federation, tmp_path):
    """Rank 1 has completed a round that its neighbors have not: they need the body in its checkpoint."""
    done(await federation("inprocess", RING, rounds=3, out=tmp_path).run())
    done(await federation("inprocess", RING, rounds=2, out=tmp_path / "older").run())
    for rank in (0, 2, 3):
        (tmp_path / f"rank-{rank}").rename(tmp_path / f"newer-{rank}")
        (tmp_path / "older" / f"rank-{rank}").rename(tmp_path / f"rank-{rank}")
    again = federation("inprocess", RING, rounds=5, out=tmp_path, resume=True)
    transport, sent = again.transports[1], {}
    send = transport.send

    def listening(link, frames):
        sent.setdefault(link, []).append(msgpack.unpackb(bytes(frames[0]))["kind"])
        return send(link, frames)

    transport.send = listening
    done(await again.run())
    # A later round in a message before the body would mean that the body cannot come.
    assert all(kinds.index("body") < kinds.index("heartbeat") for kinds in sent.values())
    assert 2 not in again.learners[1].released
    assert 2 in again.learners[0].released
    np.testing.assert_allclose(again.bodies(), expected_bodies(RING, 5), rtol=1e-12)


async def test_a_peer_that_was_suspended_does_not_release_a_body_of_a_round_that_is_over(federation, until, tmp_path):
    ours = federation("tcp", build("ring", 3), rounds=8)
    for rank in range(3):
        ours.add(rank, out=tmp_path, deadline=0.2)
    late = ours.learners[1]
    late.hold = 2
    running = asyncio.create_task(ours.run())
    await until(lambda: ours.peers[1].core.lateness.in_vain)
    late.go.set()
    await running
    assert sorted(late.released)[:2] == [0, 1]
    assert 2 not in late.released
    line = json.loads((tmp_path / "rank-1" / "metrics.jsonl").read_text().splitlines()[2])
    assert (line["active"], line["bytes_sent"], line["heard"]) == (True, 0, [])
    assert json.loads((tmp_path / "rank-1" / "summary.json").read_text())["late_bodies"] >= 1
