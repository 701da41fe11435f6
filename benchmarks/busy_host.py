"""Rounds of `dpeer start` on a host whose cores other programs use, and on an idle one, by torch threads.

    python benchmarks/busy_host.py [--busy 1] [--rounds 12] [--repeats 5] [--json]

A peer trains by itself: the digits' CNN (short steps) and a CNN on 32x32 images (long ones). `waiting` is how threads
wait for each other: "asleep" as dpeer has it, "spinning" as libgomp does by itself, which is the baseline, with all
cores. `--busy` programs that never wait run beside it in half of the rows. Conditions alternate. Printed is the median
of the repetitions' seconds of local training in a round, the first round left out, and the ratio to the baseline.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import torch
from local_training import ImageNet32, random_images

from dpeer.cores import own_cores
from dpeer.training import Task

SPINNING = {"GOMP_SPINCOUNT": "300000"}
"""What libgomp uses where nothing is set, written out: dpeer leaves a setting of the user's alone."""

CASES: dict[str, tuple[str, ...]] = {
    "digits CNN": ("--task", "digits", "--partition", "iid"),
    "CNN, 32x32": ("--task", f"{Path(__file__).resolve()}:images"),
}
ROWS = (("default", None), ("all cores", len(own_cores())), ("one thread", 1))


def images(rank: int, size: int, seed: int) -> Task:
    """A task of 128 random images, whose steps take tens of milliseconds."""
    torch.manual_seed(seed)
    return Task(
        model=ImageNet32(), head=("head",), train=random_images((3, 32, 32), 128), test=random_images((3, 32, 32), 32)
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--busy", type=int, default=1, help="programs that never wait")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found: dict[tuple[str, str, str, str], list[float]] = {}
    for _ in range(arguments.repeats):
        for case in CASES:
            for host, busy in (("idle", 0), ("busy", arguments.busy)):
                for name, threads in ROWS:
                    for waiting, environment in (("asleep", {}), ("spinning", SPINNING)):
                        with programs(busy):
                            seconds = round_seconds(case, threads, arguments.rounds, environment)
                        found.setdefault((case, host, name, waiting), []).append(seconds)
    rows: list[dict[str, Any]] = []
    for (case, host, name, waiting), measured in found.items():
        baseline = median(found[case, host, "all cores", "spinning"])
        row = {"model": case, "host": host, "threads": name, "waiting": waiting, "seconds": median(measured)}
        rows.append(row | {"least": min(measured), "most": max(measured), "ratio": median(measured) / baseline})
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        print(
            f"{row['model']:<11} {row['host']:<5} {row['threads']:<11} {row['waiting']:<9} "
            f"{row['seconds']:8.3f} s ({row['least']:.3f} to {row['most']:.3f}), {row['ratio']:.2f} of the baseline"
        )


@contextlib.contextmanager
def programs(count: int) -> Iterator[None]:
    """So many programs run beside, and never wait."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def round_seconds(case: str, threads: int | None, rounds: int, environment: dict[str, str]) -> float:
    """The median seconds of local training in a round of a peer that trains by itself."""
    with tempfile.TemporaryDirectory() as folder:
        # An address of another host, which is never dialled: the peer has the host's cores to itself.
        file = Path(folder) / "dpeer.toml"
        file.write_text('size = 2\nrank.0.bind = "tcp://127.0.0.1:0"\nrank.1.address = "tcp://peer-1.invalid:7700"\n')
        command = [
            sys.executable, "-m", "dpeer", "start", "--federation", file, "--rank", 0, "--algorithm", "local",
            "--alone", "never", "--rounds", rounds, "--evaluate-every", rounds, "--out", Path(folder) / "run",
            *CASES[case], *([] if threads is None else ["--threads", threads]),
        ]  # fmt: skip
        clean = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
        subprocess.run([*map(str, command)], env=clean | environment, check=True, capture_output=True)
        lines = (Path(folder) / "run" / "rank-0" / "metrics.jsonl").read_text().splitlines()
        return median(float(json.loads(line)["train_seconds"]) for line in lines[1:])


if __name__ == "__main__":
    main()
