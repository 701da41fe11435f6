"""Conformance: one contract that every transport fulfils."""

import asyncio
import contextlib
import random

import pytest
import zmq

from dpeer.exceptions import AddressError
from dpeer.peer.core.limits import Limits
from dpeer.peer.transport import Arrival, Broken, Opened, Sent, Writable
from dpeer.peer.transports import ZeroMQTransport
from dpeer.peer.transports.hosts import split
from dpeer.peer.transports.proxies import proxies
from dpeer.simulation.network import AT_ONCE, FaultyNetwork
from dpeer.simulation.virtual_time import Process
from tests.error_texts import refused
from tests.peer.intermediaries import ProxyServer, Running, listed
from tests.peer.keys import keyrings
from tests.peer.transports.conftest import TCP, next_of, put

IPC = "ipc://{folder}/socket"
ANY = {"inproc": "inproc://0:0", "ipc": IPC, "keys ipc": IPC}
PROXIED = "tcp://site.test:7700"
"""An address that the proxies know alone."""

MEGABYTES = Limits(payload_bytes=8_000_000)
SCHEMES = ["tcp", "ipc", "relay", "inproc", "keys", "keys ipc", "http", "socks5", "relay behind http"]


@pytest.fixture(params=SCHEMES)
async def ends(request, tmp_path):
    """A listener, which is rank 0, with its address, and a dialler: of every scheme, with keys, and with proxies."""
    kind = request.param
    rings = keyrings(2) if "keys" in kind or "relay" in kind else [None, None]
    proxy = None
    async with contextlib.AsyncExitStack() as stack:
        if "relay" in kind:
            between = await stack.enter_async_context(Running(listed(rings[0].listed)))
            address = f"relay://{between.place}"
        else:
            address = ANY.get(kind, TCP).format(folder=tmp_path)
        if "http" in kind or kind == "socks5":
            known = {"relay.test": int(address.rpartition(":")[2])} if "relay" in kind else {}
            proxy = await stack.enter_async_context(ProxyServer("socks5" if kind == "socks5" else "http", known))
            address = "relay://relay.test:7790" if "relay" in kind else address
        through = proxies(proxy and proxy.url)
        network = FaultyNetwork(random.Random(0), AT_ONCE)
        listener, dialler = (
            network.transport(rank, Process())
            if kind == "inproc"
            else ZeroMQTransport(MEGABYTES, keyring=ring, proxies=through)
            for rank, ring in enumerate(rings)
        )
        address = await listener.listen(address)
        if "relay" in kind:
            await between.log.until("rank 0", "is here")
        if proxy is not None and "relay" not in kind:
            proxy.known["site.test"] = int(address.rpartition(":")[2])
            address = PROXIED
        yield listener, address, dialler
        await dialler.close(0)
        await listener.close(0)


async def joined(ends):
    """Listener, dialler, and the dialler's link, which is established."""
    listener, address, dialler = ends
    link = dialler.dial(address, 0)
    assert (await next_of(dialler, Opened)).link == link
    return listener, dialler, link


def copied(frames):
    return [bytes(frame) for frame in frames]


async def test_frames_arrive_whole_and_in_order_both_ways(ends):
    listener, dialler, link = await joined(ends)
    big = bytes(range(256)) * 4096
    assert dialler.send(link, [b"first", big, b""]) is Sent.TAKEN
    assert dialler.send(link, [b"second"]) is Sent.TAKEN
    first, second = await listener.receive(), await listener.receive()
    assert copied(first.frames) == [b"first", big, b""]
    assert copied(second.frames) == [b"second"]
    assert first.link == second.link
    assert listener.send(first.link, [b"back", big]) is Sent.TAKEN
    answer = await dialler.receive()
    assert answer.link == link
    assert copied(answer.frames) == [b"back", big]


async def test_two_links_of_a_dialler_are_two_to_the_listener(ends):
    listener, address, dialler = ends
    if getattr(dialler, "keyring", None):
        pytest.skip("of each identity only the newest connection stays")
    links = [dialler.dial(address, 0), dialler.dial(address, 0)]
    for _ in links:
        await dialler.receive()
    for index, link in enumerate(links):
        dialler.send(link, [b"%d" % index])
    arrivals = [await listener.receive() for _ in links]
    assert len({arrival.link for arrival in arrivals}) == 2
    for arrival in arrivals:
        listener.send(arrival.link, arrival.frames)
    echoed = {copied((back := await dialler.receive()).frames)[0]: back.link for _ in links}
    assert echoed == {b"0": links[0], b"1": links[1]}


async def test_a_link_that_never_was_takes_nothing(ends):
    listener, _, _ = ends
    sent = listener.send(b"nobody", [b"x"])
    if sent is not Sent.GONE:  # libzmq says only that it cannot be reached: what it sent before leaving is read first
        assert await listener.receive() == Broken(b"nobody")


