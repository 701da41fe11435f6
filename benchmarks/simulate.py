"""How much faster `dpeer simulate` is than one thread that trains the peers in turn, and whether the bits are the same.

    python benchmarks/simulate.py [--size 16] [--rounds 3] [--repetitions 5] [--workers 2] [--json]

Three ways, interleaved in every repetition:

    in turn      a plain loop without event loop, messages or checkpoints: train every peer, mix, evaluate
    1 worker     dpeer simulate --workers 1
    N workers    dpeer simulate --workers N

Data are random images (3, 32, 32), equally many for all peers, so that no peer keeps the others waiting longer than it
must; the model is the `cnn` of 91 thousand parameters. Time is that of the rounds, without reading and dividing data.
Two processes that each train alone show what the machine's cores give at best: two threads of one core are not two.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch
from rich.console import Console
from safetensors import safe_open

from dpeer.cli.federation import run_federation
from dpeer.cli.settings import Settings
from dpeer.topology import build
from dpeer.training import Hyperparameters, Learner, Task, build_model

SAMPLES = 320


def task(rank: int, size: int, seed: int) -> Task:
    """Random images that tell their class."""
    model = build_model("cnn", (3, 32, 32), 10)
    generator = torch.Generator().manual_seed(rank)
    labels = torch.randint(10, (SAMPLES,), generator=generator)
    images = torch.randn(SAMPLES, 3, 32, 32, generator=generator)
    images[:, 0] += labels.view(-1, 1, 1) / 5
    data = torch.utils.data.TensorDataset(images, labels)
    return Task(model=model, head=("head",), train=data, test=torch.utils.data.Subset(data, range(64)))


def in_turn(size: int, rounds: int) -> tuple[float, str]:
    """Seconds of the rounds and the hash of all bodies."""
    torch.set_num_threads(1)
    topology = build("ring", size)
    h = Hyperparameters(body_epochs=2)
    learners = []
    for rank in range(size):
        torch.manual_seed(0)
        learners.append(Learner(task(rank, size, 0), "dfedmdc", h, rank=rank, seed=0))
    began = time.perf_counter()
    for number in range(rounds):
        released = {}
        for rank, learner in enumerate(learners):
            learner.train(number)
            released[rank] = learner.release(number)
            learner.evaluate()
        for rank, learner in enumerate(learners):
            graph = topology.at(number, rank)
            received = {other: released[other] for other in graph.in_neighbors}
            learner.mix(received, graph.row.restricted_to(received))
            learner.evaluate()
    seconds = time.perf_counter() - began
    return seconds, _hash(learner.body.numpy().tobytes() for learner in learners)


def simulated(size: int, rounds: int, workers: int) -> tuple[float, str]:
    """Seconds of the rounds and the hash of all bodies."""
    out = Path(tempfile.mkdtemp(prefix="dpeer-benchmark-"))
    try:
        settings = Settings(
            size=size, topology="ring", task=f"{__file__}:task", algorithm="dfedmdc", rounds=rounds, body_epochs=2,
            workers=workers, out=out,
        )  # fmt: skip
        run_federation(settings, "simulate", console=Console(file=io.StringIO()))
        peers = [json.loads((out / f"rank-{rank}" / "summary.json").read_text()) for rank in range(size)]
        seconds = max(peer["wall_seconds"] for peer in peers)
        return seconds, _hash(_body(out / f"rank-{rank}") for rank in range(size))
    finally:
        shutil.rmtree(out)


def _body(folder: Path) -> bytes:
    found = next((folder / "checkpoint").glob("round-*/learner/learner.safetensors"))
    with safe_open(found, framework="np") as tensors:
        content: bytes = tensors.get_tensor("last/body").tobytes()
    return content


def _hash(parts: Any) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def machine(workers: int, size: int, rounds: int) -> float:
    """How many times faster several processes train the same peers than one: what there is to be had."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers, _pin, (context.Value("i", 0),)) as pool:
        pool.map(_alone, [(1, 1)] * workers)  # imports
        began = time.perf_counter()
        pool.map(_alone, [(size // workers, rounds)] * workers, chunksize=1)
        together = time.perf_counter() - began
        began = time.perf_counter()
        pool.map(_alone, [(size, rounds)], chunksize=1)
        return (time.perf_counter() - began) / together


def _pin(counter: Any) -> None:
    if hasattr(os, "sched_setaffinity"):
        with counter.get_lock():
            os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[counter.value % len(os.sched_getaffinity(0))]})
            counter.value += 1


def _alone(job: tuple[int, int]) -> float:
    return in_turn(max(3, job[0]), job[1])[0]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    ways = {
        "in turn": lambda: in_turn(arguments.size, arguments.rounds),
        "1 worker": lambda: simulated(arguments.size, arguments.rounds, 1),
        f"{arguments.workers} workers": lambda: simulated(arguments.size, arguments.rounds, arguments.workers),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    best_case = []
    digests = set()
    for repetition in range(arguments.repetitions):
        best_case.append(machine(arguments.workers, arguments.size, arguments.rounds))
        for name, run in ways.items():
            found, digest = run()
            seconds[name].append(found)
            digests.add(digest)
            print(f"{repetition + 1}/{arguments.repetitions} {name}: {found:.2f} s", file=sys.stderr)
    base = seconds["in turn"]
    report = {
        "seconds": {name: median(values) for name, values in seconds.items()},
        "speedup": {
            name: median(a / b for a, b in zip(base, values, strict=True)) for name, values in seconds.items()
        },
        "speedup_of_processes": median(best_case),
        "same_bits": len(digests) == 1,
        "size": arguments.size, "rounds": arguments.rounds, "repetitions": arguments.repetitions,
    }  # fmt: skip
    if arguments.json:
        print(json.dumps(report, indent=1))
        return
    for name, value in report["seconds"].items():
        print(f"{name:>10}: {value:7.2f} s, {report['speedup'][name]:.2f}x")
    print(f"{arguments.workers} processes that only train: {report['speedup_of_processes']:.2f}x")
    print("the same bits" if report["same_bits"] else "DIFFERENT BITS")


if __name__ == "__main__":
    main()
