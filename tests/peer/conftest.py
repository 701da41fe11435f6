"""A learner without tensors and whole federations in one process."""

import asyncio
import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest

from dpeer.exceptions import Interrupted
from dpeer.peer import Limits, LivenessConfig, Network, Peer, PeerConfig, Worker, ZeroMQTransport


@dataclass
class Found:
    accuracy: float | None
    test_loss: float | None
    metrics: dict


class VectorLearner:
    """Body: a vector. A round's training: body <- 0.9 body + rank + 1. Mixing as in the product, in float64."""

    best_round = None

    def __init__(self, rank, width=5, manifest=None, digest="same"):
        self.rank = rank
        self.body = np.zeros(width)
        self.manifest = manifest or {
            "dtype": "float64",
            "count": width,
            "parameters": [{"name": "w", "shape": [width], "offset": 0}],
        }
        self.digest = digest
        self.payload_bytes = self.body.nbytes
        self.released = {}
        self.poison = None  # round in which NaN is released
        self.hold = None  # round in which training waits until it is interrupted or let go
        self.held = threading.Event()
        self.go = threading.Event()
        self.fail = None
        self.on_train = lambda number: None
        self._stop = threading.Event()

    def train(self, number):
        self.on_train(number)
        if number == self.fail:
            raise RuntimeError("the data went away")
        if number == self.hold:
            self.held.set()
            while not self.go.wait(0.005):
                if self._stop.is_set():
                    self.body[:] = -1e9  # half-trained: must not last
                    raise Interrupted("between two minibatches")
        if self._stop.is_set():
            raise Interrupted("between two minibatches")
        self.body = 0.9 * self.body + self.rank + 1
        return float(self.body.sum())

    def release(self, number):
        self._own = self.body.copy()
        if number == self.poison:
            self._own[0] = np.nan
        self.released[number] = self._own.tobytes()
        return [memoryview(self.released[number])]

    def evaluate(self):
        return Found(float(self.body[0]), None, {"first": float(self.body[0])})

    def check(self, payload):
        if sum(memoryview(part).nbytes for part in payload) != self.payload_bytes:
            return "wrong-size"
        return None if np.isfinite(np.frombuffer(payload[0])).all() else "not-finite"

    def mix(self, received, row):
        assert row.keys() == received.keys() | {self.rank}
        assert abs(sum(row.values()) - 1) < 1e-12
        total = np.zeros_like(self.body)
        for rank in sorted(row):
            total += row[rank] * (self._own if rank == self.rank else np.frombuffer(received[rank][0]))
        self.body = total

    def interrupt(self):
        self._stop.set()

    def save(self, directory):
        (directory / "body.json").write_text(json.dumps(self.body.tolist()))

    def load(self, directory):
        self.body = np.array(json.loads((directory / "body.json").read_text()))

    def write_model(self, path):
        path.write_bytes(self.body.tobytes())


class Federation:
    """Peers with vector learners on one transport, all on this event loop."""

    def __init__(self, kind, topology, *, rounds=6, out=None, resume=False, liveness=None, wait=20.0, change=None):
        self.kind, self.topology, self.rounds = kind, topology, rounds
        self.network = Network()
        self.logs = {rank: [] for rank in range(topology.size)}
        self.executor = ThreadPoolExecutor(topology.size)
        self.learners, self.peers, self.transports, self.made = {}, {}, {}, []
        default = LivenessConfig(heartbeat=0.05, suspect_after=0.3, dead_after=1.0, departure_grace=0.3)
        self.liveness = liveness or default
        for rank in range(topology.size):
            self.add(rank, out=out, resume=resume, wait=wait, **(change or {}).get(rank, {}))

    def add(self, rank, *, out=None, resume=False, wait=20.0, learner=None, fingerprint=None, listen=None):
        learner = learner or VectorLearner(rank)
        self.made.append(learner)
        folder = out / f"rank-{rank}" if out else None
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
        tcp = self.kind == "tcp"
        transport = ZeroMQTransport(Limits(payload_bytes=learner.payload_bytes)) if tcp else self.network.transport()
        config = PeerConfig(
            rank=rank,
            rounds=self.rounds,
            listen=listen or ("tcp://127.0.0.1:0" if tcp else f"inproc://{rank}"),
            fingerprint={"size": self.topology.size, "body_lr": 0.05} | (fingerprint or {}),
            wait=wait,
            remind_every=0.05,
            linger=1.0,
            liveness=self.liveness,
            out=folder,
            resume=resume,
        )
        log = logging.Logger(f"rank-{rank}")
        handler = logging.Handler()
        handler.emit = lambda record: self.logs[rank].append(record.getMessage())
        log.addHandler(handler)
        self.learners[rank], self.transports[rank] = learner, transport
        self.peers[rank] = Peer(config, self.topology, learner, transport, Worker(self.executor), log)

    async def listen(self):
        self.addresses = {rank: await peer.listen() for rank, peer in self.peers.items()}
        return self.addresses

    async def run(self, ranks=None):
        """Serve the ranks (all by default); outcomes or exceptions by rank."""
        addresses = await self.listen()
        return await self.serve(addresses, ranks)

    async def serve(self, addresses, ranks=None):
        ranks = list(self.peers) if ranks is None else ranks
        found = await asyncio.gather(*(self.peers[rank].serve(addresses) for rank in ranks), return_exceptions=True)
        return dict(zip(ranks, found, strict=True))

    def bodies(self):
        return np.stack([self.learners[rank].body for rank in sorted(self.learners)])


def expected_bodies(topology, rounds, width=5):
    """The recursion in matrix form: X <- W (0.9 X + d), all peers at once."""
    x = np.zeros((topology.size, width))
    drift = np.arange(topology.size)[:, None] + 1.0
    for _ in range(rounds):
        x = topology.weights @ (0.9 * x + drift)
    return x


@pytest.fixture
def federation():
    """Make federations; their threads end with the test."""
    made = []

    def make(*args, **kwargs):
        made.append(Federation(*args, **kwargs))
        return made[-1]

    yield make
    for one in made:
        for learner in one.made:
            learner.interrupt()
            learner.go.set()
        one.executor.shutdown(wait=True)


@pytest.fixture
def expected():
    return expected_bodies


@pytest.fixture
def vector_learner():
    return VectorLearner


@pytest.fixture(params=["inprocess", "tcp"])
def kind(request):
    """Every check of a federation runs over every transport."""
    return request.param


async def eventually(condition, seconds=10.0):
    """Poll for a condition that no event announces."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@pytest.fixture
def until():
    return eventually
