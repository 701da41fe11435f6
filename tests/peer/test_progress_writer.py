"""Unfinished rounds on disk: written beside training and when a peer stops, taken up, and never in a run's way."""

import asyncio
import errno
import json
import threading

import numpy as np
import pytest

from dpeer.exceptions import CheckpointError, Interrupted
from dpeer.peer import checkpoint
from dpeer.topology import Isolated, build
from tests.peer.conftest import VectorLearner, done, lines

RING = build("ring", 4)
ROUNDS = 4
STEPS = 6


class Progress:
    """The progress of a learner whose rounds are so many steps."""

    earlier_seconds = 0.0

    def __init__(self):
        self.kept, self.take = False, None
        self.number, self.step, self.body = -1, 0, None
        self.refuses = False

    def keep(self):
        self.kept = True

    def ask(self, take):
        self.take = take

    def note(self, number, step, body):
        """Note a place between two steps, and hand out a copy if one is asked for."""
        if not self.kept:
            return
        self.number, self.step, self.body = number, step, body.copy()
        take, self.take = self.take, None
        if take is not None:
            take(self.copied(number))

    def copied(self, number):
        if self.body is None or number != self.number:
            return None
        message = json.dumps([self.number, self.step, self.body.tolist()])
        return lambda directory: (directory / "progress.json").write_text(message)

    def go_on(self, number, directory, warn):
        if self.refuses:
            raise CheckpointError("it cannot be read")
        self.number, self.step, body = json.loads((directory / "progress.json").read_text())
        assert number == self.number
        self.body, self.kept = np.array(body), True
        return f"at step {self.step}"


class Stepping(VectorLearner):
    """Trains in steps."""

    def __init__(self, rank):
        super().__init__(rank)
        self.unfinished = Progress()
        self.made = []
        self.stand = None  # round and step before which it waits to go on, and gives what it is asked for

    def train(self, number, **limits):
        progress, first = self.unfinished, 0
        if progress.body is not None and progress.number == number:
            first, self.body = progress.step, progress.body.copy()
        else:
            progress.body = None
        for step in range(first, STEPS):
            if self.stand == (number, step):
                self.held.set()
                while not self.go.wait(0.002) and not self._stop.is_set():
                    progress.note(number, step, self.body)
            if self._stop.is_set():
                progress.note(number, step, self.body)
                self.body[:] = -1e9  # half-trained: must not last
                raise Interrupted("between two minibatches")
            self.made.append((number, step))
            self.body = 0.98 * self.body + self.rank + step
            progress.note(number, step + 1, self.body)
        return float(self.body.sum())


@pytest.fixture
def ring(federation, tmp_path):
    """Make federations whose peers train in steps, and write how far they are."""

    def make(*, out=tmp_path, seconds=0.01, topology=RING, change=None, **options):
        settings = {"checkpoint_seconds": seconds, **(change or {})}
        ranks = {rank: {"learner": Stepping(rank), **settings} for rank in range(topology.size)}
        return federation("inprocess", topology, rounds=ROUNDS, out=out, change=ranks, **options)

    return make


@pytest.fixture
async def whole(ring):
    """The bodies after a run that was never broken off, and writes nothing of unfinished rounds."""
    ours = ring(out=None, seconds=None)
    done(await ours.run())
    return ours.bodies().tobytes()


def folders(out, rank=0):
    """What is in a rank's checkpoint folder."""
    return sorted(path.name for path in (out / f"rank-{rank}" / checkpoint.FOLDER).iterdir())


def saved(out, rank=0):
    """Round and step of what a rank has written of an unfinished round."""
    found = checkpoint.unfinished(out / f"rank-{rank}" / checkpoint.FOLDER)
    try:
        return None if found is None else json.loads((found / "learner" / "progress.json").read_text())[:2]
    except FileNotFoundError:
        return None  # a newer one has just taken its place


async def test_a_stop_writes_how_far_each_peer_is_and_they_go_on_there_with_the_same_bits(ring, whole, until, tmp_path):
    ours = ring(seconds=1000.0)
    for rank, learner in ours.learners.items():
        learner.stand = (2, 1 + rank)
    running = asyncio.create_task(ours.run())
    await until(lambda: all(learner.held.is_set() for learner in ours.learners.values()))
    for peer in ours.peers.values():
        peer.stop()
    found = done(await running, "stopped")
    assert {one.completed_rounds for one in found.values()} == {2}
    assert [saved(tmp_path, rank) for rank in range(4)] == [[2, 1], [2, 2], [2, 3], [2, 4]]
    assert "round 3 is saved as far as it is trained: --resume goes on there" in ours.logs[0]
    assert folders(tmp_path) == ["round-00000001", "unfinished-00000002-00000001"]
    again = ring(resume=True)
    done(await again.run())
    assert "resuming inside round 3, as far as it is trained: at step 1" in again.logs[0]
    assert again.learners[3].made[:3] == [(2, 4), (2, 5), (3, 0)]
    assert again.bodies().tobytes() == whole
    assert folders(tmp_path) == ["round-00000003"], "that of a completed round takes its place"


