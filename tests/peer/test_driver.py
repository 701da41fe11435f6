"""What ends a peer's connections ends the peer, instead of leaving it deaf."""

import asyncio

import pytest

from dpeer.peer.core.wire import Limits
from dpeer.peer.transport import Arrival, Opened, Unreachable
from dpeer.peer.transports import ZeroMQTransport, dealer_link
from dpeer.topology import build


@pytest.mark.parametrize("where", ["receive", "tick"])
async def test_a_mistake_in_the_core_ends_the_peer_and_is_said(federation, kind, until, where):
    ours = federation(kind, build("ring", 3), rounds=3)
    ours.learners[0].hold = 1
    running = asyncio.create_task(ours.run())
    await until(ours.learners[0].held.is_set)

    def mistaken(*arguments):
        raise RuntimeError("a mistake")

    setattr(ours.peers[0].core, where, mistaken)
    async with asyncio.timeout(60):
        found = await running
    assert isinstance(found[0], RuntimeError)
    assert any("the connections of this peer failed" in line and "a mistake" in line for line in ours.logs[0])
    assert [found[rank].status for rank in (1, 2)] == ["done", "done"]


async def test_what_a_name_stands_for_may_be_no_address_and_is_tried_again(monkeypatch):
    answers = [["tcp://no address"]]

    async def resolve(host, port):
        return answers.pop() if answers else [address]

    monkeypatch.setattr(dealer_link, "resolve", resolve)
    listener, dialler = ZeroMQTransport(Limits()), ZeroMQTransport(Limits())
    address = await listener.listen("tcp://127.0.0.1:0")
    try:
        link = dialler.dial("tcp://a-name:7700")
        async with asyncio.timeout(60):
            first, second = await dialler.receive(), await dialler.receive()
        assert isinstance(first, Unreachable)
        assert "tcp://a-name:7700" in first.reason
        assert second == Opened(link)
        dialler.send(link, [b"here"])
        assert isinstance(await listener.receive(), Arrival)
    finally:
        await dialler.close(0)
        await listener.close(0)
