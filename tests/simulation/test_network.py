"""A simulated network, one fault at a time, in virtual time."""

import asyncio
import random

import pytest

from dpeer.exceptions import AddressError
from dpeer.peer.transport import Arrival, Broken, Opened, Sent, Writable
from dpeer.simulation.network import Conditions, FaultyNetwork
from dpeer.simulation.virtual_time import Process, VirtualLoop
from tests.error_texts import refused

PLAIN = Conditions(latency=(0.1, 0.1), redial=(1, 4), notice=(0.2, 0.2), listener_told=1, flushed=0)


class Pair:
    """Rank 1 has dialled rank 0; both are joined."""

    async def open(self, conditions=PLAIN, **kwargs):
        self.network = FaultyNetwork(random.Random(5), conditions, **kwargs)
        self.processes = [Process(), Process()]
        self.listener, self.dialler = (self.network.transport(rank, self.processes[rank]) for rank in (0, 1))
        await self.listener.listen("sim://0")
        self.link = self.dialler.dial("sim://0")
        assert await self.dialler.receive() == Opened(self.link)
        self.dialler.send(self.link, [b"first"])
        first = await self.listener.receive()
        assert first.frames == [b"first"]
        self.accepted = first.link
        return self


def virtually(test):
    """Run an async test in virtual time."""

    def run(**kwargs):
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(**kwargs))

    run.__name__ = test.__name__
    return run


async def events(transport, seconds):
    """The events of a transport within some seconds."""
    found = []
    try:
        async with asyncio.timeout(seconds):
            while True:
                found.append(await transport.receive())
    except TimeoutError:
        return found


def now():
    return asyncio.get_running_loop().time()


@virtually
async def test_both_ways_keep_their_order_and_take_their_time():
    pair = await Pair().open(Conditions(latency=(0.01, 5)))
    begin = now()
    for number in range(20):
        assert pair.dialler.send(pair.link, [b"%d" % number]) is Sent.TAKEN
    assert pair.listener.send(pair.accepted, [b"back"]) is Sent.TAKEN
    assert [(await pair.listener.receive()).frames for _ in range(20)] == [[b"%d" % n] for n in range(20)]
    assert 0.01 < now() - begin < 5.1
    assert await pair.dialler.receive() == Arrival(pair.link, [b"back"])


@virtually
async def test_bytes_take_time():
    pair = await Pair().open(Conditions(latency=(0, 0), bytes_per_second=100))
    begin = now()
    for size in (50, 150):
        pair.dialler.send(pair.link, [b"x" * size])
    await pair.listener.receive()
    assert now() - begin == pytest.approx(0.5)
    await pair.listener.receive()
    assert now() - begin == pytest.approx(2.0)


@virtually
async def test_a_cut_loses_what_is_under_way_and_both_ends_learn_of_it():
    pair = await Pair().open()
    pair.dialler.send(pair.link, [b"lost"])
    pair.network.cut(0, 1)
    pair.network.hold(0, 1)
    assert pair.dialler.send(pair.link, [b"lost, too"]) is Sent.TAKEN  # it does not know yet
    assert await events(pair.dialler, 60) == [Broken(pair.link)]
    assert await events(pair.listener, 60) == [Broken(pair.accepted)]
    assert pair.dialler.send(pair.link, [b"x"]) is Sent.GONE
    assert pair.listener.send(pair.accepted, [b"x"]) is Sent.GONE
    pair.network.release(0, 1)
    assert await events(pair.dialler, 60) == [Opened(pair.link)]
    assert pair.dialler.send(pair.link, [b"again"]) is Sent.TAKEN
    again = await pair.listener.receive()
    assert (again.frames, again.link == pair.accepted) == ([b"again"], False)


@virtually
async def test_messages_vanish_in_one_direction_until_it_is_dialled_anew():
    pair = await Pair().open()
    pair.network.vanish(1, 0)
    assert pair.dialler.send(pair.link, [b"vanishes"]) is Sent.TAKEN
    assert pair.listener.send(pair.accepted, [b"arrives"]) is Sent.TAKEN
    assert await events(pair.listener, 1000) == []
    assert await events(pair.dialler, 1) == [Arrival(pair.link, [b"arrives"])]
    pair.dialler.drop(pair.link)
    assert pair.dialler.send(pair.link, [b"x"]) is Sent.GONE
    link = pair.dialler.dial("sim://0")
    assert await events(pair.dialler, 10) == [Opened(link)]
    pair.dialler.send(link, [b"here"])
    broken, arrived = await events(pair.listener, 1)
    assert broken == Broken(pair.accepted)
    assert arrived.frames == [b"here"]


@virtually
async def test_a_stalled_link_is_full_at_last_and_delivers_everything_later():
    pair = await Pair().open(Conditions(latency=(0.1, 0.1), capacity=4))
    pair.network.hold(1, 0)
    sent = [pair.dialler.send(pair.link, [b"%d" % number]) for number in range(6)]
    assert sent == [Sent.TAKEN] * 4 + [Sent.FULL] * 2
    assert await events(pair.listener, 100) == []
    pair.network.release(1, 0)
    assert [arrival.frames for arrival in await events(pair.listener, 1)] == [[b"%d" % number] for number in range(4)]
    assert await events(pair.dialler, 1) == [Writable(pair.link)]
    assert pair.dialler.send(pair.link, [b"4"]) is Sent.TAKEN


@pytest.mark.parametrize("notice", [True, False])
def test_a_killed_listener_comes_back(notice):
    @virtually
    async def test():
        pair = await Pair().open()
        pair.processes[0].kill()
        pair.listener.end(notice=notice)
        assert pair.listener.send(pair.accepted, [b"from the grave"]) is Sent.GONE
        assert await events(pair.dialler, 30) == ([Broken(pair.link)] if notice else [])
        assert pair.dialler.send(pair.link, [b"x"]) is (Sent.GONE if notice else Sent.TAKEN)
        heir = pair.network.transport(0, Process())
        await heir.listen("sim://0")
        expected = [Opened(pair.link)] if notice else [Broken(pair.link), Opened(pair.link)]
        assert await events(pair.dialler, 30) == expected
        pair.dialler.send(pair.link, [b"welcome back"])
        assert (await heir.receive()).frames == [b"welcome back"]

    test()


@virtually
async def test_messages_sent_before_closing_arrive():
    pair = await Pair().open(Conditions(latency=(3, 3), flushed=0, listener_told=1, notice=(0, 0)))
    for word in (b"a", b"b"):
        pair.dialler.send(pair.link, [word])
    await pair.dialler.close(5)
    arrived = await events(pair.listener, 10)
    assert arrived == [Arrival(pair.accepted, [b"a"]), Arrival(pair.accepted, [b"b"]), Broken(pair.accepted)]


def test_the_same_seed_gives_the_same_delays():
    async def run(seed):
        network = FaultyNetwork(random.Random(seed))
        listener, dialler = (network.transport(rank, Process()) for rank in (0, 1))
        await listener.listen("sim://0")
        link = dialler.dial("sim://0")
        await dialler.receive()
        times = []
        for _ in range(10):
            dialler.send(link, [b"x"])
            await listener.receive()
            times.append(now())
        return times

    def timed(seed):
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            return runner.run(run(seed))

    assert timed(3) == timed(3) != timed(4)


@virtually
async def test_an_address_has_one_listener():
    network = FaultyNetwork(random.Random(1))
    await network.transport(0, Process()).listen("sim://0")
    with refused(AddressError, "address 'sim://0' is in use"):
        await network.transport(1, Process()).listen("sim://0")
