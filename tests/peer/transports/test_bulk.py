"""Second connections for long messages: order, what is seen on the way, and who uses them."""

import asyncio
import os
import socket

import pytest
import zmq

from dpeer.peer.core.limits import KEEPALIVE_IDLE
from dpeer.peer.transport import Arrival, Broken, Opened, Sent, Slower
from dpeer.peer.transports import bulk_channel
from dpeer.peer.transports.aead_records import TAG, Decryptor, Encryptor, new_key
from tests.peer.keys import keyrings
from tests.peer.proxy import Proxy
from tests.peer.transports.conftest import TCP, next_of, put

LONG = 1_000_000


async def until(true):
    while not true():  # noqa: ASYNC110 - other tasks of this event loop make it so
        await asyncio.sleep(0.002)


async def long_arrives(transport, link, listener):
    """Send a long message, and give its arrival."""
    await put(transport, link, b"long", bytes(LONG))
    while len((arrival := await next_of(listener, Arrival)).frames) < 2 or arrival.frames[1].nbytes != LONG:
        pass
    return arrival


def prove(token, key):
    """The first words of a dialler on the second connection."""
    record = bytearray(16 + TAG)
    Encryptor(key).encrypt(memoryview(token), memoryview(record))
    return token + bytes(record)


def channel(transport, link):
    found = transport.bulk.get(link)
    return None if found is None else found.channel


class Pair:
    """A listener and a dialler with a second connection."""

    async def meet(self, opened):
        rings = keyrings(2)
        self.listener, self.dialler = opened(rings[0], 0), opened(rings[1])
        self.address = await self.listener.listen(TCP)
        self.there = self.dialler.dial(self.address, 0)
        await next_of(self.dialler, Opened)
        await put(self.dialler, self.there, b"hello")
        self.back = (await next_of(self.listener, Arrival)).link
        await until(lambda: channel(self.dialler, self.there) and channel(self.listener, self.back))
        return self


@pytest.fixture
async def tapped(opened, offered_elsewhere):
    """A pair, and the tap on its second connection."""
    async with Proxy("tcp://127.0.0.1:1") as tap:
        offered_elsewhere(tap)
        yield await Pair().meet(opened), tap


async def test_messages_keep_their_order_both_ways(opened):
    pair = await Pair().meet(opened)
    body = os.urandom(LONG)

    async def say(transport, link):
        for number in range(20):
            await put(transport, link, b"small %d" % number)
            await put(transport, link, b"long %d" % number, body[:100], b"", body[100:])
            await put(transport, link, b"last %d" % number, bytes(10))

    async def hear(transport):
        heard = [await next_of(transport, Arrival) for _ in range(60)]
        words = [(b"small %d" % number, b"long %d" % number, b"last %d" % number) for number in range(20)]
        assert [bytes(one.frames[0]) for one in heard] == [word for some in words for word in some]
        assert all([bytes(one) for one in long.frames[1:]] == [body[:100], b"", body[100:]] for long in heard[1::3])
        assert all([bytes(one) for one in last.frames[1:]] == [bytes(10)] for last in heard[2::3])
        assert len({one.identity for one in heard}) == 1

    await asyncio.gather(
        say(pair.dialler, pair.there), hear(pair.listener), say(pair.listener, pair.back), hear(pair.dialler)
    )


@pytest.mark.parametrize("place", [200, 300_000, 1_000_000])
async def test_a_body_that_was_changed_on_its_way_breaks_the_link_and_is_not_heard(tapped, place):
    pair, tap = tapped
    tap.spoil = place
    await put(pair.dialler, pair.there, b"changed", os.urandom(LONG))
    await put(pair.dialler, pair.there, b"after it")
    assert await next_of(pair.dialler, Broken) == Broken(pair.there)
    await next_of(pair.dialler, Opened)
    await put(pair.dialler, pair.there, b"again")
    assert bytes((await next_of(pair.listener, Arrival)).frames[0]) == b"again"


async def test_a_second_connection_that_is_cut_breaks_the_link_while_a_body_is_on_its_way(tapped):
    pair, tap = tapped
    tap.there.open.clear()  # holds everything up
    await put(pair.dialler, pair.there, b"lost", os.urandom(LONG))
    await put(pair.dialler, pair.there, b"after it")
    tap.cut()
    assert await next_of(pair.dialler, Broken) == Broken(pair.there)
    await next_of(pair.dialler, Opened)
    await put(pair.dialler, pair.there, b"again")
    assert bytes((await next_of(pair.listener, Arrival)).frames[0]) == b"again"


async def test_one_that_is_cut_while_nothing_is_on_its_way_breaks_nothing(tapped):
    pair, tap = tapped
    tap.cut()
    await until(lambda: not channel(pair.dialler, pair.there) and not channel(pair.listener, pair.back))
    assert (await long_arrives(pair.dialler, pair.there, pair.listener)).link == pair.back


