"""A learner without tensors and whole federations in one process."""

import asyncio
import functools
import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest

from dpeer.exceptions import Interrupted
from dpeer.peer.config import LivenessConfig, PeerConfig
from dpeer.peer.core.limits import Limits
from dpeer.peer.logs import PeerLog
from dpeer.peer.peer import Peer
from dpeer.peer.transports import ZeroMQTransport
from dpeer.peer.worker import Worker
from dpeer.simulation.network import AT_ONCE, FaultyNetwork
from dpeer.simulation.virtual_time import Process, VirtualWorker
from dpeer.topology import Neighborhood, Row
from tests.peer.keys import keyrings

QUICK = LivenessConfig(heartbeat=0.05, suspect_after=0.3, dead_after=1.0, stop_grace=0.3)
PATIENT = LivenessConfig(heartbeat=0.05, suspect_after=60.0, dead_after=120.0, stop_grace=0.3)
"""No neighbor of a busy machine is taken for dead."""


@dataclass
class Found:
    accuracy: float | None
    test_loss: float | None
    metrics: dict
    training_accuracy: float | None = None
    auroc: float | None = None


class VectorLearner:
    """Body: a vector. A round's training: body <- 0.9 body + rank + 1. Mixing as in the product, in float64."""

    about = figures = property(lambda self: self)
    best_round = None
    kept_point = "mixed"
    finite = True
    disagreement = privacy = None
    gradients = 0
    steps = steps_asked = ()

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
        self.sat_out, self.adopted = [], []
        self.on_train = lambda number: None
        self._stop = threading.Event()

    def train(self, number, *, share=1.0):
        self.on_train(number)
        self.gradients += 10 * (self.rank + 1)
        if number == self.fail:
            raise RuntimeError("the data went away")
        if number == self.hold:
            self.wait_to_go()
        if self._stop.is_set():
            raise Interrupted("between two minibatches")
        self.body = 0.9 * self.body + self.rank + 1
        return float(self.body.sum())

    def wait_to_go(self):
        """Stand still until the test sets `go`, or the peer interrupts."""
        self.held.set()
        while not self.go.wait(0.005):
            if self._stop.is_set():
                self.body[:] = -1e9  # half-trained: must not last
                raise Interrupted("between two minibatches")

    def receive_buffer(self):
        return memoryview(bytearray(self.payload_bytes))

    def release(self, number, receivers=()):
        self._own = self.body.copy()
        if number == self.poison:
            self._own[0] = np.nan
        self.released[number] = self._own.tobytes()
        return [memoryview(self.released[number])]

    def evaluate(self):
        return Found(float(self.body[0]), None, {"first": float(self.body[0])})

    def check(self, rank, payload):
        if sum(memoryview(part).nbytes for part in payload) != self.payload_bytes:
            return "wrong-size"
        return None if np.isfinite(np.frombuffer(payload[0])).all() else "not-finite"

    def mix_sound(self, received, weigh):
        reasons = {rank: self.check(rank, payload) for rank, payload in received.items()}
        refused = {rank: reason for rank, reason in reasons.items() if reason}
        sound = {rank: payload for rank, payload in received.items() if rank not in refused}
        self.mix(sound, weigh(sound))
        return refused

    def mix(self, received, row):
        assert row.keys() == received.keys() | {self.rank}
        assert abs(sum(row.values()) - 1) < 1e-12
        total = np.zeros_like(self.body)
        for rank in sorted(row):
            total += row[rank] * (self._own if rank == self.rank else np.frombuffer(received[rank][0]))
        self.body = total

    def sit_out(self, number):
        self.sat_out.append(number)
        self._own = self.body.copy()

    def adopt(self, number, received, weigh):
        self.adopted.append(number)
        row = weigh(received)
        self.body = sum(row[rank] * np.frombuffer(received[rank][0]) for rank in sorted(row))
        return {}

    def fine_tune(self, number):
        self.gradients += 5

    def interrupt(self):
        self._stop.set()

    def copied(self):
        body = self.body.copy()
        return lambda directory: np.save(directory / "body.npy", body)

    def load(self, directory):
        self.body = np.load(directory / "body.npy")

    def write_model(self, path):
        path.write_bytes(self.body.tobytes())

    def card(self):
        return {"metrics": {"values": {"auroc": {"value": 0.5}}}}