async def test_a_link_to_a_peer_that_left_is_broken_after_its_last_message(ends):
    listener, dialler, link = await joined(ends)
    for word in (b"here", b"and"):
        dialler.send(link, [word])
    arrival = await listener.receive()
    dialler.send(link, [b"gone"])
    await dialler.close(60)
    events = []
    while Broken(arrival.link) not in events:
        if listener.send(arrival.link, [b"still there?"]) is Sent.GONE:
            break
        with contextlib.suppress(TimeoutError):
            events.append(await asyncio.wait_for(listener.receive(), 0.01))
    words = [bytes(one.frames[0]) for one in events if isinstance(one, Arrival)]
    assert words == [b"and", b"gone"]


async def test_a_link_takes_a_bounded_number_of_messages_and_says_when_there_is_room(ends):
    if ends[1].startswith("inproc"):
        pytest.skip("nothing is under way, and the buffers are the sender's")
    listener, dialler, link = await joined(ends)
    sent = 0
    while dialler.send(link, [b"%d" % sent, bytes(500_000)]) is Sent.TAKEN:
        sent += 1
        await asyncio.sleep(0)
    assert sent < 1000
    got = []
    while len(got) < sent:
        got.append(bytes((await next_of(listener, Arrival)).frames[0]))
    assert await next_of(dialler, Writable) == Writable(link)
    assert got == [b"%d" % number for number in range(sent)]
    await put(dialler, link, b"again")
    assert copied((await next_of(listener, Arrival)).frames) == [b"again"]


async def test_what_is_dropped_breaks_for_the_listener(ends):
    listener, dialler, link = await joined(ends)
    dialler.send(link, [b"here"])
    arrival = await listener.receive()
    dialler.drop(link)
    assert dialler.send(link, [b"x"]) is Sent.GONE
    again = dialler.dial(ends[1], 0)
    assert (await next_of(dialler, Opened)).link == again
    await put(dialler, again, b"anew")
    while listener.send(arrival.link, [b"?"]) is Sent.TAKEN:  # noqa: ASYNC110 - no event says so
        await asyncio.sleep(0.001)
    assert copied((await next_of(listener, Arrival)).frames) == [b"anew"]


async def test_what_was_sent_before_closing_arrives(ends):
    listener, dialler, link = await joined(ends)
    sent = 0
    while dialler.send(link, [b"%d" % sent, b"x" * 100_000]) is Sent.TAKEN and sent < 20:
        sent += 1
    closing = asyncio.create_task(dialler.close(60))  # nobody may be left to read what would not fit under way
    assert sent > 1
    got = [copied((await next_of(listener, Arrival)).frames)[0] for _ in range(sent)]
    assert got == [b"%d" % n for n in range(sent)]
    await closing


async def test_an_address_in_use_is_refused(ends, request):
    _listener, address, dialler = ends
    if address.startswith("ipc"):
        pytest.skip("libzmq takes an ipc:// path over")
    if address.startswith("relay"):
        pytest.skip("a relay's address is no peer's: of each key only the newest process is called")
    with pytest.raises(AddressError):
        await dialler.listen(address)


async def test_dialling_before_anybody_listens():
    network = FaultyNetwork(random.Random(0), AT_ONCE)
    early, late = (network.transport(rank, Process()) for rank in (0, 1))
    link = early.dial("inproc://late")
    await late.listen("inproc://late")
    assert await early.receive() == Opened(link)


async def test_tcp_comes_back_after_the_listener_was_restarted(opened):
    first, dialler, second = opened(), opened(), opened()
    address = await first.listen(TCP)
    link = dialler.dial(address, 0)
    assert await dialler.receive() == Opened(link)
    await first.close(0)
    await second.listen(address)
    assert await dialler.receive() == Broken(link)
    assert await dialler.receive() == Opened(link)
    await put(dialler, link, b"hello again")
    assert copied((await second.receive()).frames) == [b"hello again"]


async def test_tcp_drops_a_stranger_that_announces_too_large_a_frame(opened):
    listener, honest = ZeroMQTransport(Limits(header_bytes=1000, payload_bytes=1000)), opened()
    address = await listener.listen(TCP)
    with zmq.Context() as context, context.socket(zmq.DEALER) as stranger:
        stranger.linger = 0
        stranger.connect(address)
        stranger.send(b"x" * 1001)
        link = honest.dial(address)
        await honest.receive()
        honest.send(link, [b"small"])
        assert copied((await listener.receive()).frames) == [b"small"]
    await listener.close(0)


@pytest.mark.parametrize("address", ["tcp://host", "tcp://host:70000", "pigeon://loft"])
def test_what_is_no_address_is_named(address):
    with refused(AddressError, f"address '{address}' cannot be dialled"):
        split(address)
