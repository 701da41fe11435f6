"""A neighbor that sends two different bodies for one round: its folder was copied, or rolled back to a backup."""

import numpy as np
import pytest

from tests.peer.table import chunked, ring


def send(table, value, chunk_bytes, chunks=None):
    """Rank 2's body for round 0, of that value throughout, or its first messages."""
    table.hear("from 2", *list(chunked(table.body(2, 0, value), chunk_bytes))[:chunks])


@pytest.mark.parametrize("chunk_bytes", [64, None])
@pytest.mark.parametrize("at", ["in the inbox", "collected", "completed"])
def test_a_second_different_body_is_logged_once_and_counted_and_the_first_is_mixed(at, chunk_bytes):
    table = ring(chunk_bytes=chunk_bytes)
    send(table, 7.0, chunk_bytes)
    if at != "in the inbox":
        table.runs(0)
        table.hear(table.links[1], table.body(1, 0))
    if at == "completed":
        table.hear(table.links[1], table.beat(1, 1))
        table.hear("from 2", table.beat(2, 1))
        table.do(table.core.wait("settle", 0, table.now))
        table.do(table.core.begin(1, table.now))
    send(table, 7.0, chunk_bytes)
    assert table.inbox.dropped == {"duplicate": 1}
    assert not table.events("second-body")
    for value in (1e6, np.nan, 7.0, 1e6):
        send(table, value, chunk_bytes)
    assert table.inbox.dropped == {"different": 3, "duplicate": 2}
    (warning,) = table.events("second-body")
    assert warning.message.startswith("rank 2 sent a second, different body for round 0")
    assert "copied or rolled back" in warning.message
    if at == "in the inbox":
        table.runs(0)
        table.hear(table.links[1], table.body(1, 0))
    assert np.frombuffer(b"".join(table.ended[0].bodies[2].payload))[0] == 7.0
    assert not table.core.reports.counts
    assert not len(table.core.reassembly)


def test_a_second_body_is_refused_by_its_header_and_takes_no_memory():
    table = ring()
    send(table, 7.0, 64)
    send(table, 8.0, 64, -1)
    partial = table.core.reassembly.get("from 2")
    assert (partial.wanted, partial.buffer) == (False, None)
    assert table.inbox.dropped == {"different": 1}
    assert len(table.events("second-body")) == 1
