"""Peers that are asked to leave in good order: what they finish, what their neighbors do meanwhile, and the return."""

import asyncio

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.topology import build
from tests.peer.conftest import done, lines

RING = build("ring", 4)


async def held_in(ours, until, rank, number):
    """The federation runs, and the rank trains in a round until it is let go."""
    ours.learners[rank].hold = number
    running = asyncio.create_task(ours.run())
    await until(ours.learners[rank].held.is_set)
    return running


async def test_a_drained_peer_completes_its_round_and_is_waited_for_until_it_is_back(federation, until, tmp_path):
    whole = federation("inprocess", RING, rounds=6)
    done(await whole.run())
    ours = federation("tcp", RING, rounds=6, out=tmp_path)  # whose links come back by themselves
    running = await held_in(ours, until, 1, 2)
    leaving = ours.peers[1]
    leaving.drain(back_within=100)
    assert leaving.snapshot().drains
    leaving.drain(back_within=100)
    ours.learners[1].go.set()
    await until(lambda: leaving.snapshot().phase == "ended")
    assert leaving.snapshot().completed == 3
    await until(lambda: [one.rank for one in ours.peers[0].snapshot().waits_for] == [1])
    assert ours.peers[0].snapshot().waits_for[0].why == "stopped"
    assert "rank 1 has left (stopped): rounds wait 100 s for it to be back" in ours.logs[0]
    assert ours.peers[0].snapshot().completed == 3
    ours.add(1, out=tmp_path, resume=True, listen=ours.addresses[1])
    await ours.peers[1].listen()
    back = asyncio.create_task(ours.peers[1].serve(ours.addresses))
    found = await running
    assert found[1].status == "stopped"
    assert found[1].completed_rounds == 3
    done({rank: outcome for rank, outcome in found.items() if rank != 1} | {1: await back})
    assert ours.bodies().tobytes() == whole.bodies().tobytes()
    for rank in range(4):
        assert [(line["round"], line["missed"]) for line in lines(tmp_path, rank)] == [(n, []) for n in range(6)]
        assert ours.peers[rank].core.members.lost == {}


async def test_in_a_pause_a_drained_peer_leaves_at_once(federation, until, kill, tmp_path):
    ours = federation("inprocess", build("ring", 2), rounds=6, out=tmp_path)
    ours.learners[1].hold = 2
    addresses = await ours.listen()
    serving = [asyncio.create_task(ours.peers[rank].serve(addresses)) for rank in range(2)]
    await until(ours.learners[1].held.is_set)
    ours.peers[1].stop()
    await serving[1]
    await until(lambda: ours.peers[0].snapshot().phase == "pause")
    assert ours.peers[0].snapshot().why == "cut off from all neighbors"
    ours.peers[0].drain()
    outcome = await serving[0]
    assert (outcome.status, outcome.completed_rounds) == ("stopped", 3)
    assert len(lines(tmp_path, 0)) == 3


@pytest.mark.parametrize("seconds", [-1, 601, "soon", 1.5, None])
async def test_an_absence_is_a_number_of_seconds_that_neighbors_take(federation, seconds):
    ours = federation("inprocess", RING, rounds=3)
    with pytest.raises(ConfigurationError) as raised:
        ours.peers[0].requests["drain"]({"ask": "drain", "back_within": seconds})
    assert str(raised.value) == f"back_within = {seconds!r}: expected seconds, from 0 to 600"
    assert not ours.peers[0].snapshot().drains
