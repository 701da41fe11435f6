"""Runs that are stopped, killed and resumed: no body that a peer has released and heard is lost or made up."""

import asyncio
import json
import threading

import pytest

from dpeer.topology import build
from tests.peer.conftest import done, lines


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
        assert again.peers[rank].core.reports.counts == {}


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
