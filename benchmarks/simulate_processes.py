"""A simulation in one process with threads, beside two processes that each simulate half of its peers.

    python benchmarks/simulate_processes.py [--peers 16] [--rounds 16] [--repeats 3] [--json]

The halves exchange nothing with each other, so they show what processes in place of threads could gain at most. The
task is the bundled digits with dpeer's small default model. Three ways, one after the other in every repetition:

    in turn      dpeer simulate --workers 1
    threads      dpeer simulate --workers 2
    processes    two of dpeer simulate --workers 1, each with half of the peers

Time is that of the rounds: each way also runs two rounds alone, whose time is taken off.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

_FEW = 2


def seconds(*runs: tuple[int, int], rounds: int, folder: Path) -> float:
    """The seconds of simulations of so many peers and workers, side by side."""
    began = time.perf_counter()
    started = [
        subprocess.Popen(
            [
                sys.executable, "-m", "dpeer", "simulate", "--task", "digits", "--partition", "iid", "--alone", "never",
                "--rounds", str(rounds), "--size", str(peers), "--workers", str(workers), "--overwrite",
                "--out", str(folder / f"{number}"),
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for number, (peers, workers) in enumerate(runs)
    ]  # fmt: skip
    codes = [one.wait() for one in started]
    if any(codes):
        sys.exit(f"a simulation ended with exit code {max(codes)}")
    return time.perf_counter() - began


def measure(peers: int, rounds: int, folder: Path) -> dict[str, float]:
    """The seconds of the rounds in each way, measured once."""
    ways = {"in turn": [(peers, 1)], "threads": [(peers, 2)], "processes": [(peers // 2, 1)] * 2}
    return {
        name: seconds(*runs, rounds=_FEW + rounds, folder=folder) - seconds(*runs, rounds=_FEW, folder=folder)
        for name, runs in ways.items()
    }


def main() -> None:
    """Print each way's seconds, and how many times as fast as peers in turn it is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=int, default=16, help="an even number")
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = [measure(asked.peers, asked.rounds, Path(folder)) for _ in range(asked.repeats)]
    names = list(found[0])
    rows = {
        name: {
            "seconds": round(median(one[name] for one in found), 2),
            "times as fast": round(median(one["in turn"] / one[name] for one in found), 2),
        }
        for name in names
    }
    if asked.json:
        print(json.dumps(rows))
        return
    for name, row in rows.items():
        print(f"{name:<10} {row['seconds']:7.2f} s   {row['times as fast']:.2f} times as fast as in turn")


if __name__ == "__main__":
    main()
