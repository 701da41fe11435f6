"""Whole peers with keys and second connections for their bodies."""

import numpy as np
import pytest

from dpeer.peer.transports.bulk import Bulk
from dpeer.topology import build
from tests.peer.conftest import VectorLearner

WIDTH = 200_000


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["ring", "full"])
async def test_peers_come_to_the_same_bits_with_second_connections(federation, monkeypatch, graph):
    topology, used = build(graph, 4), []
    send = Bulk.send

    def noted(self, link, frames):
        used.append(link)
        return send(self, link, frames)

    monkeypatch.setattr(Bulk, "send", noted)
    bodies = {}
    for kind in ("inprocess", "bulk"):
        change = {rank: {"learner": VectorLearner(rank, width=WIDTH)} for rank in range(4)}
        ours = federation(kind, topology, rounds=5, change=change)
        outcomes = await ours.run()
        assert all(outcome.status == "done" and not outcome.lost for outcome in outcomes.values())
        bodies[kind] = ours.bodies()
    assert len(used) > 4 * 4, "bodies go this way from the second round on at the latest"
    assert np.array_equal(bodies["inprocess"], bodies["bulk"])
