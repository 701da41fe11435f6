"""Unix sockets in place of TCP between peers of one host and user."""

import asyncio
import os
import socket
import sys

import pytest
import zmq

from dpeer.peer import Limits, ZeroMQTransport
from dpeer.peer.transport import Arrival, Broken, Opened
from dpeer.peer.transports import local_sockets
from dpeer.peer.transports.dealer_link import DealerLink
from tests.peer.transports.conftest import TCP, next_of, put

find = local_sockets.find  # before a fixture has replaced it

pytestmark = pytest.mark.skipif(not local_sockets.AVAILABLE, reason="abstract Unix sockets are Linux's")


@pytest.fixture(autouse=True)
def over_unix_sockets(over_tcp, monkeypatch):
    monkeypatch.setattr(local_sockets, "find", find)


def of(address):
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    return host, int(port)


async def takes_unix_socket(dialler, listener, link):
    """Whether messages of an open link come through a Unix socket, one in each direction."""
    await put(dialler, link, b"there")
    there = await next_of(listener, Arrival)
    await put(listener, there.link, b"and back")
    back = await next_of(dialler, Arrival)
    assert [bytes(one.frames[0]) for one in (there, back)] == [b"there", b"and back"]
    assert there.unix_socket is back.unix_socket
    return back.unix_socket


@pytest.mark.parametrize("bound", ["tcp://127.0.0.1:0", "tcp://0.0.0.0:0"])
async def test_a_link_within_a_host_takes_a_unix_socket(opened, bound):
    listener, dialler = opened(), opened()
    _, port = of(await listener.listen(bound))
    link = dialler.dial(f"tcp://127.0.0.1:{port}")
    assert await dialler.receive() == Opened(link)
    await put(dialler, link, b"there", b"x" * 1_000_000)
    assert len((await next_of(listener, Arrival)).frames[1]) == 1_000_000
    assert await takes_unix_socket(dialler, listener, link)


async def test_tcp_is_taken_where_the_listener_or_the_dialler_wants_no_other(opened):
    listener, dialler = ZeroMQTransport(Limits(), local=False), opened()
    link = dialler.dial(await listener.listen(TCP))
    assert await dialler.receive() == Opened(link)
    assert not await takes_unix_socket(dialler, listener, link)
    await listener.close(0)
    listener, dialler = opened(), ZeroMQTransport(Limits(), local=False)
    link = dialler.dial(await listener.listen(TCP))
    assert await dialler.receive() == Opened(link)
    assert not await takes_unix_socket(dialler, listener, link)
    await dialler.close(0)


async def test_a_listener_that_comes_after_an_attempt_in_vain_is_found(opened, monkeypatch):
    """libzmq waits after such an attempt, and would connect over TCP by itself.

    Before it, an attempt may find no Unix socket and then, over TCP, the listener that has come since.
    """
    first, dialler, second = opened(), opened(), opened()
    address = await first.listen(TCP)
    await first.close(0)
    happened, waits = DealerLink._happened, asyncio.Event()

    def watched(self, event, value):
        happened(self, event, value)
        if event == zmq.EVENT_CONNECT_RETRIED:
            waits.set()

    monkeypatch.setattr(DealerLink, "_happened", watched)
    link = dialler.dial(address)
    await waits.wait()
    await second.listen(address)
    assert await dialler.receive() == Opened(link)
    assert await takes_unix_socket(dialler, second, link)


async def test_a_listener_that_comes_back_without_one_is_reached_over_tcp(opened):
    first, dialler = opened(), opened()
    address = await first.listen(TCP)
    link = dialler.dial(address)
    assert await dialler.receive() == Opened(link)
    assert await takes_unix_socket(dialler, first, link)
    await first.close(0)
    assert await next_of(dialler, Broken) == Broken(link)
    second = ZeroMQTransport(Limits(), local=False)
    await second.listen(address)
    assert await next_of(dialler, Opened) == Opened(link)
    assert not await takes_unix_socket(dialler, second, link)
    await second.close(0)


