"""Completed rounds are saved while the next one trains: what leaves meanwhile, and what a stop or an error leaves."""

import asyncio
import errno
import gc
import json
import threading
import weakref

import msgpack
import numpy as np
import pytest

from dpeer.peer import PeerConfig, checkpoint
from dpeer.peer.core.bodies import Outbox
from dpeer.peer.rank_folder import RankFolder
from dpeer.topology import Isolated, build

RING = build("ring", 4)
ROUNDS = 5


class Disk:
    """A disk on which a peer's checkpoint of one round is not written before the test says so, or cannot be."""

    def __init__(self):
        self.rank = self.number = self.error = None
        self.writing, self.go = threading.Event(), threading.Event()
        self.written = []

    def hold(self, rank, number, error=None):
        """Hold back one checkpoint; no rank for none."""
        self.rank, self.number, self.error = f"rank-{rank}", number, error

    def write(self, folder, state, save_learner, real=checkpoint.write):
        if (folder.parent.name, state.next_round - 1) == (self.rank, self.number):
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
def whole(federation, kind):
    """The bodies of a federation that nothing happens to."""

    async def run(rounds=ROUNDS):
        ours = federation(kind, RING, rounds=rounds)
        await ours.run()
        return ours.bodies()

    return run


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
    return [[json.loads(line)["round"] for line in one] for one in lines], [
        [path.name for path in (out / f"rank-{rank}" / "checkpoint").glob("round-*")] for rank in ours.peers
    ]


async def test_the_next_round_is_trained_and_released_but_nobody_hears_of_it_before_the_last_is_on_disk(
    federation, kind, disk, until, whole, tmp_path
):
    disk.hold(0, 1)
    ours = federation(kind, RING, rounds=ROUNDS, out=tmp_path)
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
    assert checkpoints[0] == ["round-00000000"]
    disk.go.set()
    assert all(found.status == "done" for found in (await running).values())
    assert max(message) == ROUNDS
    assert message.index(2) > beats
    np.testing.assert_array_equal(ours.bodies(), await whole())


async def test_a_full_disk_ends_the_peer_before_it_tells_of_the_next_round(
    federation, kind, disk, until, whole, tmp_path
):
    full = OSError(errno.ENOSPC, "No space left on device")
    disk.hold(0, 1, full)
    ours = federation(kind, RING, rounds=ROUNDS, out=tmp_path)
    message = mentioned(ours.transports[0])
    ours.learners[1].hold = ours.learners[3].hold = 2
    running = asyncio.create_task(ours.run())
    await until(lambda: 2 in ours.learners[0].released)
    await until(lambda: all(ours.learners[rank].held.is_set() for rank in (1, 3)))
    disk.go.set()
    await until(lambda: ours.peers[0].saver._writing.done())
    for rank in (1, 2, 3):
        ours.peers[rank].stop()
    found = await running
    assert found.pop(0) is full
    assert {rank: one.completed_rounds for rank, one in found.items()} == {1: 2, 2: 2, 3: 2}
    assert max(message) == 1
    disk.hold(None, None)
    again = federation(kind, RING, rounds=ROUNDS, out=tmp_path, resume=True)
    assert all(found.status == "done" for found in (await again.run()).values())
    np.testing.assert_array_equal(again.bodies(), await whole())


async def test_a_stop_waits_for_what_is_being_written_and_discards_the_round_that_trains(
    federation, kind, disk, until, whole, tmp_path
):
    disk.hold(0, 1)
    ours = federation(kind, RING, rounds=ROUNDS, out=tmp_path)
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
    found = await running
    assert {(one.status, one.completed_rounds, one.last["round"]) for one in found.values()} == {("stopped", 2, 1)}
    lines, checkpoints = completed(ours, tmp_path)
    assert lines == [[0, 1]] * 4
    assert checkpoints == [["round-00000001"]] * 4
    assert np.isfinite(ours.bodies()).all()
    assert ours.learners[0].body[0] > 0, "the model that is written is that of the checkpoint"
    again = federation(kind, RING, rounds=ROUNDS, out=tmp_path, resume=True)
    await again.run()
    np.testing.assert_array_equal(again.bodies(), await whole())


