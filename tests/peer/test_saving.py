"""Completed rounds are saved while the next one trains: what leaves meanwhile, and what a stop or an error leaves."""

import asyncio
import errno
import json
import threading

import msgpack
import numpy as np
import pytest

from dpeer.peer import checkpoint
from dpeer.topology import Isolated, build
from tests.peer.conftest import done, expected_bodies

RING = build("ring", 4)
ROUNDS = 5


class Disk:
    """A disk on which rank 0's checkpoint of round 1 is not written before the test says so, or cannot be."""

    def __init__(self):
        self.holds, self.error, self.written = False, None, []
        self.writing, self.go = threading.Event(), threading.Event()

    def write(self, folder, state, save_learner, real=checkpoint.write):
        if self.holds and (folder.parent.name, state.next_round) == ("rank-0", 2):
            self.writing.set()
            assert self.go.wait(100)
            if self.error:
                raise self.error
        real(folder, state, save_learner)
        self.written.append((folder.parent.name, state.next_round - 1))


@pytest.fixture
def disk(monkeypatch):
    disk = Disk()
    monkeypatch.setattr(checkpoint, "write", disk.write)
    yield disk
    disk.go.set()


@pytest.fixture
def ring(federation, tmp_path):
    """Make federations with files."""

    def make(rounds=ROUNDS, **options):
        return federation("inprocess", RING, rounds=rounds, out=tmp_path, **options)

    return make


def mentioned(transport):
    """The rounds that a peer's messages mention from now on, as they are sent."""
    rounds, send = [], transport.send

    def listening(link, frames):
        header = msgpack.unpackb(bytes(frames[0]))
        rounds.extend(header[key] for key in ("round", "next_round") if key in header)
        return send(link, frames)

    transport.send = listening
    return rounds


def completed(ours, out):
    """By rank, the rounds that have a line in metrics.jsonl, and those that have a checkpoint."""
    lines = [(out / f"rank-{rank}" / "metrics.jsonl").read_text().splitlines() for rank in ours.peers]
    folders = [(out / f"rank-{rank}" / "checkpoint").glob("round-*") for rank in ours.peers]
    return [[json.loads(line)["round"] for line in one] for one in lines], [
        [int(path.name.removeprefix("round-")) for path in one] for one in folders
    ]


def as_never_stopped(ours, rounds=ROUNDS):
    np.testing.assert_allclose(ours.bodies(), expected_bodies(RING, rounds), rtol=1e-12)


async def test_the_next_round_is_trained_and_released_but_no_message_mentions_it_before_the_last_is_on_disk(
    ring, disk, until, tmp_path
):
    disk.holds = True
    ours = ring()
    message = mentioned(ours.transports[0])
    running = asyncio.create_task(ours.run())
    await until(disk.writing.is_set)
    await until(lambda: 2 in ours.learners[0].released)
    beats = len(message)
    await until(lambda: len(message) >= beats + 6)  # periodic heartbeats: it is alive
    assert max(message) == 1
    assert ours.peers[0].core.members.current_round == 1
    await until(lambda: all(2 in ours.learners[rank].released for rank in (1, 3)))
    lines, checkpoints = completed(ours, tmp_path)
    assert [lines[rank][-1] for rank in (0, 1, 3)] == [1, 1, 1], "its neighbors wait for its body"
    assert checkpoints[0] == [0]
    disk.go.set()
    done(await running)
    assert max(message) == ROUNDS
    assert message.index(2) > beats
    as_never_stopped(ours)


async def test_a_full_disk_ends_the_peer_before_it_mentions_the_next_round(ring, disk, until):
    disk.holds, disk.error = True, OSError(errno.ENOSPC, "No space left on device")
    ours = ring()
    message = mentioned(ours.transports[0])
    ours.learners[1].hold = ours.learners[3].hold = 2
    running = asyncio.create_task(ours.run())
    await until(lambda: 2 in ours.learners[0].released)
    await until(lambda: all(ours.learners[rank].held.is_set() for rank in (1, 3)))
    disk.go.set()
    await until(lambda: ours.peers[1].core.members[0].why_away == "failed")
    for rank in (1, 2, 3):
        ours.peers[rank].stop()
    found = await running
    assert found.pop(0) is disk.error
    assert {rank: one.completed_rounds for rank, one in found.items()} == {1: 2, 2: 2, 3: 2}
    assert max(message) == 1
    disk.holds = False
    again = ring(resume=True)
    done(await again.run())
    as_never_stopped(again)


async def test_a_stop_waits_for_what_is_being_written_and_discards_the_round_that_trains(ring, disk, until, tmp_path):
    disk.holds = True
    ours = ring()
    for learner in ours.learners.values():
        learner.hold = 2
    running = asyncio.create_task(ours.run())
    await until(disk.writing.is_set)
    await until(lambda: all(learner.held.is_set() for learner in ours.learners.values()))
    for peer in ours.peers.values():
        peer.stop()
    await until(lambda: (ours.learners[0].body == -1e9).all())  # its training has given up
    assert not running.done()
    disk.go.set()
    found = done(await running, "stopped")
    assert {(one.completed_rounds, one.last["round"]) for one in found.values()} == {(2, 1)}
    assert completed(ours, tmp_path) == ([[0, 1]] * 4, [[1]] * 4)
    assert ours.learners[0].body[0] > 0, "the model that is written is that of the checkpoint"
    again = ring(resume=True)
    done(await again.run())
    as_never_stopped(again)


async def test_with_fewer_checkpoints_a_stop_or_a_failure_leaves_the_last_completed_round(ring, disk, until, tmp_path):
    rare = {rank: {"checkpoint_every": 3} for rank in range(4)}
    ours = ring(9, change=rare)
    for learner in ours.learners.values():
        learner.hold = 4
    running = asyncio.create_task(ours.run())
    await until(lambda: all(learner.held.is_set() for learner in ours.learners.values()))
    await until(lambda: completed(ours, tmp_path) == ([[0, 1, 2, 3]] * 4, [[2]] * 4))
    for peer in ours.peers.values():
        peer.stop()
    assert {one.completed_rounds for one in (await running).values()} == {4}
    assert completed(ours, tmp_path)[1] == [[3]] * 4
    again = ring(9, resume=True, change=rare)
    again.learners[2].fail = 7
    assert str((await again.run())[2]) == "the data went away"
    assert [number for name, number in disk.written if name == "rank-0"] == [0, 2, 3, 5, 8]
    assert [number for name, number in disk.written if name == "rank-2"] == [0, 2, 3, 5, 6]


async def test_a_round_that_is_complete_when_the_peer_is_stopped_is_saved(federation, until, tmp_path):
    """The stop comes while the copy is made, before anything is written."""
    ours = federation("inprocess", Isolated(1), rounds=ROUNDS, out=tmp_path)
    learner, copied = ours.learners[0], ours.learners[0].copied
    copying, go = threading.Event(), threading.Event()

    def slowly():
        copying.set()
        assert go.wait(100)
        return copied()

    learner.copied = slowly
    running = asyncio.create_task(ours.run())
    await until(copying.is_set)
    ours.peers[0].stop()
    await asyncio.sleep(0)
    go.set()
    assert done(await running, "stopped")[0].completed_rounds == 1
    assert completed(ours, tmp_path) == ([[0]], [[0]])
    assert sum(line.startswith("round 1/") for line in ours.logs[0]) == 1
