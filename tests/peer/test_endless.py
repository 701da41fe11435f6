"""What a peer says of connections that were ended because a message on them had no end."""

import asyncio
import sys

import numpy as np
import pytest

from dpeer.topology import build
from tests.peer.table import Table, ring
from tests.peer.transports.endless import attacker


def test_an_endless_message_of_a_neighbor_is_counted_and_said_once():
    table = ring()
    for link in (table.links[1], "from 2", "from 2"):
        table.do(table.core.endless(link, "10.0.0.2", table.now))
    assert table.core.drops.counts == {"endless": 3}
    said = table.events("message-dropped")
    assert [one.fields for one in said] == [{"reason": "endless", "neighbor": rank} for rank in (1, 2)]
    assert "had no end" in said[0].message


def test_one_of_a_listener_that_was_dialled_and_has_not_said_hello_is_the_neighbors():
    table = Table(dialled=[1])
    table.do(table.core.endless(table.links[1], "10.0.0.1", table.now))
    assert [one.fields for one in table.events("message-dropped")] == [{"reason": "endless", "neighbor": 1}]


def test_those_of_strangers_are_said_once_for_each_host():
    table = ring()
    for link in (None, b"one", None, b"another"):
        table.do(table.core.endless(link, "10.0.0.9", table.now))
    assert table.core.drops.counts == {"endless": 4}
    (said,) = table.events("message-dropped")
    assert said.fields == {"reason": "endless"}
    assert "10.0.0.9" in said.message


@pytest.mark.skipif(sys.platform != "linux", reason="Linux counts what has come")
async def test_a_federation_goes_on_while_a_stranger_sends_a_message_without_end(federation, expected, until):
    topology = build("ring", 3)
    ours = federation("tcp", topology, rounds=4)
    ours.learners[1].hold = 2
    addresses = await ours.listen()
    counts = ours.peers[2].core.drops.counts
    async with attacker("dial", addresses[2].rpartition(":")[2]) as hostile:
        running = asyncio.create_task(ours.serve(addresses))
        await until(ours.learners[1].held.is_set)
        hostile.stdin.write(b"now\n")
        assert await hostile.stdout.readline() == b"ended\n"
        await until(lambda: counts["endless"])
        ours.learners[1].go.set()
        found = await running
    assert [outcome.status for outcome in found.values()] == ["done"] * 3
    assert not any(outcome.lost for outcome in found.values())
    assert counts["endless"] == 1
    np.testing.assert_allclose(ours.bodies(), expected(topology, 4), rtol=1e-12)
