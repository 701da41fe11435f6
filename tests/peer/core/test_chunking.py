"""Bodies that travel in pieces: over real sockets, from neighbors that die in the middle, on slow lines."""

import asyncio
import contextlib
import hashlib
import json
import types

import numpy as np
import pytest
import torch
import zmq
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.peer import LivenessConfig, PeerConfig, ZeroMQTransport
from dpeer.peer.core import wire
from dpeer.peer.core.chunking import chunked
from dpeer.peer.core.limits import LEAST_CHUNK
from dpeer.peer.core.membership import Status
from dpeer.peer.core.protocol import Core
from dpeer.topology import build
from dpeer.training import Hyperparameters, Task, TorchLearner, build_learner
from dpeer.training.evaluation import Evaluation

PATIENT = LivenessConfig(heartbeat=0.05, suspect_after=60.0, dead_after=120.0, stop_grace=0.3)
"""No neighbor of a busy machine is taken for dead."""

SILENT = LivenessConfig(heartbeat=0)
"""Nor is a handshake that is answered late asked for again, which would bring a body twice."""

CHUNK = 2**22
"""Of `ZeroMQTransport`, in bytes; a body of so many travels in one message."""


def drawn(rank, number, count):
    """What a rank has trained to in a round."""
    return np.random.default_rng([rank, number]).standard_normal(count, dtype=np.float32)


def digest(parts):
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()


@pytest.fixture
def floats(vector_learner):
    """Fake learners with bodies of any number of float32; with or without room for pieces."""

    class Floats(vector_learner):
        def __init__(self, rank, count, *, room=True):
            super().__init__(rank, 1, {"dtype": "float32", "count": count, "parameters": []})
            self.count, self.payload_bytes, self.with_room = count, 4 * count, room
            self.body = np.zeros(count, np.float32)
            self.got, self.most_parts = {}, 0

        def room(self):
            return super().room() if self.with_room else None

        def train(self, number):
            super().train(number)
            self.number, self.body = number, drawn(self.rank, number, self.count)

        def evaluate(self):
            return Evaluation(None, 0.0)

        def release(self, number):
            self._own = self.body.copy()
            self.released[number] = digest([self._own.tobytes()])
            return [memoryview(self._own.tobytes())]

        def mix_sound(self, received, weigh):
            row, total = weigh(received), np.zeros(self.count)
            for rank in sorted(row):
                parts = [bytes(part) for part in received.get(rank, [self._own.tobytes()])]
                self.got[self.number, rank] = digest(parts)
                self.most_parts = max(self.most_parts, len(parts))
                total += row[rank] * np.frombuffer(bytearray(b"".join(parts)), np.float32)
            self.body = total
            return {}

    return Floats


