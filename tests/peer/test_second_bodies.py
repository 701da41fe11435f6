"""A neighbor that sends two different bodies for one round: its folder was copied, or rolled back to a backup."""

import asyncio

import numpy as np
import pytest

from dpeer.topology import build
from tests.peer.conftest import VectorLearner
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
        table.do(table.core.settle(0, table.now))
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
    assert not table.core.drops.counts
    assert not len(table.core.reassembly)


def test_a_second_body_is_refused_by_its_header_and_takes_no_memory():
    table = ring()
    send(table, 7.0, 64)
    send(table, 8.0, 64, -1)
    partial = table.core.reassembly.get("from 2")
    assert (partial.wanted, partial.chunks, partial.buffer) == (False, [], None)
    assert table.inbox.dropped == {"different": 1}
    assert len(table.events("second-body")) == 1


def test_a_body_of_which_a_part_has_come_may_be_another_one_when_it_comes_again():
    table = ring()
    send(table, 7.0, 64, -1)
    table.breaks("from 2")
    table.hear("from 2", table.hello(2))
    send(table, 8.0, 64)
    assert not table.inbox.dropped
    assert not table.events("second-body")


@pytest.mark.parametrize("noise", [0.0, 0.5], ids=["same", "other"])
async def test_a_peer_that_trains_a_round_again_with_other_noise_is_found_out(federation, until, tmp_path, noise, kill):
    """A whole peer, killed after round 3 was sent and before it was saved."""
    ours = federation("tcp", build("ring", 4), rounds=6, out=tmp_path)
    first = ours.learners[3]
    mix_sound = first.mix_sound

    def held(received, weigh):
        if 3 in first.released:
            first.wait_to_go()
        return mix_sound(received, weigh)

    first.mix_sound = held
    addresses = await ours.listen()
    others = asyncio.create_task(ours.serve(addresses, [0, 1, 2]))
    killed = asyncio.create_task(ours.peers[3].serve(addresses))
    await until(first.held.is_set)
    neighbors = [ours.peers[rank].core for rank in (0, 2)]
    await until(lambda: all(core.exchange.inbox.knows(3, 3) for core in neighbors))
    await kill(ours.peers[3], ours.transports[3], killed)
    await until(lambda: all(core.members[3].link is None for core in neighbors))
    again = VectorLearner(3)
    release = again.release

    def noised(number, receivers):
        again.body = again.body + noise
        return release(number)

    again.release = noised
    ours.add(3, out=tmp_path, resume=True, listen=addresses[3], learner=again)
    await ours.peers[3].listen()
    assert (await ours.peers[3].serve(addresses)).completed_rounds == 6
    assert [outcome.completed_rounds for outcome in (await others).values()] == [6, 6, 6]
    found = [[line for line in ours.logs[rank] if "second, different body" in line] for rank in range(4)]
    assert [len(lines) for lines in found] == ([1, 0, 1, 0] if noise else [0] * 4)
    assert all("rank 3" in line and "round 3" in line for lines in found for line in lines)
    dropped = [ours.peers[rank].core.exchange.inbox.dropped["different"] for rank in range(4)]
    assert dropped == [len(lines) for lines in found]