async def test_a_socket_that_accepts_and_never_answers_is_left_for_tcp(opened, monkeypatch):
    """As one of another user, which a dialler may see first where user namespaces differ."""
    dialler, listener = opened(), ZeroMQTransport(Limits(), local=False)
    address = await listener.listen(TCP)
    monkeypatch.setattr(local_sockets, "is_own_users", lambda connection: False)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind("\0" + local_sockets.endpoint(*of(address)).removeprefix("ipc://@"))
        other.listen()
        link = dialler.dial(address)
        assert await dialler.receive() == Opened(link)
    assert not await takes_unix_socket(dialler, listener, link)
    await listener.close(0)


async def test_sockets_of_another_user_that_come_one_after_the_other_leave_tcp(opened, monkeypatch):
    """Each has another of the names that a dialler looks for."""
    dialler, listener = opened(), ZeroMQTransport(Limits(), local=False)
    host, port = of(await listener.listen(TCP))
    monkeypatch.setattr(local_sockets, "is_own_users", lambda connection: False)
    names = ["\0" + local_sockets.endpoint(one, port).removeprefix("ipc://@") for one in (host, "0.0.0.0")]

    def listens(name):
        one = socket.socket(socket.AF_UNIX)
        one.bind(name)
        one.listen()
        one.setblocking(False)
        return one

    async def take_turns():
        one = listens(names[0])
        try:
            while True:
                accepted, _ = await asyncio.get_running_loop().sock_accept(one)
                names.reverse()
                other = listens(names[0])
                one.close()
                accepted.close()
                one = other
        finally:
            one.close()

    turns = asyncio.create_task(take_turns())
    await asyncio.sleep(0)
    async with asyncio.timeout(20):
        link = dialler.dial(f"tcp://{host}:{port}")
        assert await next_of(dialler, Opened) == Opened(link)
        assert not await takes_unix_socket(dialler, listener, link)
    turns.cancel()
    await asyncio.gather(turns, return_exceptions=True)
    await listener.close(0)


def test_names_that_other_programs_have_chosen_are_passed_over():
    """Abstract names are bytes, also such as are no text or begin a line."""
    with socket.socket(socket.AF_UNIX) as binary, socket.socket(socket.AF_UNIX) as ours:
        binary.bind(b"\0\xff\xfe \n\r\x85@" + os.urandom(8).replace(b"\n", b"\xff"))
        assert find("127.0.0.1", 9) is None
        ours.bind("\0" + local_sockets.endpoint("127.0.0.1", 9).removeprefix("ipc://@"))
        assert find("127.0.0.1", 9) == local_sockets.endpoint("127.0.0.1", 9)


async def test_connections_of_another_user_are_refused(opened):
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    listener = opened()
    at = local_sockets.endpoint(*of(await listener.listen(TCP)))
    program = (
        "import os, sys, zmq; os.setuid(65534); context = zmq.Context(); one = context.socket(zmq.DEALER); "
        "one.setsockopt(zmq.LINGER, 0); one.monitor('inproc://m', zmq.EVENT_ALL); pair = context.socket(zmq.PAIR); "
        "pair.connect('inproc://m'); one.connect(sys.argv[1]); "
        "seen = [int.from_bytes(pair.recv_multipart()[0][:2], 'little') for _ in range(4)]; "
        f"assert {int(zmq.EVENT_HANDSHAKE_SUCCEEDED)} not in seen and {int(zmq.EVENT_DISCONNECTED)} in seen, seen"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, at)
    assert await process.wait() == 0


async def test_a_name_that_is_taken_leaves_tcp(opened):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with socket.socket(socket.AF_UNIX) as other:
        other.bind("\0" + local_sockets.endpoint("127.0.0.1", port).removeprefix("ipc://@"))
        listener, dialler = opened(), opened()
        link = dialler.dial(await listener.listen(f"tcp://127.0.0.1:{port}"))
        assert await next_of(dialler, Opened) == Opened(link)
        assert not await takes_unix_socket(dialler, listener, link)


def test_whose_connection_it_is():
    here, there = socket.socketpair(socket.AF_UNIX)
    with here, there:
        assert local_sockets.is_own_users(here.fileno())
    assert not local_sockets.is_own_users(here.fileno())
