"""A neighbor that sends two different bodies for one round: its folder was copied, or rolled back to a backup."""

import asyncio
import json
import threading
from collections import deque

import numpy as np
import pytest

from dpeer.exceptions import Interrupted
from dpeer.peer import InProcessTransport, LivenessConfig, ZeroMQTransport
from dpeer.peer.core import wire
from dpeer.peer.core.chunking import chunked
from dpeer.peer.transport import Opened, Sent
from dpeer.topology import build

PATIENT = LivenessConfig(heartbeat=0.05, suspect_after=60.0, dead_after=120.0, stop_grace=0.3)
"""No neighbor of a busy machine is taken for dead."""

PAIR = build("ring", 2)
FINGERPRINT = {"size": 2, "body_lr": 0.05}
ROUNDS = 2


@pytest.fixture
def gated(vector_learner):
    """A learner that waits at one place, before it trains or mixes in a round, to be let go on; and counts its rooms.

    What it releases in a round it may shift, as another draw of noise would.
    """

    class Gated(vector_learner):
        def __init__(self, rank, width=5, *, at=(None, None), noise=0.0):
            super().__init__(rank, width)
            self.at, self.noise = at, noise
            self.waiting, self.open, self.rooms = threading.Event(), threading.Event(), 0

        def gate(self, what, number):
            if (what, number) == self.at:
                self.waiting.set()
                while not self.open.wait(0.005):
                    if self._stop.is_set():
                        raise Interrupted("at the gate")

        def room(self):
            self.rooms += 1
            return super().room()

        def train(self, number):
            self.number = number
            self.gate("train", number)
            return super().train(number)

        def release(self, number):
            self.body = self.body + self.noise
            return super().release(number)

        def mix_sound(self, received, weigh):
            self.gate("mix", self.number)
            return super().mix_sound(received, weigh)

    return Gated


class Fake:
    """Speaks for rank 1 by hand."""

    def __init__(self, transport, manifest, width, chunked):
        self.transport, self.manifest, self.width, self.chunked = transport, manifest, width, chunked
        self.federation = wire.federation_id(FINGERPRINT)
        self._waiting, self._sending = deque(), None

    async def dial(self, address, next_round):
        """Connect and shake hands."""
        self.link = self.transport.dial(address)
        while not isinstance(await self.transport.receive(), Opened):
            pass
        self.say(wire.Hello(
            rank=1, next_round=next_round, fingerprint=FINGERPRINT, manifest=self.manifest, digest="same"
        ))  # fmt: skip

    def say(self, message):
        for frames in chunked(wire.encode(message), self.chunked):
            self.put(frames)

    def put(self, frames):
        """Send a message after those before it, as soon as there is room."""
        self._waiting.append(frames)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def _send(self):
        while self._waiting:
            if self.transport.send(self.link, self._waiting[0]) is Sent.TAKEN:
                self._waiting.popleft()
            else:
                await asyncio.sleep(0.001)

    def send(self, number, value):
        """A body of that value throughout."""
        self.say(wire.body(self.federation, 1, number, [np.full(self.width, value).tobytes()]))

    def leave(self):
        self.say(wire.Goodbye(rank=1, federation=self.federation, reason="done"))


class Case:
    """Rank 0, a whole peer that will wait at a gate, and its neighbor, a fake."""

    def __init__(self, ours, width, chunked, until):
        self.ours, self.width, self.chunked, self._until = ours, width, chunked, until
        self.learner, self.peer = ours.learners[0], ours.peers[0]
        self.core = self.peer.core
        self.inbox = self.core.exchange.inbox

    async def begin(self):
        self.address = await self.peer.listen()
        self.running = asyncio.create_task(self.peer.serve({0: self.address}))

    async def fake(self, next_round=0):
        limits = wire.Limits(payload_bytes=8 * self.width)
        transport = ZeroMQTransport(limits) if self.ours.kind == "tcp" else self.ours.network.transport()
        self.ours.opened.append(transport)
        fake = Fake(transport, self.learner.manifest, self.width, self.chunked)
        await fake.dial(self.address, next_round)
        return fake

    async def at_the_gate(self):
        await self._until(self.learner.waiting.is_set, 120)
        await self.peer.saver.saved()

    async def lost(self, fake):
        """The fake is no more, and rank 0's transport knows it."""
        await fake.transport.close(0)
        await self._until(lambda: self.core.members[1].link is None, 120)

    async def dropped(self, **counts):
        """Exactly this is dropped, as soon as so many were."""
        await self._until(lambda: self.inbox.dropped.total() >= sum(counts.values()), 120)
        assert self.inbox.dropped == counts

    @property
    def warnings(self):
        return expected(self.ours, 0)

    async def end(self, fake, second=7.0):
        """The last round; the first bodies alone have been mixed, and no pieces are left."""
        fake.send(1, second)
        fake.leave()
        self.learner.open.set()
        outcome = await self.running
        assert (outcome.status, outcome.completed_rounds) == ("done", ROUNDS)
        first = PAIR.weights[0] @ [1.0, 7.0]
        last = PAIR.weights[0] @ [0.9 * first + 1.0, second]
        np.testing.assert_allclose(self.learner.body, np.full(self.width, last), rtol=1e-12)
        assert not self.core.drops.counts
        assert not len(self.core.reassembly)
        return outcome