async def test_copies_are_written_while_a_round_trains_and_only_the_newest_is_kept(
    ring, whole, until, monkeypatch, tmp_path
):
    seen = []

    def write(folder, *given, real=checkpoint.write_unfinished):
        real(folder, *given)
        if folder.parent.name == "rank-0":
            seen.append(sorted(path.name for path in folder.iterdir()))

    monkeypatch.setattr(checkpoint, "write_unfinished", write)
    ours = ring()
    learner = ours.learners[0]
    learner.stand = (1, 4)
    running = asyncio.create_task(ours.run())
    await until(lambda: [names for names in seen if names[-1] == "unfinished-00000001-00000003"])
    learner.go.set()
    done(await running)
    assert ["round-00000000", "unfinished-00000001-00000003"] in seen
    assert {len(names) for names in seen} <= {1, 2}
    assert ours.bodies().tobytes() == whole


async def test_a_round_that_is_trained_and_waits_for_its_neighbors_is_not_trained_again(ring, whole, until, tmp_path):
    ours = ring(seconds=1000.0)
    ours.learners[1].stand = (2, 0)
    running = asyncio.create_task(ours.run())
    await until(lambda: all(2 in ours.learners[rank].released for rank in (0, 2, 3)))
    await until(ours.learners[1].held.is_set)
    for peer in ours.peers.values():
        peer.stop()
    done(await running, "stopped")
    again = ring(resume=True)
    done(await again.run())
    assert [(number, step) for number, step in again.learners[0].made if number == 2] == []
    assert again.bodies().tobytes() == whole


async def test_the_checkpoint_of_the_round_before_is_written_first_although_none_is_due(ring, whole, until, tmp_path):
    rare = {"checkpoint_every": 100}
    ours = ring(change=rare)
    ours.learners[0].stand = (2, 3)
    running = asyncio.create_task(ours.run())
    await until(lambda: saved(tmp_path) == [2, 3])
    assert "round-00000001" in folders(tmp_path)
    for peer in ours.peers.values():
        peer.stop()
    done(await running, "stopped")
    again = ring(resume=True, change=rare)
    done(await again.run())
    assert again.learners[0].made[0] == (2, 3)
    assert again.bodies().tobytes() == whole


async def test_a_disk_that_refuses_costs_a_warning_and_no_round(ring, whole, until, monkeypatch, tmp_path):
    refused = threading.Event()

    def refuses(*given):
        refused.set()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_unfinished", refuses)
    ours = ring()
    ours.learners[0].stand = (1, 2)
    running = asyncio.create_task(ours.run())
    await until(refused.is_set)
    ours.learners[0].go.set()
    done(await running)
    assert ours.bodies().tobytes() == whole
    assert (
        "how far round 2 is trained cannot be saved: [Errno 28] No space left on device; only a peer that ends in "
        "this round trains this part again"
    ) in ours.logs[0]


LEFT_OUT = "; it is left out, and what it has is trained again"
DAMAGES = {
    "state is cut": ("state.json", lambda content: content[:-5]),
    "state is changed": ("state.json", lambda content: content.replace(b'"round": 2', b'"round": 3')),
    "state is missing": ("state.json", None),
    "progress is changed": ("learner/progress.json", lambda content: content.replace(b"[2, 3", b"[2, 4")),
    "progress is missing": ("learner/progress.json", None),
    "another run's": ("state.json", "fingerprint"),
    "refused by the learner": ("state.json", lambda content: content),
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_what_cannot_be_used_costs_a_warning_and_the_round_starts_over(ring, until, tmp_path, damage):
    alone = {"topology": Isolated(1)}
    ours = ring(**alone)
    ours.learners[0].stand = (2, 3)
    running = asyncio.create_task(ours.run())
    await until(lambda: saved(tmp_path) == [2, 3])
    ours.peers[0].stop()
    done(await running, "stopped")
    found = checkpoint.unfinished(tmp_path / "rank-0" / checkpoint.FOLDER)
    name, change = DAMAGES[damage]
    if change is None:
        (found / name).unlink()
    elif change == "fingerprint":
        checkpoint.write_unfinished(found.parent, 2, {"size": 7}, lambda folder: None)
    else:
        (found / name).write_bytes(change((found / name).read_bytes()))
    again, fresh = ring(resume=True, **alone), ring(out=None, seconds=None, **alone)
    again.learners[0].unfinished.refuses = damage == "refused by the learner"
    done(await again.run())
    done(await fresh.run())
    assert again.learners[0].made[0] == (2, 0)
    assert again.bodies().tobytes() == fresh.bodies().tobytes()
    (warning,) = [line for line in again.logs[0] if line.endswith(LEFT_OUT) and "--overwrite" not in line]
    assert {"another run's": "is of another run: size is 7 there", "refused by the learner": "cannot be read"}.get(
        damage, "is damaged"
    ) in warning
    assert "resuming at round 3" in again.logs[0]


@pytest.mark.parametrize(("number", "warned"), [(2, False), (9, True)])
async def test_the_progress_of_another_round_is_left_out(ring, whole, tmp_path, number, warned):
    """Of an earlier one where a process was killed after its checkpoint; of a later one where that is gone."""
    done(await ring(seconds=None).run())
    before = checkpoint.latest(tmp_path / "rank-0" / checkpoint.FOLDER)
    checkpoint.write_unfinished(before.parent, number, {"size": 4, "body_lr": 0.05}, lambda folder: None)
    again = ring(resume=True)
    done(await again.run())
    assert again.bodies().tobytes() == whole
    assert [len(lines(tmp_path, rank)) for rank in range(4)] == [ROUNDS] * 4
    found = [
        line
        for line in again.logs[0]
        if line.endswith(f"is of round {number + 1}, which is not trained next" + LEFT_OUT)
    ]
    assert len(found) == warned
