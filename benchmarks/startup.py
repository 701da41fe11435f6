"""Start time of a further process of `dpeer cluster` until it listens, and the memory of its own.

    python benchmarks/startup.py [--peers 4] [--parameters 11173962] [--repeats 5] [--json]

The processes are those of `dpeer cluster`: started by its launcher from its fork server, running its child. The first
waits until the server has imported torch and is not counted; each further one is started when the one before listens,
and takes from there to its "listening" report. Beside it, in every repetition: the same peer started by spawn (a new
interpreter), and a process that only imports torch. Medians of all further processes, and of the repetitions.

Memory is what /proc/PID/smaps_rollup calls private, once all listen. Beyond the tensors: without the body and its
gradients (two vectors), and without one slot: what the model had before it became views into those vectors is kept by
the heap, and is what the first release is written into.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from fleet import say, unshared_mb

from dpeer.federation import launcher
from dpeer.federation.settings import Settings
from dpeer.federation.view import View

MIB = 2**20


def task(rank: int, size: int, seed: int, *, parameters: int) -> Any:
    """A model of so many parameters and next to no data."""
    import torch

    from dpeer.training import Task

    data = torch.utils.data.TensorDataset(torch.zeros(1, 1), torch.zeros(1, dtype=torch.long))
    model = torch.nn.Module()
    model.body, model.head = (torch.nn.Parameter(torch.rand(count)) for count in (parameters, 1))
    return Task(model=model, head=("head",), train=data, test=data, draws=False)


async def started(peers: int, parameters: int, context: Any) -> tuple[list[float], list[float]]:
    """Seconds that each process took to listen, and what each has of its own in MB, by rank."""
    with tempfile.TemporaryDirectory(prefix="dpeer-bench-") as folder:
        settings = Settings(
            size=peers, topology="ring", task=f"{__file__}:task", task_options={"parameters": parameters},
            algorithm="dfedmdc", out=Path(folder),
        )  # fmt: skip
        for rank in range(peers):
            (settings.out / f"rank-{rank}").mkdir()
        federation = launcher.Launcher(settings, View(), resume=False)
        seconds, members, places = [], [], {rank: f"ipc://{folder}/{rank}" for rank in range(peers)}
        try:
            for rank in range(peers):
                began = time.perf_counter()
                members.append(await federation._start(context, rank, places))
                while (message := json.loads(await members[-1].lines.readline()))["kind"] != "listening":
                    if message["kind"] == "error":
                        raise RuntimeError(f"rank {rank} does not listen: {message}")
                seconds.append(time.perf_counter() - began)
            await asyncio.sleep(0.2)
            memory = [unshared_mb(pid) for member in members if (pid := member.process.pid) is not None]
        finally:
            for member in members:
                member.end.shutdown(socket.SHUT_WR)
            for member in members:
                await asyncio.to_thread(member.process.join, 20)
                member.process.kill()
                member.writer.close()
        return seconds, memory


def importing_torch() -> float:
    """Seconds of a process that imports torch."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return time.perf_counter() - began


def measure(peers: int, parameters: int, repeats: int) -> dict[str, Any]:
    """All that is measured, by name."""
    forked, spawned, imports, memory = [], [], [], []
    for _ in range(repeats):
        found = asyncio.run(started(peers, parameters, launcher.server_context()))
        forked += found[0][1:]
        memory += found[1][1:]
        spawned += asyncio.run(started(2, parameters, multiprocessing.get_context("spawn")))[0][1:]
        imports.append(importing_torch())
    own = median(memory) * 1e6 / MIB
    vector = 4 * (parameters + 1) / MIB
    return {
        "peers": peers,
        "parameters": parameters,
        "ready_ms": 1000 * median(forked),
        "ready_slowest_ms": 1000 * max(forked),
        "spawned_ready_ms": 1000 * median(spawned),
        "import_torch_ms": 1000 * median(imports),
        "ready_over_spawned": median(forked) / median(spawned),
        "unshared_mib": own,
        "body_and_gradients_mib": 2 * vector,
        "slot_mib": vector,
        "beyond_tensors_mib": own - 3 * vector,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peers", type=int, default=4)
    parser.add_argument("--parameters", type=int, default=11_173_962)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = measure(arguments.peers, arguments.parameters, arguments.repeats)
    say(result, as_json=arguments.json)


if __name__ == "__main__":
    main()