class NoCosts:
    """Jobs take no virtual time."""

    def before(self, job):
        return 0.0

    after = before


class Federation:
    """Peers with vector learners on this event loop.

    They are connected "inprocess", by "tcp", by tcp with "keys", or by a simulated network in virtual time ("virtual"),
    which has the given conditions.
    """

    def __init__(
        self, folder, kind, topology, *, rounds=6, out=None, resume=False, liveness=None, wait=120.0, change=None,
        conditions=None,
    ):  # fmt: skip
        self.folder, self.kind, self.topology, self.rounds = folder, kind, topology, rounds
        self.network = FaultyNetwork(random.Random(0), conditions if kind == "virtual" else AT_ONCE)
        self.keyrings = keyrings(topology.size) if kind == "keys" else []
        self.logs = {rank: [] for rank in range(topology.size)}
        self.full = set()  # ranks whose log drops every line
        self.executor, self.disk = ThreadPoolExecutor(topology.size), ThreadPoolExecutor(topology.size)
        self.learners, self.peers, self.transports, self.made, self.opened = {}, {}, {}, [], []
        self.liveness = liveness or PATIENT
        for rank in range(topology.size):
            self.add(rank, out=out, resume=resume, wait=wait, **(change or {}).get(rank, {}))

    def add(
        self, rank, *, out=None, resume=False, wait=120.0, learner=None, fingerprint=None, listen=None,
        checkpoint_every=1, say_waiting=30.0, deadline=None, keyring=None, counted=None,
        lists=None,
    ):  # fmt: skip
        learner = learner or VectorLearner(rank)
        self.made.append(learner)
        folder = (out or self.folder) / f"rank-{rank}"
        folder.mkdir(parents=True, exist_ok=True)
        tcp = self.kind in ("tcp", "keys")
        limits, keyring = Limits(payload_bytes=learner.about.payload_bytes), keyring or self.keyring(rank)
        self.logs.setdefault(rank, [])
        if self.kind == "virtual":
            process = Process()
            transport, worker = self.network.transport(rank, process), VirtualWorker(process, NoCosts())
        else:
            simulated = None if tcp else self.network.transport(rank, Process())
            transport = simulated or ZeroMQTransport(limits, keyring=keyring)
            worker = Worker(self.executor, self.disk)
        config = PeerConfig(
            rank=rank,
            rounds=self.rounds,
            listen=listen or ("tcp://127.0.0.1:0" if tcp else f"inproc://{rank}"),
            fingerprint={"size": self.topology.size, "body_lr": 0.05} | (fingerprint or {}),
            authenticated=keyring is not None,
            wait=wait,
            remind_every=0.05,
            linger=1.0,
            liveness=self.liveness,
            out=folder,
            resume=resume,
            checkpoint_every=checkpoint_every if out else 1000,
            say_waiting=say_waiting,
            deadline=deadline,
            counted=counted,
            lists=lists,
        )

        def sink(entry):
            self.logs[rank].append(entry["message"])
            return rank not in self.full

        log = PeerLog(rank, None, "debug", sink)
        self.learners[rank], self.transports[rank] = learner, transport
        self.opened.append(transport)
        self.peers[rank] = Peer(config, self.topology, learner, transport, worker, log)

    def keyring(self, rank):
        """The rank's, if keys are used and it is one of the first members."""
        return self.keyrings[rank] if rank < len(self.keyrings) else None

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


def done(found, status="done"):
    """The outcomes by rank; all are of this status."""
    for rank, outcome in found.items():
        if isinstance(outcome, BaseException):
            raise AssertionError(f"rank {rank}: {outcome!r}") from outcome
        assert outcome.status == status
    return found


