"""Speedup of `dpeer simulate` over one thread that trains the peers in turn, and a comparison of the bits.

    python benchmarks/simulate.py [--model dp-cnn] [--size 8] [--rounds 2] [--repetitions 5] [--json]

Three ways, interleaved in every repetition:

    in turn      a plain loop without event loop, messages or checkpoints: train every peer, mix, evaluate
    1 worker     dpeer simulate --threads 1
    N workers    dpeer simulate --threads N

Data are random images (3, 32, 32), equally many for all peers (500, as when a hundred share CIFAR-10), in minibatches
of 128 as in the papers. Time is that of the rounds, without reading and dividing data. Memory that is freed stays in
the process in every way, as it does in dpeer: a plain loop can lose a third of its time without that.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from dpeer.federation.process_tuning import keep_heap
from dpeer.federation.settings import Settings
from dpeer.peer.checkpoint import learner_folder
from dpeer.results.files import rank_folder
from dpeer.results.run_folders import read_peer_summary
from dpeer.simulation.run import simulate
from dpeer.topology import build
from dpeer.training import Hyperparameters, Task, build_learner
from dpeer.training.models import build_model
from dpeer.training.state.file_names import saved_body

BATCH, BODY_EPOCHS = 128, 2


@dataclass(frozen=True)
class Run:
    """The federation that is trained.

    Attributes:
        model: Its name.
        samples: Images a peer.
        size: Peers.
        rounds: Rounds.
    """

    model: str
    samples: int
    size: int
    rounds: int


def task(rank: int, size: int, seed: int, *, model: str, samples: int) -> Task:
    """Random images that tell their class."""
    network = build_model(model, (3, 32, 32), 10)
    generator = torch.Generator().manual_seed(rank)
    labels = torch.randint(10, (samples,), generator=generator)
    images = torch.randn(samples, 3, 32, 32, generator=generator)
    images[:, 0] += labels.view(-1, 1, 1) / 5
    data = torch.utils.data.TensorDataset(images, labels)
    test = torch.utils.data.Subset(data, range(max(1, samples // 5)))
    return Task(model=network, head="head", train=data, test=test, draws=False)


def in_turn(run: Run) -> tuple[float, str]:
    """Seconds of the rounds and the hash of all bodies."""
    torch.set_num_threads(1)
    topology = build("ring", run.size)
    h = Hyperparameters(body_epochs=BODY_EPOCHS, batch_size=BATCH)
    learners = []
    for rank in range(run.size):
        torch.manual_seed(0)
        own = task(rank, run.size, 0, model=run.model, samples=run.samples)
        learners.append(build_learner(own, "dfedmdc", h, rank=rank, seed=0))
    began = time.perf_counter()
    for number in range(run.rounds):
        released = {}
        for rank, learner in enumerate(learners):
            learner.train(number)
            released[rank] = learner.release(number)
            learner.evaluate()
        for rank, learner in enumerate(learners):
            graph = topology.at(number, rank)
            received = {other: body for other in graph.in_neighbors if (body := released[other]) is not None}
            learner.mix_sound(received, graph.row.restricted_to)
            learner.evaluate()
    seconds = time.perf_counter() - began
    return seconds, _hash(learner.body.numpy().tobytes() for learner in learners)


def simulated(run: Run, workers: int) -> tuple[float, str]:
    """Seconds of the rounds and the hash of all bodies."""
    out = Path(tempfile.mkdtemp(prefix="dpeer-benchmark-"))
    try:
        settings = Settings(
            size=run.size, topology="ring", task=f"{__file__}:task", algorithm="dfedmdc", rounds=run.rounds,
            task_options={"model": run.model, "samples": run.samples}, batch_size=BATCH, body_epochs=BODY_EPOCHS,
            threads=workers, out=out, finish="none", alone="never", grad_clip=0.0,
        )  # fmt: skip
        simulate(settings)
        peers = [read_peer_summary(rank_folder(out, rank)) for rank in range(run.size)]
        seconds = max(peer.wall_seconds for peer in peers if peer is not None and peer.wall_seconds is not None)
        return seconds, _hash(_body(rank_folder(out, rank)) for rank in range(run.size))
    finally:
        shutil.rmtree(out)


def _body(folder: Path) -> bytes:
    learner = learner_folder(folder)
    body = None if learner is None else saved_body(learner)
    assert body is not None
    return body.tobytes()


def _hash(parts: Any) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", choices=("cnn", "dp-cnn", "resnet18-gn"), default="dp-cnn")
    parser.add_argument("--samples", type=int, default=500, help="images a peer")
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    run = Run(arguments.model, arguments.samples, arguments.size, arguments.rounds)
    keep_heap()
    ways: dict[str, Callable[[], tuple[float, str]]] = {
        "in turn": lambda: in_turn(run),
        "1 worker": lambda: simulated(run, 1),
        f"{arguments.workers} workers": lambda: simulated(run, arguments.workers),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    digests = set()
    for repetition in range(arguments.repetitions):
        for name, way in ways.items():
            found, digest = way()
            seconds[name].append(found)
            digests.add(digest)
            print(f"{repetition + 1}/{arguments.repetitions} {name}: {found:.2f} s", file=sys.stderr)
    base = seconds["in turn"]
    report = {
        **asdict(run),
        "repetitions": arguments.repetitions,
        "seconds": {name: median(values) for name, values in seconds.items()},
        "speedup": {name: median(a / b for a, b in zip(base, values, strict=True)) for name, values in seconds.items()},
        "same_bits": len(digests) == 1,
    }
    if arguments.json:
        print(json.dumps(report, indent=1))
        return
    for name, value in report["seconds"].items():
        print(f"{name:>10}: {value:7.2f} s, {report['speedup'][name]:.2f}x")
    print("the same bits" if report["same_bits"] else "DIFFERENT BITS")


if __name__ == "__main__":
    main()
