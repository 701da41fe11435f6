"""What a peer has released and heard is neither lost nor made up: resuming with more rounds, rounds without a mix."""

import asyncio
import json
import threading

import pytest

from dpeer.topology import build

RING = build("ring", 3)


def lines(folder, rank):
    return [json.loads(line) for line in (folder / f"rank-{rank}" / "metrics.jsonl").read_text().splitlines()]


def done(found, status="done"):
    for outcome in found.values():
        if isinstance(outcome, BaseException):
            raise outcome
        assert outcome.status == status


def planned(rounds):
    """The number of rounds is part of every peer's fingerprint, as it is in a real run."""
    return {rank: {"fingerprint": {"rounds": rounds}} for rank in range(3)}


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [(1, 2), (0,), (2,)])
async def test_stopped_in_different_rounds_and_resumed_with_more_all_have_the_bits_of_one_long_run(
    federation, kind, tmp_path, until, ahead
):
    whole = federation(kind, RING, rounds=7, change=planned(7))
    done(await whole.run())

    ours = federation(kind, RING, rounds=4, out=tmp_path, change=planned(4))
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

    again = federation(kind, RING, rounds=7, out=tmp_path, resume=True, change=planned(7))
    done(await again.run())
    assert again.bodies().tobytes() == whole.bodies().tobytes()
    for rank in range(3):
        assert [line["missed"] for line in lines(tmp_path, rank)] == [[]] * 7
        assert again.peers[rank].core.drops.counts == {}


async def test_in_a_round_in_which_nothing_was_mixed_nobody_was_heard(federation, kind, tmp_path):
    ours = federation(kind, RING, rounds=3, out=tmp_path)
    silent = ours.learners[0]
    release = silent.release
    silent.release = lambda number: None if number == 1 else release(number)
    done(await ours.run())
    entries = lines(tmp_path, 0)
    assert [entry["heard"] for entry in entries] == [[1, 2], [], [1, 2]]
    assert [entry["missed"] for entry in entries] == [[], [1, 2], []]
    assert [entry["bytes_received"] > 0 for entry in entries] == [True, False, True]
    assert [entry["heard"] for entry in lines(tmp_path, 1)] == [[0, 2], [2], [0, 2]]
