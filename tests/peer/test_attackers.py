"""Strangers on the port of a peer that uses keys: they learn nothing and change nothing."""

import asyncio
import sys
from pathlib import Path

import numpy as np
import pytest

from dpeer.peer import LivenessConfig
from dpeer.peer.core.limits import MOST_UNPROVED
from dpeer.topology import build

WORDS = (b"size", b"body_lr", b"fingerprint", b"hello", b"manifest", b"rank", b"kind", b"offset", b"dpeer")
PATIENT = LivenessConfig(heartbeat=0.2, suspect_after=20, dead_after=60, stop_grace=0.3)


@pytest.mark.slow
async def test_a_thousand_stalled_handshakes_and_a_hundred_floods_have_no_effect(federation, expected, until):
    topology = build("ring", 3)
    ours = federation("keys", topology, rounds=30, wait=60, liveness=PATIENT)
    ours.learners[1].hold = 3
    addresses = await ours.listen()
    attacked = ours.transports[2]  # which both others dial
    attack = await asyncio.create_subprocess_exec(
        sys.executable, Path(__file__).with_name("attackers.py"), addresses[2].removeprefix("tcp://"),
        ours.keyrings[2].public.hex(), "1000", "100", stdin=-1, stdout=-1,
    )  # fmt: skip
    try:
        assert await attack.stdout.readline() == b"attacking\n"
        running = asyncio.create_task(ours.serve(addresses))
        await until(ours.learners[1].held.is_set)
        counts = ours.peers[2].core.drops.counts
        await until(lambda: counts["unlisted-key"] and counts["no-key"])
        most = 0
        for _ in range(20):
            most = max(most, len(attacked.guard.unproved()))
            await asyncio.sleep(0.05)
        ours.learners[1].go.set()
        found = await running
        message, _ = await attack.communicate(b"")  # which closes its input
    finally:
        if attack.returncode is None:
            attack.kill()
    assert [outcome.status for outcome in found.values()] == ["done"] * 3
    np.testing.assert_array_equal(ours.bodies(), await undisturbed(federation, topology))
    np.testing.assert_allclose(ours.bodies(), expected(topology, 30), rtol=1e-12)
    assert 0 < most <= MOST_UNPROVED
    assert not any(outcome.lost for outcome in found.values())
    got = bytes.fromhex(message.decode())
    assert got, "greetings of ZeroMQ"
    assert not any(word in got for word in WORDS)


async def undisturbed(federation, topology):
    ours = federation("keys", topology, rounds=30, wait=60, liveness=PATIENT)
    await ours.run()
    return ours.bodies()