class Vector(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.body, self.head = nn.Parameter(torch.zeros(count)), nn.Parameter(torch.zeros(1))


class Drawing(TorchLearner):
    """A real learner: only what it trains to is drawn."""

    @classmethod
    def made(cls, rank, count):
        data = TensorDataset(torch.zeros(1, 1), torch.zeros(1, dtype=torch.long))
        task = Task(model=Vector(count), head=("head",), train=data, test=data)
        learner = build_learner(task, "dfedmdc", Hyperparameters(finish="none"), rank=rank, seed=0, kind=cls)
        learner.rank, learner.got, learner.sizes, learner.go = rank, {}, [], None
        return learner

    def train(self, number):
        self.number = number
        data = self.trainer.body.data
        data.copy_(torch.from_numpy(drawn(self.rank, number, data.numel())))

    def evaluate(self):
        return Evaluation(None, 0.0)

    def mix_sound(self, received, weigh):
        for rank, payload in received.items():
            self.got[self.number, rank] = digest(payload)
            self.sizes.append(len(payload))
        return super().mix_sound(received, weigh)


def listening(transport, tmp_path, size):
    if transport == "tcp":
        return {}
    return {rank: {"listen": f"ipc://{tmp_path}/{rank}"} for rank in range(size)}


def check(ours, topology, rounds, count):
    """Every body came whole, and the last mix is what numpy makes of what all have trained to."""
    size = topology.size
    last = np.stack([drawn(rank, rounds - 1, count) for rank in range(size)]).astype(np.float64)
    for rank in range(size):
        learner = ours.learners[rank]
        for number in range(rounds):
            for other in range(size):
                if other != rank:
                    sent = digest([drawn(other, number, count).tobytes()])
                    assert learner.got[number, other] == sent, (rank, number, other)
        body = np.asarray(learner.body, np.float64)
        np.testing.assert_allclose(body, topology.weights[rank] @ last, rtol=1e-5, atol=1e-6)
        core = ours.peers[rank].core
        assert not core.drops.counts
        assert not core.exchange.inbox.dropped
        assert not len(core.reassembly)


def done(found, rounds):
    for rank, outcome in found.items():
        if isinstance(outcome, BaseException):
            raise AssertionError(f"rank {rank}: {outcome!r}") from outcome
        assert (outcome.status, outcome.completed_rounds, outcome.lost) == ("done", rounds, {})


COUNTS = (0, 1, 262144, 262145, CHUNK // 4, CHUNK // 4 + 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("transport", "count"), [*(("tcp", count) for count in COUNTS), *(("ipc", count) for count in COUNTS[1::3])]
)
@pytest.mark.parametrize("room", [True, False], ids=["room", "no room"])
async def test_bodies_arrive_whole(federation, floats, transport, room, count, tmp_path):
    topology = build("ring", 2 if room else 3)
    change = listening(transport, tmp_path, topology.size)
    ours = federation("tcp", topology, rounds=2, liveness=SILENT, wait=120.0, change={
        rank: {"learner": floats(rank, count, room=room), **change.get(rank, {})} for rank in range(topology.size)
    })  # fmt: skip
    done(await ours.run(), 2)
    check(ours, topology, 2, count)
    parts = 1 if room else max(1, -(-4 * count // LEAST_CHUNK))  # the first ones are short: the line is not known yet
    assert {learner.most_parts for learner in ours.learners.values()} == {parts}


@pytest.mark.slow
@pytest.mark.parametrize("count", [5, 1000, 20_000])
async def test_bodies_in_many_small_pieces_arrive_whole(federation, floats, count, monkeypatch, tmp_path):
    """More pieces than any queue holds; the pieces do not end where numbers do."""
    monkeypatch.setattr(ZeroMQTransport, "chunk_bytes", max(7, count // 50))
    topology = build("full", 3)
    ours = federation("tcp", topology, rounds=3, liveness=SILENT, wait=120.0, out=tmp_path, change={
        rank: {"learner": floats(rank, count, room=rank != 1)} for rank in range(3)
    })  # fmt: skip
    done(await ours.run(), 3)
    check(ours, topology, 3, count)
    # What is counted does not depend on how a body was cut.
    (line, *_) = (json.loads(one) for one in (tmp_path / "rank-0" / "metrics.jsonl").read_text().splitlines())
    whole = wire.size(wire.encode(wire.body(b"f" * 16, 1, 0, [bytes(4 * count)], bytes(12))))
    assert line["bytes_sent"] == line["bytes_received"] == 2 * whole


@pytest.fixture
def real(federation, monkeypatch):
    """Federations of real learners; they have nothing to be let go from."""

    def make(topology, count, **options):
        learners = {rank: {"learner": Drawing.made(rank, count)} for rank in range(topology.size)}
        for one in learners.values():
            one["learner"].go = types.SimpleNamespace(set=lambda: None)
        options.setdefault("rounds", 2)
        return federation("tcp", topology, liveness=SILENT, wait=120.0, change=learners, **options)

    return make


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 262145, CHUNK // 4 + 1])
async def test_a_learners_bodies_are_mixed_from_their_pieces(real, count):
    topology = build("ring", 3)
    ours = real(topology, count)
    done(await ours.run(), 2)
    check(ours, topology, 2, count)
    assert max(length for learner in ours.learners.values() for length in learner.sizes) == -(-4 * count // LEAST_CHUNK)


# -- neighbors that die or come back in the middle of a body ----------------------------------------------------------

FINGERPRINT = {"size": 3, "body_lr": 0.05}
WIDTH = 50
BODY_BYTES = 8 * WIDTH
SMALL = 64


class StandIn:
    """Speaks for a rank of a federation of vector learners, by hand.

    Everything is said at once, so that nobody can take it for dead in between.
    """

    def __init__(self, rank, manifest):
        self.rank, self.manifest = rank, manifest
        self.federation = wire.federation_id(FINGERPRINT)
        self._context = zmq.Context()
        self._sockets = []

    def hello(self, next_round):
        return wire.encode(wire.Hello(
            rank=self.rank, next_round=next_round, fingerprint=FINGERPRINT, manifest=self.manifest, digest="same",
        ))  # fmt: skip

    def body(self, number, values):
        buffers = [np.full(WIDTH, values, np.float64).tobytes()]
        return list(chunked(wire.encode(wire.body(self.federation, self.rank, number, buffers)), SMALL))

    def goodbye(self):
        return wire.encode(wire.Goodbye(rank=self.rank, federation=self.federation, reason="done"))

    def say(self, address, *messages):
        socket = self._context.socket(zmq.DEALER)
        self._sockets.append(socket)
        socket.connect(address)
        for message in messages:
            socket.send_multipart(message)

    def die(self):
        """The sockets are closed, after what was said has gone."""
        for socket in self._sockets:
            socket.close(linger=60_000)
        self._sockets.clear()

    def end(self):
        for socket in self._sockets:
            socket.close(linger=0)
        self._context.destroy(linger=0)


@pytest.fixture
def stand_in():
    manifest = {"dtype": "float64", "count": WIDTH, "parameters": []}
    one = StandIn(2, manifest)
    yield one
    one.end()


@pytest.fixture
def two_of_three(federation, vector_learner, stand_in, monkeypatch):
    """Ranks 0 and 1 of a ring of three; rank 2 is a stand-in, which dials them both."""
    monkeypatch.setattr(ZeroMQTransport, "chunk_bytes", SMALL)

    def make(**options):
        learners = {rank: {"learner": vector_learner(rank, WIDTH, stand_in.manifest)} for rank in range(3)}
        return federation("tcp", build("ring", 3), change=learners, **options)

    return make


async def addresses_of(ours):
    return {rank: await ours.peers[rank].listen() for rank in (0, 1)}


def cores(ours):
    return [ours.peers[rank].core for rank in (0, 1)]


def got(core):
    """How many bytes of rank 2's body have come."""
    arriving = core.reassembly.get(core.members[2].link)
    return 0 if arriving is None else arriving.got


TRAINED = np.array([1.0, 2.0])  # ranks 0 and 1 in round 0
ALONE = np.array([[2, 1], [1, 2]]) / 3  # rank 2's weight is on the diagonal
SURVIVED = ALONE @ TRAINED


@pytest.mark.slow
@pytest.mark.parametrize("chunks", [0, 1, 5, -1])
async def test_who_dies_in_the_middle_of_a_body_leaves_no_trace(two_of_three, stand_in, chunks, tmp_path, until):
    ours = two_of_three(rounds=3, out=tmp_path, wait=120.0)
    addresses = await addresses_of(ours)
    announced, *rest = stand_in.body(0, 1e6)
    assert len(rest) == -(-BODY_BYTES // SMALL)
    for address in addresses.values():
        stand_in.say(address, stand_in.hello(0), announced, *rest[: chunks if chunks >= 0 else len(rest) - 1])
    stand_in.die()
    found = await ours.serve(addresses, [0, 1])
    x = np.zeros(2)
    for _ in range(3):
        x = ALONE @ (0.9 * x + TRAINED)
    for rank in (0, 1):
        assert found[rank].completed_rounds == 3
        assert "silent" in found[rank].lost[2]
        np.testing.assert_allclose(ours.learners[rank].body, np.full(WIDTH, x[rank]), rtol=1e-12)
        lines = [json.loads(one) for one in (tmp_path / f"rank-{rank}" / "metrics.jsonl").read_text().splitlines()]
        assert all(line["missed"] == [2] and line["heard"] == [1 - rank] for line in lines)
        assert len(ours.peers[rank].core.exchange.inbox) == 0
        # Its first words were heard before it was given up, however slow the machine is.
        assert not ours.peers[rank].core.drops.counts.keys() - {"stray"}


@pytest.mark.slow
async def test_who_comes_back_with_another_round_is_mixed_with_that_alone(two_of_three, stand_in, until):
    ours = two_of_three(rounds=2, wait=120.0)
    addresses = await addresses_of(ours)
    for rank in (0, 1):
        ours.learners[rank].hold = 1
    announced, *rest = stand_in.body(0, 1e6)
    for address in addresses.values():
        stand_in.say(address, stand_in.hello(0), announced, *rest[:3])
    stand_in.die()
    running = asyncio.create_task(ours.serve(addresses, [0, 1]))
    await until(lambda: all(ours.learners[rank].held.is_set() for rank in (0, 1)), 120)
    for rank in (0, 1):
        np.testing.assert_allclose(ours.learners[rank].body, np.full(WIDTH, SURVIVED[rank]), rtol=1e-12)
    for address in addresses.values():
        stand_in.say(address, stand_in.hello(1), *stand_in.body(1, 7.0), stand_in.goodbye())
    await until(lambda: all(core.members[2].why_away == "done" for core in cores(ours)), 120)
    for rank in (0, 1):
        ours.learners[rank].go.set()
    found = await running
    trained = np.append(0.9 * SURVIVED + TRAINED, 7.0)
    for rank in (0, 1):
        assert found[rank].completed_rounds == 2
        np.testing.assert_allclose(ours.learners[rank].body, np.full(WIDTH, trained.mean()), rtol=1e-12)
        assert not len(ours.peers[rank].core.reassembly)


@pytest.mark.parametrize("chunks", [0, 1, 4])
async def test_who_comes_back_with_another_body_of_the_round_is_mixed_with_that_alone(
    two_of_three, stand_in, chunks, until
):
    """The header is the same, so the pieces look as if they were of the same body."""
    ours = two_of_three(rounds=1, liveness=PATIENT, wait=120.0)
    addresses = await addresses_of(ours)
    for rank in (0, 1):
        ours.learners[rank].hold = 0
    announced, *rest = stand_in.body(0, 1e6)
    for address in addresses.values():
        stand_in.say(address, stand_in.hello(0), announced, *rest[:chunks])
    running = asyncio.create_task(ours.serve(addresses, [0, 1]))
    await until(lambda: all(len(core.reassembly) for core in cores(ours)), 120)
    await until(lambda: all(got(core) == chunks * SMALL for core in cores(ours)), 120)
    stand_in.die()
    # Until it is known that the connection is gone, nobody else can speak for the rank.
    await until(lambda: all(core.members[2].link is None for core in cores(ours)), 120)
    for address in addresses.values():
        again = stand_in.body(0, 7.0)
        assert again[0] == announced
        stand_in.say(address, stand_in.hello(0), *again, *again, stand_in.goodbye())
    await until(lambda: all(core.members[2].why_away == "done" for core in cores(ours)), 120)
    for rank in (0, 1):
        ours.learners[rank].go.set()
    found = await running
    for rank in (0, 1):
        assert found[rank].completed_rounds == 1
        np.testing.assert_allclose(ours.learners[rank].body, np.full(WIDTH, (1 + 2 + 7) / 3), rtol=1e-12)
        core = ours.peers[rank].core
        assert core.exchange.inbox.dropped == {"duplicate": 1}
        assert not len(core.reassembly)


async def test_a_goodbye_in_the_middle_of_a_body_ends_it(two_of_three, stand_in):
    ours = two_of_three(rounds=1, liveness=PATIENT, wait=120.0)
    addresses = await addresses_of(ours)
    announced, *rest = stand_in.body(0, 1e6)
    for address in addresses.values():
        stand_in.say(address, stand_in.hello(0), announced, *rest[:3], stand_in.goodbye(), *rest[3:])
    await ours.serve(addresses, [0, 1])
    for rank in (0, 1):
        np.testing.assert_allclose(ours.learners[rank].body, np.full(WIDTH, SURVIVED[rank]), rtol=1e-12)
        assert not len(ours.peers[rank].core.reassembly)


class Line:
    """A TCP connection that breaks once, after so many bytes in one direction; whoever dials again gets through."""

    def __init__(self, port, direction, breaks_after):
        self.port, self.direction, self.left = port, direction, breaks_after
        self.broken, self.connections = False, 0
        self._tasks = set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.address = f"tcp://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader, writer):
        self._tasks.add(asyncio.current_task())
        self.connections += 1
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.port)
        ways = [asyncio.create_task(way) for way in (
            self._pass("there", reader, far_writer), self._pass("back", far_reader, writer),
        )]  # fmt: skip
        with contextlib.suppress(OSError):
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for one in (writer, far_writer):
            one.close()

    async def _pass(self, direction, reader, writer):
        while data := await reader.read(2**14):
            if direction == self.direction and not self.broken:
                data = data[: self.left]
                self.left -= len(data)
                self.broken = self.left == 0
            writer.write(data)
            await writer.drain()
            if direction == self.direction and self.broken and self.connections == 1:
                return


@pytest.mark.parametrize("direction", ["there", "back"])
@pytest.mark.parametrize("breaks_after", [60_000, 400_000, 900_000])
async def test_a_body_that_is_sent_again_on_a_new_connection_is_mixed_once(
    federation, floats, direction, breaks_after, monkeypatch
):
    monkeypatch.setattr(ZeroMQTransport, "chunk_bytes", 2**14)
    topology, count, rounds = build("ring", 2), 60_001, 4  # four bodies of 240,004 bytes each way
    ours = federation("tcp", topology, rounds=rounds, liveness=PATIENT, wait=120.0, change={
        rank: {"learner": floats(rank, count, room=rank == 0)} for rank in range(2)
    })  # fmt: skip
    addresses = await ours.listen()
    async with Line(int(addresses[1].rpartition(":")[2]), direction, breaks_after) as line:
        # The lower rank dials, through the line that breaks.
        found = await asyncio.gather(
            ours.peers[0].serve(addresses | {1: line.address}), ours.peers[1].serve(addresses), return_exceptions=True
        )
        done(dict(enumerate(found)), rounds)
        assert line.broken
        assert line.connections > 1, "libzmq may try one more time itself before the transport does"
    for rank in range(2):
        learner = ours.learners[rank]
        assert learner.got == {
            (number, other): digest([drawn(other, number, count).tobytes()])
            for number in range(rounds) for other in range(2)
        }  # fmt: skip
        last = np.stack([drawn(other, rounds - 1, count) for other in range(2)]).astype(np.float64)
        np.testing.assert_allclose(learner.body, topology.weights[rank] @ last, rtol=1e-6, atol=1e-6)
        assert not len(ours.peers[rank].core.reassembly)


# -- a slow line, without waiting --------------------------------------------------------------------------------------

BEAT = LivenessConfig(heartbeat=1.0, suspect_after=5.0, dead_after=15.0, stop_grace=1.0)


@pytest.fixture
def slow(stand_in, vector_learner):
    """Rank 0's core, for which nothing happens by itself, and rank 2's words to it."""
    learner = vector_learner(0, WIDTH, stand_in.manifest)
    config = PeerConfig(rank=0, rounds=3, fingerprint=FINGERPRINT, liveness=BEAT, listen=None)

    class Slow:
        def __init__(self):
            self.now = 1000.0
            self.core = Core(config, learner, build("ring", 3), SMALL)
            self.neighbor = self.core.members[2]
            self.inbox = self.core.exchange.inbox
            self.hear(stand_in.hello(0))

        def hear(self, *messages):
            for message in messages:
                self.core.receive("line", message, self.now)

        def wait(self, seconds):
            """Let time pass, heartbeat by heartbeat; returns who has died."""
            died = []
            for _ in range(seconds):
                self.now += 1
                died += [dead.rank for dead in self.core.members.tick(self.now)]
                for rank in died:
                    self.core._on_death(self.core.members[rank])
            return died

        @property
        def body(self):
            return np.frombuffer(self.inbox.take(0, [2])[2].payload[0])

    return Slow


async def test_on_a_slow_line_every_piece_is_a_sign_of_life(slow, stand_in):
    line = slow()
    announced, *chunks = stand_in.body(0, 7.0)
    line.hear(announced)
    for chunk in chunks:
        assert line.wait(10) == []
        assert line.neighbor.status is Status.SUSPECT
        assert len(line.inbox) == 0, "it is not whole yet"
        line.hear(chunk)
        assert line.neighbor.status is Status.ALIVE
        assert line.neighbor.heard_at == line.now
    assert line.now > 1000 + 4 * BEAT.dead_after
    np.testing.assert_array_equal(line.body, np.full(WIDTH, 7.0))


async def test_pieces_of_a_body_that_is_not_wanted_are_signs_of_life_too(slow, stand_in):
    line = slow()
    line.inbox.open(2)
    announced, *chunks = stand_in.body(0, 7.0)
    line.hear(announced)
    assert line.inbox.dropped == {"late": 1}
    for chunk in chunks:
        assert line.wait(10) == []
        line.hear(chunk)
        assert line.neighbor.heard_at == line.now
    assert line.inbox.dropped == {"late": 1}
    assert len(line.inbox) == 0


async def test_a_line_on_which_nothing_comes_is_dead_until_the_next_piece(slow, stand_in):
    line = slow()
    announced, *chunks = stand_in.body(0, 7.0)
    line.hear(announced, *chunks[:3])
    assert line.wait(14) == []
    assert len(line.core.reassembly) == 1
    assert line.wait(1) == [2]
    assert line.neighbor.status is Status.DEAD
    assert len(line.core.reassembly) == 0, "what has come of its body is not kept"
    line.hear(chunks[3])
    assert line.neighbor.status is Status.ALIVE
    line.hear(*chunks[4:])
    assert len(line.inbox) == 0
    line.hear(announced, *chunks)  # as it is asked for by the hello to one that is back
    np.testing.assert_array_equal(line.body, np.full(WIDTH, 7.0))


async def test_a_new_connection_of_the_same_neighbor_begins_anew(slow, stand_in):
    line = slow()
    announced, *chunks = stand_in.body(0, 1e6)
    line.hear(announced, *chunks[:3])
    line.core.connected("line", line.now)  # established again: as the transport says it of a link that was dialled
    assert not len(line.core.reassembly)
    line.hear(stand_in.hello(0), *stand_in.body(0, 7.0))
    np.testing.assert_array_equal(line.body, np.full(WIDTH, 7.0))