async def test_where_the_port_cannot_be_reached_everything_goes_over_one_connection(opened):
    rings = keyrings(2)
    listener, dialler = opened(rings[0], 0), opened(rings[1])
    address = await listener.listen(TCP)
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        port = listener.bulk.connector.port = taken.getsockname()[1]
        link = dialler.dial(address, 0)
        found = await next_of(dialler, Slower)
    assert found.link == link
    assert f"port {port} of 127.0.0.1 cannot be used" in found.reason
    await long_arrives(dialler, link, listener)


async def test_both_may_leave_at_once_while_both_send(opened):
    pair = await Pair().meet(opened)
    for transport, link in ((pair.dialler, pair.there), (pair.listener, pair.back)):
        while transport.send(link, [b"x", bytes(LONG)]) is Sent.TAKEN:
            pass
    await asyncio.gather(pair.dialler.close(0.2), pair.listener.close(0.2))


@pytest.mark.skipif(not hasattr(socket, "TCP_KEEPIDLE"), reason="the system has no such option")
async def test_a_connection_that_is_idle_is_kept_and_looked_after(opened):
    pair = await Pair().meet(opened)
    for transport, link in ((pair.dialler, pair.there), (pair.listener, pair.back)):
        connection = channel(transport, link).connection
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == KEEPALIVE_IDLE


async def test_a_newer_connection_of_the_same_peer_takes_the_second_one_with_it(opened):
    rings = keyrings(2)
    listener = opened(rings[0], 0)
    address = await listener.listen(TCP)
    before = None
    for _ in range(3):
        dialler = opened(rings[1])
        link = dialler.dial(address, 0)
        await next_of(dialler, Opened)
        await until(lambda: channel(dialler, link))  # noqa: B023 - it is over before the next one
        arrival = await long_arrives(dialler, link, listener)
        assert len(listener.bulk) <= 2
        assert len(listener.bulk.channels()) == 1
        assert arrival.link != before
        before = arrival.link


# -- strangers at the port ---------------------------------------------------------------------------------------


async def said_to(port, words):
    """What a listener's second port answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(words)
    try:
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize("length", [0, 16, 48, 1_000_000])
async def test_a_stranger_gets_no_answer(opened, monkeypatch, length):
    words = os.urandom(length)
    pair = await Pair().meet(opened)
    monkeypatch.setattr(bulk_channel, "PROVE_WITHIN", 0.1)
    assert await said_to(pair.listener.bulk.connector.port, words) == b""
    await long_arrives(pair.dialler, pair.there, pair.listener)


async def test_a_token_without_its_key_gets_no_answer_and_keeps_no_peer_out(opened, monkeypatch):
    offers = []
    connect = bulk_channel.BulkConnector.connect

    def late(self, host, port, offer, failed):
        offers.append((port, offer, lambda: connect(self, host, port, offer, failed)))

    monkeypatch.setattr(bulk_channel.BulkConnector, "connect", late)
    rings = keyrings(2)
    listener, dialler = opened(rings[0], 0), opened(rings[1])
    link = dialler.dial(await listener.listen(TCP), 0)
    await until(lambda: offers)
    port, offer, go_on = offers[0]
    for key in (new_key(), offer.theirs):  # the other direction's is not the right one, either
        assert await said_to(port, prove(offer.token, key)) == b""
    go_on()
    await until(lambda: channel(dialler, link))
    await long_arrives(dialler, link, listener)


async def test_an_introduction_is_good_once(tapped):
    pair, tap = tapped
    introduction = bytes(tap.there.seen)
    assert len(introduction) == 48
    assert await said_to(tap.port, introduction) == b""
    await long_arrives(pair.dialler, pair.there, pair.listener)


async def test_however_many_strangers_connect_few_are_kept(opened):
    pair = await Pair().meet(opened)
    port = pair.listener.bulk.connector.port
    strangers = []
    for _ in range(200):
        strangers.append(await asyncio.open_connection("127.0.0.1", port))
        await asyncio.sleep(0)
    await until(lambda: sum(reader.at_eof() for reader, _ in strangers) >= 200 - 32 - 5)
    assert len(pair.listener.bulk.connector.unproved) <= 32
    await long_arrives(pair.dialler, pair.there, pair.listener)
    for _, writer in strangers:
        writer.close()


# -- a listed peer that does not keep to the rules -----------------------------------------------------------------


class Hostile:
    """Says anything over CURVE, and has the second connection if it wants it."""

    def __init__(self, context, ring, address):
        self.context, self.ring, self.address = context, ring, address
        self.socket = context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.curve_secretkey, self.socket.curve_publickey = ring.secret, ring.public
        self.socket.curve_serverkey = ring.listed[0][0]
        self.socket.connect(address)

    @staticmethod
    async def met(port, token, mine, theirs):
        """Take an offer: make the second connection, and check the answer; returns its writer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(prove(token, mine))
        answer, found = await reader.readexactly(16 + TAG), bytearray(16)
        Decryptor(theirs).decrypt(memoryview(answer), memoryview(found))
        assert found == token
        return writer

    async def offered(self):
        """Ask for a second connection; port, token, key for what is sent, key for what comes."""
        key = new_key()
        self.socket.send(b"\0A" + key)
        while not self.socket.poll(0):  # noqa: ASYNC110 - the transport of this event loop answers
            await asyncio.sleep(0.002)
        expected = self.socket.recv()
        return int.from_bytes(expected[2:4], "little"), expected[4:20], key, expected[20:]


