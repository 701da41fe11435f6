"""Bodies that travel in chunks: over real sockets, and in virtual time on slow lines."""

import asyncio
import hashlib
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest

from dpeer.peer.config import LivenessConfig
from dpeer.peer.core import wire
from dpeer.peer.core.send_queue import SendQueues
from dpeer.peer.transports import ZeroMQTransport
from dpeer.simulation.network import Conditions
from dpeer.simulation.virtual_time import VirtualLoop
from dpeer.topology import build
from dpeer.training.evaluation import Evaluation
from tests.peer.conftest import QUICK, Federation, VectorLearner
from tests.peer.table import BEAT, chunked, encoded, payload, ring

SILENT = LivenessConfig(heartbeat=0)
"""Without heartbeats no handshake that is answered late is asked for again, which would bring a body twice."""

CHUNK = 2**17
"""Bytes; a body of so many travels in one message."""


def drawn(rank, number, count):
    """The values that a rank trains to in a round."""
    return np.random.default_rng([rank, number]).standard_normal(count, dtype=np.float32)


def digest(parts):
    return hashlib.sha256(b"".join(bytes(part) for part in parts)).hexdigest()


class Floats(VectorLearner):
    """A learner with a body of any number of float32; with or without buffer for chunks."""

    def __init__(self, rank, count, *, buffer=True):
        super().__init__(rank, 1, {"dtype": "float32", "count": count, "parameters": []})
        self.count, self.payload_bytes, self.with_buffer = count, 4 * count, buffer
        self.got = {}

    def receive_buffer(self):
        return super().receive_buffer() if self.with_buffer else None

    def train(self, number, **budget):
        self.number, self.body = number, drawn(self.rank, number, self.count)

    def evaluate(self):
        return Evaluation(None, 0.0)

    def release(self, number, receivers=()):
        self._own = self.body.copy()
        return [memoryview(self._own.tobytes())]

    def mix_sound(self, received, weigh):
        row, total = weigh(received), np.zeros(self.count)
        for rank in sorted(row):
            parts = received.get(rank, [self._own.tobytes()])
            self.got[self.number, rank] = digest(parts)
            total += row[rank] * np.frombuffer(bytearray(b"".join(parts)), np.float32)
        self.body = total
        return {}


