"""Connections that die without a word, names that resolve slowly or differently, and slow lines: real sockets."""

import asyncio
import errno
import json
import socket
import threading

import numpy as np
import pytest
import zmq

from dpeer.peer import Limits, LivenessConfig, ZeroMQTransport
from dpeer.peer.transport import Opened, Unreachable
from dpeer.topology import build
from tests.peer.proxy import Proxy

QUICK = LivenessConfig(heartbeat=0.05, suspect_after=0.3, dead_after=1.0, stop_grace=0.3)


def lines(folder, rank):
    return [json.loads(line) for line in (folder / f"rank-{rank}" / "metrics.jsonl").read_text().splitlines()]


def done(found):
    for outcome in found.values():
        if isinstance(outcome, BaseException):
            raise outcome
        assert outcome.status == "done"


async def served(ours, addresses, ways):
    """Serve all; `ways` has by rank the addresses that it dials instead."""
    serving = [ours.peers[rank].serve({**addresses, **ways.get(rank, {})}) for rank in ours.peers]
    found = await asyncio.gather(*serving, return_exceptions=True)
    return dict(zip(ours.peers, found, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["both ways", "to the listener", "to the dialler"])
async def test_a_connection_that_died_without_notice_is_dialled_again_and_rounds_go_on(
    federation, until, tmp_path, lost
):
    ours = federation("tcp", build("ring", 3), rounds=6, out=tmp_path, liveness=QUICK)
    ours.learners[0].hold = 2
    addresses = await ours.listen()
    async with Proxy(addresses[1]) as proxy:
        running = asyncio.create_task(served(ours, addresses, {0: {1: proxy.address}}))
        await until(ours.learners[0].held.is_set)
        assert proxy.connections == 1
        ways = {"both ways": (proxy.there, proxy.back), "to the listener": (proxy.there,)}
        proxy.swallow(*ways.get(lost, (proxy.back,)))
        await until(lambda: proxy.connections >= 2, 60)
        # While rank 0 trains, rank 2 waits for it and rank 1 for that one: nobody is more than a round ahead.
        await until(lambda: all(ours.peers[rank].core.members.reachable(1 - rank) for rank in (0, 1)))
        ours.learners[0].go.set()
        done(await running)
    for rank in range(3):
        heard = [line["heard"] for line in lines(tmp_path, rank)]
        assert heard[:2] + heard[4:] == [[other for other in range(3) if other != rank]] * 4


class Resolver:
    """`socket.getaddrinfo`, but for one name, which is answered as a test says.

    Attributes:
        answers: What each question is answered with; the last answer stays.
        go: Not set while nobody is answered.
    """

    def __init__(self, monkeypatch, *answers):
        self.answers, self.asked, self.go = [*answers], 0, threading.Event()
        real = socket.getaddrinfo

        def getaddrinfo(host, port, *args, **kwargs):
            if host != "neighbor.test":
                return real(host, port, *args, **kwargs)
            self.asked += 1
            assert self.go.wait(100)
            hosts = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in hosts]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


def by_name(address):
    return f"tcp://neighbor.test:{address.rpartition(':')[2]}"


async def test_a_name_that_resolves_slowly_holds_up_no_other_link(federation, until, monkeypatch, expected):
    resolver = Resolver(monkeypatch, ["127.0.0.1"])
    topology = build("ring", 3)
    ours = federation("tcp", topology, rounds=3)
    addresses = await ours.listen()
    running = asyncio.create_task(served(ours, addresses, {0: {1: by_name(addresses[1])}}))
    await until(lambda: resolver.asked)
    for rank, other in ((0, 2), (2, 0), (1, 2), (2, 1)):
        await until(lambda rank=rank, other=other: ours.peers[rank].core.members.reachable(other))
    assert ours.peers[0].core.members.missing() == [1]
    resolver.go.set()
    done(await running)
    np.testing.assert_allclose(ours.bodies(), expected(topology, 3), rtol=1e-12)


async def test_a_name_that_stands_for_another_address_by_now_is_resolved_again(federation, monkeypatch, expected):
    """Nobody is at the first address."""
    resolver = Resolver(monkeypatch, ["127.0.0.2"], ["127.0.0.1"])
    resolver.go.set()
    topology = build("ring", 2)
    ours = federation("tcp", topology, rounds=3)
    addresses = await ours.listen()
    done(await served(ours, addresses, {0: {1: by_name(addresses[1])}}))
    assert resolver.asked == 2
    np.testing.assert_allclose(ours.bodies(), expected(topology, 3), rtol=1e-12)


async def test_of_several_addresses_of_a_name_the_right_one_is_found(federation, monkeypatch, expected):
    """As on hosts where localhost is ::1 first. It does not take until the neighbor is dialled anew."""
    resolver = Resolver(monkeypatch, ["127.0.0.2", "127.0.0.3", "127.0.0.1"])
    resolver.go.set()
    topology = build("ring", 2)
    patient = LivenessConfig(heartbeat=0.05, suspect_after=100, dead_after=1000)
    ours = federation("tcp", topology, rounds=3, liveness=patient)
    addresses = await ours.listen()
    done(await served(ours, addresses, {0: {1: by_name(addresses[1])}}))
    assert ours.transports[0].failures[by_name(addresses[1])] == 2
    np.testing.assert_allclose(ours.bodies(), expected(topology, 3), rtol=1e-12)


async def test_a_name_that_cannot_be_resolved_at_first_is_said_and_asked_for_again(federation, until, monkeypatch):
    resolver = Resolver(monkeypatch, [], ["127.0.0.1"])
    resolver.go.set()
    ours = federation("tcp", build("ring", 2), rounds=2)
    real = socket.getaddrinfo

    def fails_first(host, *args, **kwargs):
        found = real(host, *args, **kwargs)
        if not found:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return found

    monkeypatch.setattr(socket, "getaddrinfo", fails_first)
    addresses = await ours.listen()
    done(await served(ours, addresses, {0: {1: by_name(addresses[1])}}))
    assert any("'neighbor.test' cannot be resolved (Temporary failure" in line for line in ours.logs[0])


@pytest.mark.parametrize(("maker", "name"), [(zmq.Context, "socket"), (zmq.Socket, "monitor")])
async def test_a_socket_that_cannot_be_had_for_a_moment_is_said_and_tried_again(monkeypatch, maker, name):
    transport, other = ZeroMQTransport(Limits()), ZeroMQTransport(Limits())
    address = await other.listen("tcp://127.0.0.1:0")
    make = getattr(maker, name)

    def too_many(*_):
        monkeypatch.setattr(maker, name, make)
        raise zmq.ZMQError(errno.EMFILE)

    monkeypatch.setattr(maker, name, too_many)
    link = transport.dial(address)
    assert await transport.receive() == Unreachable(link, "no socket can be opened: Too many open files")
    assert await transport.receive() == Opened(link)
    for one in (transport, other):
        await one.close(0)