def lines(folder, rank):
    """The lines of a rank's metrics.jsonl."""
    return [json.loads(line) for line in (folder / f"rank-{rank}" / "metrics.jsonl").read_text().splitlines()]


class Changing:
    """A graph for every round, from a function of the round that gives its mixing matrix."""

    def __init__(self, size, matrix):
        self.size = size
        self.matrix = functools.cache(matrix)

    def at(self, number, rank):
        w = self.matrix(number)
        ins, outs = (tuple(int(i) for i in np.flatnonzero(v) if i != rank) for v in (w[rank], w[:, rank]))
        return Neighborhood(rank, Row(rank, {i: float(w[rank, i]) for i in (rank, *ins)}), ins, outs)

    def connections(self, rank, rounds):
        graphs = [self.at(number, rank) for number in range(rounds)]
        return tuple(sorted({other for graph in graphs for other in graph.in_neighbors + graph.out_neighbors}))


def matching(size, seed):
    """Random pairs in every round; some peers are idle."""

    def matrix(number):
        generator = random.Random(seed * 1000 + number)
        order, w = generator.sample(range(size), size), np.eye(size)
        for a, b in zip(*[iter(order[: generator.randint(0, size)])] * 2, strict=False):
            w[a, a] = w[b, b] = w[a, b] = w[b, a] = 0.5
        return w

    return Changing(size, matrix)


def shift(size, seed=0):
    """Everyone sends to one other: 1, 2, 4, ... places on in turn."""

    def matrix(number):
        step = 1 << (number + seed) % (size - 1).bit_length()
        return (np.eye(size) + np.roll(np.eye(size), step, axis=0)) / 2

    return Changing(size, matrix)


def random_senders(size, seed):
    """Everyone hears some random others, none at all at times: rows sum to one, columns do not."""

    def matrix(number):
        generator = random.Random(seed * 1000 + number)
        w = np.eye(size)
        for rank in range(size):
            heard = generator.sample([other for other in range(size) if other != rank], generator.randint(0, 2))
            w[rank, [rank, *heard]] = 1 / (len(heard) + 1)
        return w

    return Changing(size, matrix)


def from_edges(size, *rounds):
    """Directed edges, round by round; the last round's stay."""

    def matrix(number):
        w = np.eye(size)
        for sender, receiver in rounds[min(number, len(rounds) - 1)]:
            w[receiver, sender] = 1
        return w / w.sum(axis=1, keepdims=True)

    return Changing(size, matrix)


TIME_VARYING = {"matching": matching, "shift": shift, "random-senders": random_senders}


def expected_bodies(topology, rounds, width=5):
    """The recursion in matrix form: X <- W (0.9 X + d), all peers at once; W may change with the round."""
    x = np.zeros((topology.size, width))
    drift = np.arange(topology.size)[:, None] + 1.0
    for number in range(rounds):
        x = (topology.matrix(number) if isinstance(topology, Changing) else topology.weights) @ (0.9 * x + drift)
    return x


@pytest.fixture
async def federation(tmp_path_factory):
    """Make federations; their threads and sockets end with the test."""
    made = []

    def make(*args, **kwargs):
        made.append(Federation(tmp_path_factory.mktemp("run"), *args, **kwargs))
        return made[-1]

    yield make
    for one in made:
        for learner in one.made:
            learner.interrupt()
            learner.go.set()
        for transport in one.opened:  # a context that is only forgotten waits for its sockets for ever
            await transport.close(0)
        for threads in (one.executor, one.disk):
            threads.shutdown(wait=True)


@pytest.fixture
def kill():
    """End a peer that is being served without a goodbye: (peer, its transport, its task)."""

    async def end(peer, transport, task):
        peer.driver.close = lambda *reasons: transport.close(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    return end


async def eventually(condition, seconds=100.0):
    """Poll for a condition that no event announces."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@pytest.fixture
def until():
    return eventually