def expected(ours, rank):
    return [line for line in ours.logs[rank] if "second, different body" in line]


@pytest.fixture(params=[(50, 64), (20_000, None)], ids=lambda p: f"{p[0]} in {p[1]}")
def case(request, federation, kind, gated, until, tmp_path, monkeypatch):
    """Of small bodies in chunks, and large ones in one message."""
    width, chunk_bytes = request.param
    for transport in (ZeroMQTransport, InProcessTransport):
        if chunk_bytes is not None:
            monkeypatch.setattr(transport, "chunk_bytes", chunk_bytes)

    def make(*at):
        change = {rank: {"learner": gated(rank, width, at=at)} for rank in (0, 1)}
        ours = federation(kind, PAIR, rounds=ROUNDS, liveness=PATIENT, wait=120.0, change=change, out=tmp_path)
        return Case(ours, width, chunk_bytes, until)

    return make


GATES = [("train", 0), ("mix", 0), ("train", 1)]
"""Where the first body is when the second comes: in the inbox, collected, or mixed in the round that was completed."""


@pytest.mark.slow
@pytest.mark.parametrize("at", GATES, ids=lambda at: f"{at[0]} {at[1]}")
async def test_a_second_different_body_is_said_once_and_counted_and_the_first_is_mixed(case, at, tmp_path):
    case = case(*at)
    await case.begin()
    fake = await case.fake()
    fake.send(0, 7.0)
    await case.at_the_gate()
    fake.send(0, 7.0)
    await case.dropped(duplicate=1)
    assert not case.warnings
    for value in (1e6, np.nan, 7.0, 1e6):
        fake.send(0, value)
    await case.dropped(different=3, duplicate=2)
    assert (case.core.members.current_round, case.inbox.earliest) == {
        ("train", 0): (0, 0), ("mix", 0): (0, 1), ("train", 1): (1, 1)
    }[at]  # fmt: skip
    (warning,) = case.warnings
    assert warning.startswith("rank 1 sent a second, different body for round 0")
    assert "copied or rolled back" in warning
    await case.end(fake)
    assert len(case.warnings) == 1
    summary = json.loads((tmp_path / "rank-0" / "summary.json").read_text())
    assert summary["dropped"] == {"different": 3, "duplicate": 2}
    # What is only looked at takes no memory that bodies are put together in.
    assert case.learner.rooms == (ROUNDS if case.chunked else 0)


@pytest.mark.parametrize("case", [(50, 64)], indirect=True)
async def test_a_second_body_that_does_not_come_whole_is_not_judged(case):
    case = case("train", 0)
    await case.begin()
    fake = await case.fake()
    fake.send(0, 7.0)
    other = wire.encode(wire.body(fake.federation, 1, 0, [np.full(case.width, 8.0).tobytes()]))
    *most, _ = chunked(other, case.chunked)
    for frames in most:
        fake.put(frames)
    await case._until(lambda: case.inbox.knows(1, 0) and len(case.core.reassembly), 120)
    await case.lost(fake)
    fake = await case.fake()
    fake.send(0, 7.0)
    await case.dropped(duplicate=1)
    await case.end(fake)
    assert not case.warnings


@pytest.mark.parametrize("noise", [0.0, 0.5], ids=["same", "other"])
async def test_a_peer_that_trains_a_round_again_with_other_noise_is_found_out(
    federation, gated, until, tmp_path, noise, kill
):
    """A whole peer, killed after round 3 was sent and before it was saved."""
    topology, at = build("ring", 4), ("mix", 3)
    change = {rank: {"learner": gated(rank, at=at if rank == 3 else (None, None))} for rank in range(4)}
    ours = federation("tcp", topology, rounds=6, out=tmp_path, liveness=PATIENT, wait=120.0, change=change)
    addresses = await ours.listen()
    others = asyncio.create_task(ours.serve(addresses, [0, 1, 2]))
    killed = asyncio.create_task(ours.peers[3].serve(addresses))
    await until(ours.learners[3].waiting.is_set, 120)
    neighbors = [ours.peers[rank].core for rank in (0, 2)]
    await until(lambda: all(core.exchange.inbox.knows(3, 3) for core in neighbors), 120)
    await kill(ours.peers[3], ours.transports[3], killed)
    await until(lambda: all(core.members[3].link is None for core in neighbors), 120)
    ours.add(3, out=tmp_path, resume=True, listen=addresses[3], wait=120.0, learner=gated(3, noise=noise))
    await ours.peers[3].listen()
    outcome = await ours.peers[3].serve(addresses)
    assert outcome.completed_rounds == 6
    assert [outcome.completed_rounds for outcome in (await others).values()] == [6, 6, 6]
    assert [len(expected(ours, rank)) for rank in range(4)] == ([1, 0, 1, 0] if noise else [0, 0, 0, 0])
    assert all("rank 3" in line and "round 3" in line for line in expected(ours, 0) + expected(ours, 2))
    assert [ours.peers[rank].core.exchange.inbox.dropped["different"] for rank in range(4)] == [
        len(expected(ours, rank)) for rank in range(4)
    ]
