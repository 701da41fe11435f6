"""A round of gossip without training, beside a ring of raw sockets that does the same sends, receives and sums.

    python benchmarks/gossip_round.py [--peers 4] [--parameters 11173962] [--repeats 5] [--rounds 10] [--json]

The peers are whole ones (round loop, session, transport, inbox, codec and mixing; no files), each in a process of its
own with one torch thread; their learner's training does nothing. Every repetition runs all contestants one after the
other; a round's time is the elapsed time of the slowest process over its rounds. Medians of the repetitions.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from statistics import median
from typing import Any

import rings
import torch
from fleet import WARM_UP, Case, Figures, Introduce, Laps, Worker, ring, run
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.cli.heap import keep_heap, settle
from dpeer.peer import Limits, Peer, PeerConfig, ZeroMQTransport
from dpeer.peer import Worker as TensorThread
from dpeer.topology import build
from dpeer.training import Learner, Task
from dpeer.training.evaluation import Evaluation

RESNET18 = 11_173_962


class Vector(nn.Module):
    """A body of so many parameters, and a head of one."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.body = nn.Parameter(torch.rand(count))
        self.head = nn.Parameter(torch.zeros(1))


class Idle(Learner):
    """A learner with nothing to learn: it releases, checks and mixes as any other."""

    def train(self, number: int) -> None:
        """Nothing."""

    def evaluate(self) -> Evaluation:
        """Nothing to evaluate."""
        return Evaluation(None, 0.0)


def peers(rank: int, case: Case, introduce: Introduce) -> Figures:
    """Whole peers."""
    keep_heap()
    settle()
    return asyncio.run(_peer(rank, case, introduce))


async def _peer(rank: int, case: Case, introduce: Introduce) -> Figures:
    learner = idle(rank, case.parameters)
    graph = build("ring" if case.degree <= 2 else f"random-regular:{case.degree:.0f}", case.size)
    transport = ZeroMQTransport(Limits(payload_bytes=learner.payload_bytes))
    laps = Laps()
    peer = Peer(
        PeerConfig(
            rank=rank,
            rounds=WARM_UP + case.rounds,
            listen=case.options.get("listen", "tcp://127.0.0.1:0"),
            fingerprint={},
            evaluate_every=10**9,
        ),
        graph,
        learner,
        transport,
        TensorThread(ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(1,))),
        logging.getLogger("dpeer-benchmark"),
        on_record=lambda record: laps.lap(),
    )
    addresses = introduce(await peer.listen())
    await peer.serve(dict(enumerate(addresses)))
    return laps.figures(len(case.neighbors[rank]) * 4 * case.parameters)


def idle(rank: int, parameters: int) -> Idle:
    """A learner whose body has so many parameters."""
    torch.manual_seed(0)
    data = TensorDataset(torch.zeros(1, 1), torch.zeros(1, dtype=torch.long))
    task = Task(model=Vector(parameters), head=("head",), train=data, test=data)
    return Idle(task, "dfedmdc", rank=rank, seed=0)


CONTESTANTS: dict[str, tuple[Worker, dict[str, Any]]] = {
    "dpeer": (peers, {}),
    "raw": (rings.raw, {}),
    "pickle": (rings.pickle, {}),
    "pickle_mallopt": (rings.pickle, {"mallopt": True}),
    "gloo": (rings.gloo, {}),
}


def measure(
    case: Case, repeats: int, contestants: Mapping[str, tuple[Worker, Mapping[str, Any]]]
) -> dict[str, list[list[Figures]]]:
    """The figures of every rank, by contestant and repetition; interleaved."""
    found: dict[str, list[list[Figures]]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, (worker, options) in contestants.items():
            found[name].append(run(worker, replace(case, options=options)))
    return found


def round_ms(figures: Sequence[Figures]) -> float:
    """A round of the slowest process, on average."""
    return max(1000 * one.seconds / len(one.round_seconds) for one in figures)


def cpu_s_per_gb(figures: Sequence[Figures]) -> float:
    """CPU seconds of all processes per 10^9 bytes that all sent."""
    return sum(one.cpu_seconds for one in figures) / (sum(one.bytes_sent for one in figures) / 1e9)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peers", type=int, default=4)
    parser.add_argument("--parameters", type=int, default=RESNET18)
    parser.add_argument("--rounds", type=int, default=15, help="that count, in each repetition")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    case = Case(arguments.peers, arguments.parameters, arguments.rounds, ring(arguments.peers), {})
    found = measure(case, arguments.repeats, {name: CONTESTANTS[name] for name in arguments.only})
    times = {name: [round_ms(one) for one in runs] for name, runs in found.items()}
    result: dict[str, Any] = {"peers": arguments.peers, "parameters": arguments.parameters}
    for name, key in (("dpeer", "round_ms"), ("raw", "raw_ring_ms")):
        if name in times:
            result[key] = median(times[name])
    if {"dpeer", "raw"} <= found.keys():
        result["ratio"] = median(own / other for own, other in zip(times["dpeer"], times["raw"], strict=True))
    for name in ("pickle", "pickle_mallopt", "gloo"):
        if name in times:
            result[f"{name}_ms"] = median(times[name])
    for name, key in (("dpeer", "cpu_s_per_gb"), ("raw", "raw_cpu_s_per_gb")):
        if name in found:
            result[key] = median(map(cpu_s_per_gb, found[name]))
    if "raw" in times:
        sent = sum(one.bytes_sent for one in found["raw"][0]) / case.rounds
        result["raw_gb_per_s"] = sent / 1e6 / result["raw_ring_ms"]
    result["repetitions_ms"] = times
    if arguments.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name}: {value:.3f}" if isinstance(value, float) else f"{name}: {value}")


if __name__ == "__main__":
    main()
