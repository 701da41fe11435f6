"""One set of checks over every transport."""

import asyncio

import pytest
import zmq

from dpeer.exceptions import AddressError
from dpeer.peer import Limits, Network, ZeroMQTransport

ANY = {"inprocess": "inproc://0:0", "tcp": "tcp://127.0.0.1:0", "ipc": "ipc://{folder}/socket"}
MEGABYTES = Limits(payload_bytes=8_000_000)


@pytest.fixture(params=["inprocess", "tcp", "ipc"])
async def ends(request, tmp_path):
    """A listener with its address, and a dialler."""
    network = Network()
    make = network.transport if request.param == "inprocess" else (lambda: ZeroMQTransport(MEGABYTES))
    listener, dialler = make(), make()
    address = await listener.listen(ANY[request.param].format(folder=tmp_path))
    yield listener, address, dialler
    await dialler.close(0)
    await listener.close(0)


def copied(frames):
    return [bytes(frame) for frame in frames]


async def test_frames_arrive_whole_and_in_order_both_ways(ends):
    listener, address, dialler = ends
    link = dialler.dial(address)
    established = await dialler.receive()
    assert (established.link, established.frames) == (link, None)
    big = bytes(range(256)) * 4096
    assert dialler.send(link, [b"first", big, b""])
    assert dialler.send(link, [b"second"])
    first, second = await listener.receive(), await listener.receive()
    assert copied(first.frames) == [b"first", big, b""]
    assert copied(second.frames) == [b"second"]
    assert first.link == second.link
    assert listener.send(first.link, [b"back", big])
    answer = await dialler.receive()
    assert answer.link == link
    assert copied(answer.frames) == [b"back", big]


async def test_two_diallers_are_two_links(ends):
    listener, address, dialler = ends
    links = [dialler.dial(address), dialler.dial(address)]
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
    assert not listener.send(b"nobody", [b"x"])


async def test_sending_to_someone_who_left_says_so(ends, until):
    listener, address, dialler = ends
    link = dialler.dial(address)
    await dialler.receive()
    dialler.send(link, [b"here"])
    arrival = await listener.receive()
    await dialler.close(1)
    await until(lambda: not listener.send(arrival.link, [b"still there?"]))


async def test_what_was_sent_before_closing_arrives(ends):
    listener, address, dialler = ends
    link = dialler.dial(address)
    await dialler.receive()
    for number in range(20):
        dialler.send(link, [b"%d" % number, b"x" * 100_000])
    closing = asyncio.create_task(dialler.close(5))  # nobody may be left to read what would not fit under way
    assert [copied((await listener.receive()).frames)[0] for _ in range(20)] == [b"%d" % n for n in range(20)]
    await closing


async def test_an_address_in_use_is_named(ends, request):
    _listener, address, dialler = ends
    if address.startswith("ipc"):
        pytest.skip("libzmq takes an ipc:// path over")
    with pytest.raises(AddressError, match="in use") as caught:
        await dialler.listen(address)
    assert address in str(caught.value)


async def test_an_address_of_another_host_is_named():
    transport = ZeroMQTransport(MEGABYTES)
    with pytest.raises(AddressError, match=r"'tcp://192\.0\.2\.1:7700' is not one of this host's: .* `bind`"):
        await transport.listen("tcp://192.0.2.1:7700")  # kept for documentation, so nobody's
    await transport.close(0)


async def test_dialling_before_anybody_listens():
    network = Network()
    early, late = network.transport(), network.transport()
    link = early.dial("inproc://late")
    await late.listen("inproc://late")
    assert (await early.receive()).link == link


async def test_tcp_comes_back_after_the_listener_was_restarted():
    first, dialler = ZeroMQTransport(MEGABYTES), ZeroMQTransport(MEGABYTES)
    address = await first.listen("tcp://127.0.0.1:0")
    link = dialler.dial(address)
    assert (await dialler.receive()).frames is None
    await first.close(0)
    second = ZeroMQTransport(MEGABYTES)
    await second.listen(address)
    try:
        async with asyncio.timeout(100):
            again = await dialler.receive()
        assert (again.link, again.frames) == (link, None)
        assert dialler.send(link, [b"hello again"])
        assert copied((await second.receive()).frames) == [b"hello again"]
    finally:
        await dialler.close(0)
        await second.close(0)


async def test_tcp_drops_whoever_announces_too_large_a_frame():
    listener = ZeroMQTransport(Limits(header_bytes=1000, payload_bytes=1000))
    address = await listener.listen("tcp://127.0.0.1:0")
    context = zmq.Context()
    stranger = context.socket(zmq.DEALER)
    honest = ZeroMQTransport(MEGABYTES)
    try:
        stranger.connect(address)
        stranger.send(b"x" * 1001)
        link = honest.dial(address)
        await honest.receive()
        honest.send(link, [b"small"])
        assert copied((await listener.receive()).frames) == [b"small"]
    finally:
        stranger.close(linger=0)
        context.term()
        await honest.close(0)
        await listener.close(0)
