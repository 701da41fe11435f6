"""When a hello is said again: not because its answer is late, but because it was turned away or lost."""

import asyncio

import pytest

from dpeer.peer import Limits, LivenessConfig, Network, ZeroMQTransport
from dpeer.peer.core import wire
from dpeer.peer.transport import Arrival, Opened, Sent
from dpeer.topology import build

LATE = LivenessConfig(heartbeat=0.01, suspect_after=1000, dead_after=2000)


@pytest.fixture
async def stand_in(kind, federation):
    """Rank 0 of a ring of two, dialling a transport that the test plays rank 1 on; rank 0's learner, and its beats."""

    class StandIn:
        def __init__(self, liveness):
            self.ours = federation(kind, build("ring", 2), rounds=2, liveness=liveness)
            self.peer = self.ours.peers[0]
            network = self.ours.network if kind == "inprocess" else Network()
            tcp = ZeroMQTransport(Limits(payload_bytes=self.ours.learners[0].payload_bytes))
            self.transport = tcp if kind == "tcp" else network.transport()
            self.ours.opened.append(self.transport)
            self.beats, self.got = 0, asyncio.Queue()

        async def begin(self):
            members = self.peer.core.members
            tick = members.tick

            def counted(now):
                self.beats += 1
                return tick(now)

            members.tick = counted
            address = await self.transport.listen("tcp://127.0.0.1:0" if kind == "tcp" else "inproc://stand-in")
            await self.peer.listen()
            self.running = asyncio.create_task(self.peer.serve({1: address}))
            self.reading = asyncio.create_task(self._read())

        async def _read(self):
            while True:
                arrival = await self.transport.receive()
                if isinstance(arrival, Arrival):
                    self.link = arrival.link
                    await self.got.put(wire.decode(arrival.frames, wire.Limits(payload_bytes=10_000)))

        def say(self, message):
            assert self.transport.send(self.link, wire.encode(message)) is Sent.TAKEN

        def hello(self, *, reply=True):
            return wire.Hello(
                rank=1, next_round=0, reply=reply, fingerprint={"size": 2, "body_lr": 0.05},
                manifest=self.ours.learners[0].manifest, digest="same",
            )  # fmt: skip

        async def kinds_until(self, wanted):
            kinds = []
            while not kinds or kinds[-1] != wanted:
                kinds.append((await self.got.get()).kind)
            return kinds

        async def end(self):
            self.reading.cancel()
            self.peer.stop()
            await asyncio.gather(self.running, self.reading, return_exceptions=True)

    made = []

    async def make(liveness):
        made.append(StandIn(liveness))
        await made[-1].begin()
        return made[-1]

    yield make
    for one in made:
        await one.end()


async def test_while_the_answer_is_late_no_second_hello_is_said_and_the_body_goes_once(stand_in, until):
    other = await stand_in(LATE)
    assert (await other.got.get()).kind == "hello"
    beats = other.beats
    await until(lambda: other.beats >= beats + 10)
    other.say(other.hello())
    assert "hello" not in await other.kinds_until("body")
    federation = wire.federation_id({"size": 2, "body_lr": 0.05})
    other.say(wire.body(federation, 1, 0, [bytes(40)]))
    kinds = await other.kinds_until("body")  # of the next round
    assert "hello" not in kinds


async def test_a_hello_that_is_never_answered_is_said_again(stand_in):
    other = await stand_in(LivenessConfig(heartbeat=0.01, suspect_after=0.02, dead_after=1000))
    assert [(await other.got.get()).kind for _ in range(3)] == ["hello"] * 3


async def test_who_was_turned_away_asks_again_with_the_next_beat(stand_in, until):
    """Its earlier connection may be taken for alive for a moment."""
    other = await stand_in(LATE)
    driver = other.peer.driver
    assert (await other.got.get()).kind == "hello"
    other.say(other.hello())
    await until(lambda: not driver.core.members.missing())
    driver._do(driver._tell(Opened(driver.core.members[1].link), driver._now()))  # established anew
    while (await other.got.get()).kind != "hello":
        pass
    other.say(wire.Refusal(rank=1, reason="another process already takes part as rank 0"))
    while (again := await other.got.get()).kind != "hello":
        pass
    assert not again.reply
