"""Many peers in one process, as `dpeer simulate` wires them, without training: what `scale.py` measures of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import torch
from fleet import WARM_UP, Case, Figures, Introduce, Laps, unshared_mb
from gossip_round import idle

from dpeer.cores import own_cores
from dpeer.federation.memory_tuning import keep_heap
from dpeer.peer import LivenessConfig, Network, Peer, PeerConfig, Worker
from dpeer.peer.logs import peer_logger
from dpeer.topology import build


def simulated(rank: int, case: Case, introduce: Introduce) -> Figures:
    """All peers of a ring in this process, as many as the option `peers` says; a round ends when all have ended it."""
    introduce(None)
    keep_heap()
    asyncio.run(_federation(replace(case, rounds=1), 2))  # what only the first needs: imports, threads, kernels
    before = unshared_mb()
    figures = asyncio.run(_federation(case, case.options["peers"]))
    return replace(figures, unshared_mb=figures.unshared_mb - before)  # of the peers alone


async def _federation(case: Case, size: int) -> Figures:
    executor, disk = (
        ThreadPoolExecutor(min(size, len(own_cores())), initializer=torch.set_num_threads, initargs=(1,))
        for _ in range(2)
    )
    laps, done, network, graph = Laps(), Counter[int](), Network(), build("ring", size)

    def record(entry: dict[str, Any]) -> None:
        done[entry["round"]] += 1
        if done[entry["round"]] == size:
            laps.lap()

    federation = [
        Peer(
            PeerConfig(
                rank=rank,
                rounds=WARM_UP + case.rounds,
                listen=f"inproc://rank-{rank}",
                fingerprint={},
                evaluate_every=10**9,
                liveness=LivenessConfig(heartbeat=0),
            ),
            graph,
            idle(rank, case.parameters),
            network.transport(),
            Worker(executor, disk),
            peer_logger(rank, None, "warning"),
            on_record=record,
        )
        for rank in range(size)
    ]
    known = {peer.config.rank: await peer.listen() for peer in federation}
    addresses = {rank: address for rank, address in known.items() if address is not None}
    outcomes = await asyncio.gather(*(peer.serve(addresses) for peer in federation))
    if any(outcome.lost or outcome.status != "done" for outcome in outcomes):
        raise RuntimeError("a peer was lost: nothing was measured")
    return laps.figures(sum(len(peer.neighbors) for peer in federation) * 4 * case.parameters)
