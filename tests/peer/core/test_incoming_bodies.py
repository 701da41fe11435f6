"""The time in which bodies come in: against the union of intervals on a grid, and in a core that gets chunks."""

import random

import pytest

from dpeer.peer.core.chunking import ChunkedBody
from dpeer.peer.core.incoming_bodies import ReceiveTime
from tests.peer.table import CHUNK, Table


@pytest.mark.parametrize("seed", range(20))
def test_times_that_overlap_count_once(seed: int) -> None:
    """Bodies on three links, in whole seconds; every second in which any is on its way counts."""
    draw = random.Random(seed)
    spans = {link: sorted(draw.sample(range(60), 4)) for link in "abc"}
    coming = {(link, at) for link, (a, b, c, d) in spans.items() for at in (*range(a, b), *range(c, d))}
    present: set[object] = set()
    found = ReceiveTime(lambda link: link in present)
    for now in range(61):
        for link, (a, b, c, d) in spans.items():
            if now in (b, d):
                present.discard(link)
                found.end(link, now)
            if now in (a, c):
                found.begin(link, now)
                present.add(link)
        if draw.random() < 0.3:
            found.seconds(now)
    assert found.seconds(60) == len({at for _, at in coming})


def test_a_body_whose_link_broke_counts_no_longer_than_to_the_next_look() -> None:
    present = {"link"}
    found = ReceiveTime(lambda link: link in present)
    found.begin("link", 1.0)
    assert found.seconds(3.0) == 2.0
    present.clear()
    assert found.seconds(4.0) == 3.0
    assert found.seconds(100.0) == 3.0


def test_a_core_counts_from_the_header_to_the_last_chunk() -> None:
    table = Table()
    for rank in (1, 2):
        table.hear(f"link {rank}", table.hello(rank))
    table.runs(0)
    table.now += 5
    assert table.core.incoming_bodies.receive_time.seconds(table.now) == 0.0
    body, messages = ChunkedBody(table.body(1, 0)), []
    while not body.over:
        messages.append(body.next(CHUNK))
    assert len(messages) > 3
    for message in messages:
        table.hear("link 1", message)
        table.now += 2
    table.now += 50
    assert table.core.incoming_bodies.receive_time.seconds(table.now) == 2 * (len(messages) - 1)
