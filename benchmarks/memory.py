"""Peak memory of a peer that trains and keeps files, in bodies: vectors of the size of its model's shared part.

    python benchmarks/memory.py [--parameters 20250000] [--algorithm dfedmdc] [--epochs 6] [--rounds 4] [--json]

Peers of `dpeer start` on a ring, a process each; nearly the whole model is one layer, the worst case for the gradient
that autograd makes beside the sum. Anonymous memory (Linux) is read every few milliseconds, in the rounds and at the
end. The baseline, taken off it, is the peak of the same run with a model of some thousand parameters. Each epoch has
four minibatches: with few a round is trained before the last one's checkpoint is on disk, and a body more is in memory.
"""

from __future__ import annotations

import argparse
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from fleet import say
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from dpeer.training import Task

_SMALL = 64


class Wide(nn.Module):
    """A square layer, and a head."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body, self.fc = nn.Linear(width, width), nn.Linear(width, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        """Scores of two classes, shape (batch, 2)."""
        scores: Tensor = self.fc(torch.relu(self.body(inputs)))
        return scores


def task(rank: int, size: int, seed: int, width: int = _SMALL) -> Task:
    """Sixteen random samples for a model of `width` squared parameters."""
    generator = torch.Generator().manual_seed(rank)
    inputs = torch.randn(16, width, generator=generator)
    data = TensorDataset(inputs, torch.randint(0, 2, (16,), generator=generator))
    return Task(model=Wide(width), head=("fc",), train=data, test=data)


def peaks(width: int, peers: int, options: Sequence[str]) -> list[float]:
    """The most anonymous memory of each peer, in bytes.

    Raises:
        RuntimeError: A peer failed.
    """
    with tempfile.TemporaryDirectory(prefix="dpeer-bench-") as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        common = ["--size", str(peers), "--topology", "ring", "--base-port", str(free.getsockname()[1] + 1)]
        common += ["--task", f"{Path(__file__).resolve()}:task", "--task-option", f"width={width}", "--threads", "1"]
        common += ["--batch-size", "4", "--alone", "never", *options]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        running = [
            subprocess.Popen(
                [sys.executable, "-m", "dpeer", "start", "--rank", str(rank), "--out", f"{folder}/{rank}", *common],
                env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
            for rank in range(peers)
        ]  # fmt: skip
        found = [0.0] * peers
        try:
            while any(process.poll() is None for process in running):
                found = [max(most, _anonymous(process.pid)) for most, process in zip(found, running, strict=True)]
                time.sleep(0.003)
        finally:
            for process in running:
                process.kill()
        if any(process.wait() for process in running):
            raise RuntimeError("a peer failed: nothing was measured")
    return found


def _anonymous(pid: int) -> float:
    """Bytes of a process's memory that are of no file; 0 once it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((1024.0 * int(line.split()[1]) for line in lines if line.startswith("RssAnon:")), 0.0)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--parameters", type=int, default=20_250_000)
    parser.add_argument("--algorithm", default="dfedmdc")
    parser.add_argument("--epochs", type=int, default=6, help="epochs of the body in a round")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--peers", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    width = math.isqrt(arguments.parameters)
    options = ["--algorithm", arguments.algorithm, "--rounds", str(arguments.rounds)]
    options += ["--body-epochs", str(arguments.epochs)]
    base = max(peaks(_SMALL, arguments.peers, options))
    found = peaks(width, arguments.peers, options)
    result: dict[str, Any] = {
        "parameters": width * width,
        "algorithm": arguments.algorithm,
        "baseline_mb": base / 1e6,
        "peak_mb": max(found) / 1e6,
        "bodies": max(max(found) - base, 0.0) / (4 * width * width),
    }
    say(result, as_json=arguments.json)


if __name__ == "__main__":
    main()
