"""Snapshot of a peer: who the members are, and which of its reasons are for its own host alone."""

from types import SimpleNamespace

from dpeer.peer.checkpoint import Progress
from dpeer.peer.snapshot import take_snapshot
from dpeer.peer.transport import Unreachable
from tests.peer.table import Table

FILES = SimpleNamespace(progress=Progress(), recent_seconds=None, saved_at=None, disk_free=None)


def snapshot(table):
    config = SimpleNamespace(rank=0, rounds=3, quorum="any")
    return take_snapshot(config, table.core, table.now, FILES, ended=False)


def test_why_a_neighbor_cannot_be_dialled_is_withheld_until_it_is_there():
    table = Table(dialled=[1, 2], rounds=3)
    assert snapshot(table).withheld == ()
    table.do(table.core.happened(Unreachable(table.links[2], "port 7700 of 10.0.0.2 cannot be reached"), 0.0))
    found = snapshot(table)
    assert found.withheld == (2,)
    assert [one.why for one in found.neighbors] == ["", "port 7700 of 10.0.0.2 cannot be reached"]
    table.established(2)
    table.hear(table.links[2], table.hello(2, reply=True))
    assert snapshot(table).withheld == ()


def test_settings_that_differ_are_withheld():
    table = Table(dialled=[1, 2], rounds=3)
    table.established(1)
    table.hear(table.links[1], table.hello(1, reply=True, fingerprint={**table.fingerprint, "classes": "sepsis"}))
    found = snapshot(table)
    assert "sepsis" in found.neighbors[0].why
    assert found.withheld == (1,)


def test_members_are_all_with_the_rounds_that_presence_has_of_each():
    table = Table(dialled=[1, 2], rounds=5)
    size = len(table.core.round_clock)
    table.core.round_clock.reached(2, 3)
    table.core.round_clock.reached(0, 1)
    assert snapshot(table).members == {rank: {0: 1, 2: 3}.get(rank) for rank in range(size)}