async def test_with_fewer_checkpoints_a_stop_leaves_the_last_completed_round(
    federation, kind, disk, until, whole, tmp_path
):
    rare = {rank: {"checkpoint_every": 3} for rank in range(4)}
    ours = federation(kind, RING, rounds=9, out=tmp_path, change=rare)
    for learner in ours.learners.values():
        learner.hold = 4
    running = asyncio.create_task(ours.run())
    await until(lambda: all(learner.held.is_set() for learner in ours.learners.values()))
    await until(lambda: completed(ours, tmp_path)[0] == [[0, 1, 2, 3]] * 4)
    assert completed(ours, tmp_path)[1] == [["round-00000002"]] * 4
    for peer in ours.peers.values():
        peer.stop()
    assert {one.completed_rounds for one in (await running).values()} == {4}
    assert completed(ours, tmp_path)[1] == [["round-00000003"]] * 4
    again = federation(kind, RING, rounds=9, out=tmp_path, resume=True, change=rare)
    assert all(found.status == "done" for found in (await again.run()).values())
    assert [number for name, number in disk.written if name == "rank-0"] == [0, 2, 3, 5, 8]
    np.testing.assert_array_equal(again.bodies(), await whole(9))


async def test_a_peer_that_fails_leaves_its_last_completed_round_too(federation, kind, disk, tmp_path):
    ours = federation(kind, RING, rounds=9, out=tmp_path, change={2: {"checkpoint_every": 5}})
    ours.learners[2].fail = 3
    found = await ours.run()
    assert str(found[2]) == "the data went away"
    assert [number for name, number in disk.written if name == "rank-2"] == [0, 2]


async def test_a_round_that_is_complete_when_the_peer_is_stopped_is_saved(federation, kind, until, tmp_path):
    """The stop comes while the copy is made, before anything is written."""
    ours = federation(kind, Isolated(1), rounds=ROUNDS, out=tmp_path)
    learner, peer = ours.learners[0], ours.peers[0]
    copying, go = threading.Event(), threading.Event()
    copied, recorded, ended = learner.copied, [], []
    peer.saver._on_saved, peer.saver._on_completed = lambda entry: recorded.append(entry["round"]), ended.append

    def slowly():
        copying.set()
        assert go.wait(100)
        return copied()

    learner.copied = slowly
    running = asyncio.create_task(ours.run())
    await until(copying.is_set)
    peer.stop()
    await asyncio.sleep(0)
    go.set()
    (outcome,) = (await running).values()
    assert (outcome.status, outcome.completed_rounds) == ("stopped", 1)
    assert completed(ours, tmp_path) == ([[0]], [["round-00000000"]])
    assert (recorded, ended) == ([0], [0])


class Copying:
    """A learner of which it is counted how many copies there are."""

    def __init__(self):
        self.copies = weakref.WeakSet()
        self.most = 0

    def start_over(self): ...

    best_round = None

    def load(self, directory): ...

    def copied(self):
        class Copy:
            def __call__(self, directory): ...

        copy = Copy()
        self.copies.add(copy)
        gc.collect()
        self.most = max(self.most, len(self.copies))
        return copy


def files(out, learner, *, resume=False, every=3):
    config = PeerConfig(0, 9, None, {"size": 1}, out=out, resume=resume, checkpoint_every=every)
    return RankFolder(config, learner, Outbox(), {}, {})


@pytest.mark.parametrize(("done", "left"), [(1, 1), (2, 1), (3, 3), (5, 3), (6, 6), (8, 6)])
def test_after_a_crash_a_run_goes_on_from_the_last_checkpoint(tmp_path, done, left):
    first = files(tmp_path, Copying())
    first.take_up()
    first.begin()
    for number in range(done):
        first.complete({"round": number})
        first.save()
    assert first.completed == done
    second = files(tmp_path, Copying(), resume=True)
    assert second.take_up() == left
    second.begin()
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == left
    assert files(tmp_path, Copying(), resume=True, every=1).take_up() == left


@pytest.mark.parametrize("every", [1, 3])
def test_there_is_one_copy_at_a_time(tmp_path, every):
    learner = Copying()
    kept = files(tmp_path, learner, every=every)
    kept.take_up()
    kept.begin()
    for number in range(7):
        kept.complete({"round": number})
        kept.save()
    assert learner.most == 1
