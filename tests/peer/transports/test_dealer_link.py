"""A dialled link: names that resolve slowly, differently or not at all, and sockets that cannot be opened."""

import asyncio
import errno
import socket
import threading

import pytest
import zmq

from dpeer.peer.core.limits import Limits
from dpeer.peer.transport import Broken, Opened, Unreachable
from dpeer.peer.transports import ZeroMQTransport
from tests.peer.intermediaries import carry
from tests.peer.keys import keyrings
from tests.peer.transports.conftest import TCP

NAME = "neighbor.test"


class Resolver:
    """`socket.getaddrinfo`, but for one name, which is answered as a test says.

    Attributes:
        answers: The answers to each question; the last one stays. An error is raised.
        go: Not set while no question is answered.
    """

    def __init__(self, monkeypatch, *answers):
        self.answers, self.asked, self.go = [*answers], 0, threading.Event()
        self.go.set()
        self.real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self.resolve)

    def resolve(self, host, port, *args, **kwargs):
        if host != NAME:
            return self.real(host, port, *args, **kwargs)
        self.asked += 1
        assert self.go.wait(100)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, OSError):
            raise answer
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in answer]


@pytest.fixture
async def ends():
    """A dialler; a listener's address; and the same address by name."""
    dialler, listener = ZeroMQTransport(Limits()), ZeroMQTransport(Limits())
    address = await listener.listen("tcp://127.0.0.1:0")
    async with asyncio.timeout(60):
        yield dialler, address, f"tcp://{NAME}:{address.rpartition(':')[2]}"
    for transport in (dialler, listener):
        await transport.close(0)


async def test_a_name_that_resolves_slowly_holds_up_no_other_link(ends, monkeypatch):
    dialler, address, by_name = ends
    resolver = Resolver(monkeypatch, ["127.0.0.1"])
    resolver.go.clear()
    slow, quick = dialler.dial(by_name), dialler.dial(address)
    assert await dialler.receive() == Opened(quick)
    resolver.go.set()
    assert await dialler.receive() == Opened(slow)


async def test_a_name_that_stands_for_another_address_by_now_is_resolved_again(ends, monkeypatch):
    """As on hosts where localhost is ::1 first, of several addresses the right one is found."""
    dialler, _, by_name = ends
    resolver = Resolver(monkeypatch, ["127.0.0.2", "127.0.0.3"], ["127.0.0.2", "127.0.0.3", "127.0.0.1"])
    link = dialler.dial(by_name)
    assert await dialler.receive() == Opened(link)
    assert resolver.asked == 3


async def test_the_name_of_a_host_that_moves_while_it_is_connected_is_resolved_again(monkeypatch):
    first, second = ZeroMQTransport(Limits()), ZeroMQTransport(Limits())
    resolver = Resolver(monkeypatch, ["127.0.0.1"])
    dialler = ZeroMQTransport(Limits())
    async with asyncio.timeout(60):
        port = (await first.listen("tcp://127.0.0.1:0")).rpartition(":")[2]
        link = dialler.dial(f"tcp://{NAME}:{port}")
        assert await dialler.receive() == Opened(link)
        await second.listen(f"tcp://127.0.0.9:{port}")
        resolver.answers = [["127.0.0.9"]]
        await first.close(0)
        assert await dialler.receive() == Broken(link)
        assert await dialler.receive() == Opened(link)
    for transport in (dialler, second):
        await transport.close(0)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"),
            "its name 'neighbor.test' cannot be resolved (Temporary failure in name resolution)",
        ),
        (["no address"], "cannot be dialled"),
    ],
    ids=["not resolved", "no address"],
)
async def test_a_name_without_an_address_at_first_is_reported_and_asked_for_again(ends, monkeypatch, answer, reason):
    dialler, _, by_name = ends
    Resolver(monkeypatch, answer, ["127.0.0.1"])
    link = dialler.dial(by_name)
    unreachable = await dialler.receive()
    assert isinstance(unreachable, Unreachable)
    assert reason in unreachable.reason
    assert await dialler.receive() == Opened(link)


@pytest.mark.parametrize(("maker", "name"), [(zmq.Context, "socket"), (zmq.Socket, "monitor")])
async def test_a_socket_that_cannot_be_had_for_a_moment_is_reported_and_tried_again(ends, monkeypatch, maker, name):
    dialler, address, _ = ends
    make = getattr(maker, name)

    def too_many(*_):
        monkeypatch.setattr(maker, name, make)
        raise zmq.ZMQError(errno.EMFILE)

    monkeypatch.setattr(maker, name, too_many)
    link = dialler.dial(address)
    assert await dialler.receive() == Unreachable(link, "no socket can be opened: Too many open files")
    assert await dialler.receive() == Opened(link)


async def test_a_connection_that_ends_once_within_the_handshake_is_made_anew_and_accuses_no_key(opened):
    """The way to the listener has just gone: as when a peer wakes, or a relay is started anew."""
    rings, ended, ways = keyrings(2), [], set()
    listener, dialler = (opened(ring) for ring in rings)
    port = int((await listener.listen(TCP)).rpartition(":")[2])

    async def pass_on(reader, writer):
        if not ended:
            ended.append(await reader.read(1))
            writer.close()
            return
        far = await asyncio.open_connection("127.0.0.1", port)
        for source, target in ((reader, far[1]), (far[0], writer)):
            ways.add(asyncio.create_task(carry(source, target)))

    async with await asyncio.start_server(pass_on, "127.0.0.1", 0) as between:
        link = dialler.dial(f"tcp://127.0.0.1:{between.sockets[0].getsockname()[1]}", 0)
        assert await dialler.receive() == Opened(link)
        await dialler.close(0)
        await asyncio.gather(*ways)
