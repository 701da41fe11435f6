"""A neighbor that takes part rightly, and sends thousands of other messages beside."""

import asyncio
import gc
import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from dpeer.peer import LivenessConfig, ZeroMQTransport
from dpeer.topology import build
from tests.peer.hostile import HOSTILE, ROUNDS, WIDTH

MEMORY = 20 * 2**20
HONEST = (0, 1, 2)
RING = build("ring", 4)
NEIGHBORS = RING.connections(HOSTILE, ROUNDS)
PATIENT = LivenessConfig(heartbeat=0.5, suspect_after=60.0, dead_after=120.0, stop_grace=0.3)
"""No neighbor of a busy machine is taken for dead."""


def resident():
    """Bytes of this process in memory (Linux)."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def hostile(**what):
    """Run the program; returns what it says."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.peer.hostile",
        cwd=Path(__file__).parents[2], stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        message, _ = await process.communicate(json.dumps(what).encode())
        assert process.returncode == 0
        return json.loads(message)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
@pytest.mark.parametrize("many", [10_000, pytest.param(100_000, marks=pytest.mark.long)])
async def test_a_neighbor_that_sends_many_messages_of_no_use_changes_nothing(
    many, federation, vector_learner, monkeypatch
):
    """Its bodies, which it sends in time, are mixed as if there was nothing else; and all else is counted."""
    monkeypatch.setattr(ZeroMQTransport, "chunk_bytes", 2**20)

    async def run(junk):
        change = {rank: {"learner": vector_learner(rank, WIDTH)} for rank in range(4)}
        ours = federation("tcp", RING, rounds=ROUNDS, liveness=PATIENT, wait=300.0, change=change)
        addresses = await ours.listen()
        hello = ours.peers[HOSTILE].core.handshake.hello(0, reply=False)
        serving = asyncio.create_task(ours.serve({rank: addresses[rank] for rank in HONEST}, HONEST))
        message = await hostile(
            addresses=[addresses[rank] for rank in NEIGHBORS],
            hello={name: getattr(hello, name) for name in ("fingerprint", "manifest", "digest")},
            junk=junk // len(NEIGHBORS),
        )
        outcomes = await serving
        assert {rank: outcomes[rank].status for rank in HONEST} == dict.fromkeys(HONEST, "done")
        assert all(len(ours.logs[rank]) < 500 for rank in HONEST)
        cores = [ours.peers[rank].core for rank in NEIGHBORS]
        dropped = [core.drops.counts + core.exchange.inbox.dropped for core in cores]
        return np.stack([ours.learners[rank].body for rank in HONEST]), message, dropped

    quiet, _, dropped = await run(0)
    assert dropped == [Counter()] * 2
    before = resident()
    found, message, dropped = await run(many)
    grown = resident() - before
    assert sum(one["sent"] for one in message) >= many
    assert [one.total() for one in dropped] == [one["expected"] for one in message], (dropped, message)
    assert not any(one["unhandled"] for one in dropped)
    assert found.tobytes() == quiet.tobytes()
    assert grown < MEMORY