def check(ours, found, count):
    """Every body came whole and once, and the last mix is numpy's of the values that all have trained to."""
    for outcome in found.values():
        assert (outcome.status, outcome.completed_rounds, outcome.lost) == ("done", ours.rounds, {}), outcome
    ranks = range(ours.topology.size)
    last = np.stack([drawn(rank, ours.rounds - 1, count) for rank in ranks]).astype(np.float64)
    sent = {(n, rank): digest([drawn(rank, n, count).tobytes()]) for n in range(ours.rounds) for rank in ranks}
    for rank in ranks:
        learner, core = ours.learners[rank], ours.peers[rank].core
        assert sent.items() >= learner.got.items()
        assert len(learner.got) >= ours.rounds * (len(ranks) - 1)
        body = np.asarray(learner.body, np.float64)
        np.testing.assert_allclose(body, ours.topology.weights[rank] @ last, rtol=1e-5, atol=1e-6)
        assert not core.reports.counts
        assert not len(core.reassembly)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("transport", "count", "buffer"),
    [
        ("tcp", 0, True),
        ("tcp", CHUNK // 4 + 1, True),
        ("tcp", CHUNK // 4 + 1, False),
        ("ipc", CHUNK // 4 + 1, True),
    ],
)
async def test_bodies_arrive_whole(federation, monkeypatch, transport, buffer, count, tmp_path):
    monkeypatch.setattr(ZeroMQTransport, "chunk_bytes", CHUNK)
    topology = build("ring", 2)
    change = {rank: {"learner": Floats(rank, count, buffer=buffer)} for rank in range(2)}
    if transport == "ipc":
        for rank in range(2):
            change[rank]["listen"] = f"ipc://{tmp_path}/{rank}"
    ours = federation("tcp", topology, rounds=2, liveness=SILENT, change=change)
    check(ours, await ours.run(), count)


async def test_the_bytes_of_a_body_are_counted_the_same_however_it_is_cut(federation, monkeypatch, tmp_path):
    """More chunks than any queue holds, which do not end where numbers do."""
    monkeypatch.setattr(ZeroMQTransport, "chunk_bytes", 19)
    change = {rank: {"learner": Floats(rank, 1000, buffer=rank != 1)} for rank in range(3)}
    ours = federation("tcp", build("full", 3), rounds=3, liveness=SILENT, out=tmp_path, change=change)
    check(ours, await ours.run(), 1000)
    (line, *_) = (json.loads(one) for one in (tmp_path / "rank-0" / "metrics.jsonl").read_text().splitlines())
    whole = wire.size(encoded(b"f" * 16, 1, 0, [bytes(4000)], bytes(12)))
    assert line["bytes_sent"] == line["bytes_received"] == 2 * whole


# -- in virtual time ---------------------------------------------------------------------------------------------------


def test_while_a_body_is_on_a_slow_line_no_neighbor_is_called_hanging():
    """A body takes six times as long as it takes until the log names the neighbor, and three deadlines."""
    slow = Conditions(latency=(0.001, 0.001), bytes_per_second=160_000, chunk_bytes=2**16)
    change = {rank: {"learner": Floats(rank, 240_000), "say_waiting": 1.0, "deadline": 2.0} for rank in range(2)}

    async def run(folder):
        ours = Federation(
            Path(folder), "virtual", build("ring", 2), rounds=3, liveness=QUICK, conditions=slow, change=change
        )
        check(ours, await ours.run(), 240_000)
        return [line for rank in (0, 1) for line in ours.logs[rank]]

    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=VirtualLoop) as runner:
        lines = runner.run(run(folder))
    waiting = [line for line in lines if "has been waiting for" in line]
    assert any(" of 960.0 kB of " in line for line in waiting)
    assert not any(word in line for line in waiting for word in ("hanging", "--deadline"))
    assert not any("silent for" in line for line in lines)


# -- a core by itself --------------------------------------------------------------------------------------------------


def a_body(table, value=7.0, number=0):
    """Rank 2's body: its announcement and its chunks."""
    return list(chunked(table.body(2, number, value), 64))


def silent(table, seconds):
    """Let time pass in which only rank 1 is heard."""
    table.wait(seconds, lambda: table.hear(table.links[1], table.beat(1, 0)))


@pytest.mark.parametrize("wanted", [True, False])
def test_on_a_slow_line_every_chunk_is_a_sign_of_life(wanted):
    table = ring()
    if not wanted:
        table.inbox.open(2)
    announced, *chunks = a_body(table)
    table.hear("from 2", announced)
    for chunk in chunks:
        silent(table, 10)
        assert table.status(2) == "suspect"
        assert len(table.inbox) == 0, "it is not whole yet"
        table.hear("from 2", chunk)
        assert table.status(2) == "alive"
    assert table.now > 1000 + 4 * BEAT.dead_after
    assert table.inbox.dropped == ({} if wanted else {"late": 1})
    assert len(table.inbox) == wanted


@pytest.mark.parametrize("again", [False, True], ids=["the rest", "all again"])
def test_a_line_on_which_nothing_comes_is_dead_until_the_next_chunk(again):
    """The link lasts, so nothing is lost; a sender that took this peer for dead, too, begins its body again."""
    table = ring()
    announced, *chunks = a_body(table)
    table.hear("from 2", announced, *chunks[:3])
    silent(table, 14)
    assert table.status(2) == "suspect"
    silent(table, 1)
    assert table.status(2) == "dead"
    table.hear("from 2", *([announced, *chunks] if again else chunks[3:]))
    assert table.status(2) == "alive"
    assert b"".join(table.inbox.take(0, [2])[2].payload) == payload(7.0, table.learner)


@pytest.mark.parametrize("size", [10, 150])
def test_a_body_that_is_asked_for_while_it_is_on_its_way_goes_on(size):
    queues, frames = SendQueues(64), [b"header", bytes(size)]
    queues.add_body("link", 0, frames)
    written = []
    while (message := queues["link"].next()) is not None:
        queues.add_body("link", 0, frames)
        queues["link"].taken()
        written.append(message)
    assert written == [*chunked(frames, 64)]


def test_another_body_of_the_round_takes_the_place_of_the_one_on_its_way():
    queues, frames = SendQueues(64), [b"header", bytes(150)]
    queues.add_body("link", 0, [b"other", bytes(150)])
    assert queues["link"].next() == [b"other"]
    queues.add_body("link", 0, frames)
    queues["link"].taken()
    assert queues["link"].next() == [b"header"]