@pytest.fixture
async def hostile(opened):
    rings = keyrings(3)
    listener = opened(rings[0], 0)
    address = await listener.listen(TCP)
    with zmq.Context() as context:
        one = Hostile(context, rings[1], address)
        honest = opened(rings[2])
        link = honest.dial(address, 0)
        await next_of(honest, Opened)
        await until(lambda: channel(honest, link))
        yield one, listener, (honest, link)
        one.socket.close()


def newest(listener, identity=1):
    return listener.bulk.get(listener.bulk.newest[identity])


def broken(listener, identity=1):
    return newest(listener, identity).broken and not newest(listener, identity).waits


async def gone(listener, identity=1):
    """The link of this peer has been broken, and nothing is kept for it."""
    await until(lambda: broken(listener, identity))


def mark(*lengths):
    return b"\0M" + b"".join(length.to_bytes(4, "little") for length in lengths)


@pytest.mark.parametrize(
    "expected",
    [
        [mark(2**32 - 1), b"header"],
        [mark(*[2**20] * 9), b"header"],
        [mark(*[2**16] + [0] * 5000), b"header"],
        [mark(1), b"header"],
        [mark(), b"header"],
        [mark(2**20)],
        [mark(2**20), b"header", b"more"],
        [b"\0M\1", b"header"],
    ],
)
async def test_an_announcement_that_cannot_be_breaks_its_link_alone(hostile, expected):
    one, listener, (honest, link) = hostile
    await one.offered()
    assert len(listener.bulk) == 2
    one.socket.send_multipart(expected)
    await gone(listener)
    assert (await long_arrives(honest, link, listener)).identity == 2


@pytest.mark.parametrize(
    "message",
    [
        [mark(2**20), b"header"],
        [mark(2**20), bytes(2**20)],
        [mark(2**20, *[0] * 4000), b"header"],
        [b"small"],
        [bytes(2**20)],
    ],
)
async def test_what_is_announced_and_does_not_come_holds_up_little(hostile, message):
    one, listener, (honest, link) = hostile
    await one.offered()
    one.socket.send_multipart([mark(2**20), b"header"])
    found, held = newest(listener), 0
    for _ in range(1100):
        held = max(held, found.held_bytes)
        try:
            one.socket.send_multipart(message, zmq.NOBLOCK)
        except zmq.Again:
            await asyncio.sleep(0.001)
        if broken(listener):
            break
        await asyncio.sleep(0)
    await gone(listener)
    assert held <= 2**23 + 2**20
    assert (await long_arrives(honest, link, listener)).identity == 2


async def test_to_ask_twice_changes_nothing(hostile):
    one, listener, _ = hostile
    offer = await one.offered()
    one.socket.send(b"\0A" + new_key())
    one.socket.send(b"\0A short")
    one.socket.send(b"hello")
    while (arrival := await next_of(listener, Arrival)).identity != 1 or bytes(arrival.frames[0]) != b"hello":
        pass
    (await one.met(*offer)).close()


async def test_what_is_still_read_of_a_link_that_was_replaced_is_dropped(hostile):
    """It may say that a body cannot come any more that was lost with the link, and comes on the new one."""
    one, listener, _ = hostile
    await one.offered()
    old = listener.bulk.newest[1]
    one.socket.send_multipart([mark(2**20), b"body"])
    await until(lambda: listener.bulk.get(old).waits)
    new = Hostile(one.context, one.ring, one.address)
    await new.offered()
    await until(lambda: listener.bulk.newest[1] != old)
    listener.bulk.came(listener.bulk.get(old).queue, Arrival(old, [b"after the body"], 1), lambda: None)
    new.socket.send(b"hello")
    expected = []
    while b"hello" not in expected:
        expected.append(bytes((await next_of(listener, Arrival)).frames[0]))
    new.socket.close()
    assert b"after the body" not in expected


async def test_repeated_questions_where_no_second_port_exists_reach_the_core(opened):
    rings = keyrings(2)
    listener = opened(rings[0])
    address = await listener.listen(TCP)
    with zmq.Context() as context:
        one = Hostile(context, rings[1], address)
        for _ in range(3):
            one.socket.send(b"\0A" + new_key())
        heard = [bytes((await next_of(listener, Arrival)).frames[0][:2]) for _ in range(2)]
        one.socket.close()
    assert heard == [b"\0A"] * 2
