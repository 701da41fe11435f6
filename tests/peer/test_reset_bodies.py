"""Real sockets that are reset in the middle of a body: what it costs, and that the bits are the same."""

import numpy as np
import pytest
from line_emulator import Line

from dpeer.peer.transports import ZeroMQTransport
from dpeer.topology import build
from tests.peer.conftest import VectorLearner, done, expected_bodies

WIDTH = 1_500_000
"""A body is far longer than what the operating system's buffers hold, which is lost with a connection."""
BODY = 8 * WIDTH
ROUNDS = 3


@pytest.mark.slow
async def test_a_reset_costs_a_body_each_way(federation, monkeypatch):
    """Both directions of a connection end after half of the second body in one of them.

    Chunks have the length that they have on a slow line. Both send the second body again, of which one was half there.
    """
    monkeypatch.setattr(ZeroMQTransport, "chunk_bytes", 2**16)
    learners = {rank: VectorLearner(rank, width=WIDTH) for rank in range(2)}
    change = {rank: {"learner": learners[rank]} for rank in range(2)}
    ours = federation("keys", build("ring", 2), rounds=ROUNDS, change=change)
    addresses = await ours.listen()
    passed = {}

    def watch(way, data):
        before = passed.get(way is line.there, 0)
        passed[way is line.there] = before + len(data)
        if way is line.there and before < BODY + BODY // 2 <= before + len(data):
            line.reset()

    line = Line(int(addresses[1].rpartition(":")[2]), watch=watch)
    await line.listen()
    done(await ours.serve({**addresses, 1: f"tcp://127.0.0.1:{line.port}"}))
    await line.close()
    assert line.dialled == 2, "it was reset"
    expected = expected_bodies(ours.topology, ROUNDS, WIDTH)
    np.testing.assert_allclose(ours.bodies(), expected, rtol=1e-12)
    assert sum(passed.values()) - 2 * ROUNDS * BODY < 1.75 * BODY
