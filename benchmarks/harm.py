"""Harm by federating under default settings: peers that end worse than local only, and the lines that warn them.

    python benchmarks/harm.py [--only digits table] [--cifar DIR] [--mnist FILE] [--har FILE] [--size 8] [--seeds 0]
                              [--json]

`dpeer simulate --alone always` trains each task with the defaults, and each peer alone as `dpeer start` does. DIR holds
`cifar-10-batches-py`, the files are MNIST with its writers and UCI HAR; what is not given is left out. CIFAR-10 and the
pairs are small parts of their data. By task:

    peers     of all seeds
    improved  peers whose verdict is that joining improved the model
    below     peers whose whole 95 % interval of the gain lies below 0
    warned    of these, peers whose last lines warn of it
    alone     peers that keep the model trained alone, because it is better on their validation data
    gain      the mean over the peers, of the joined model
    lowest    the lowest gain of a peer, with its interval
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from dpeer.results.effect import closing_lines, effect_of

EXAMPLES = Path(__file__).parent / "examples"


def tasks(options: argparse.Namespace) -> dict[str, list[str]]:
    """The flags of each task whose data are given."""
    found = {"digits": ["--task", "digits"], "table": ["--task", f"{EXAMPLES / 'sites.py'}:task"]}
    if options.har:
        found["har"] = ["--task", "har", "--task-option", f"data={options.har}"]
    if options.mnist:
        some = ["--task-option", "train_samples=6000", "--task-option", "test_samples=3000"]
        mnist = ["--task-option", f"data={options.mnist}"]
        found["mnist by writer"] = ["--task", "mnist", "--partition", "writer", *mnist, *some]
        found["10 of 100 pairs"] = ["--task", f"{EXAMPLES / 'pairs.py'}:task", *mnist]
    if options.cifar:
        some = ["--task-option", "train_samples=4000", "--task-option", "test_samples=2000"]
        found["cifar10"] = ["--task", "cifar10", "--task-option", f"data={options.cifar}", *some]
    return {name: flags for name, flags in found.items() if not options.only or name in options.only}


def run(flags: list[str], size: int, seed: int, folder: Path) -> list[Mapping[str, Any]]:
    """Each peer's summary."""
    if str(EXAMPLES / "sites.py") in flags[1]:
        from verdicts import table

        arrays: Any = table(size, seed, 1.0)[0]
        np.savez(folder / "sites.npz", **arrays)
        flags = [*flags, "--task-option", f"path={folder / 'sites.npz'}"]
    subprocess.run(
        [sys.executable, "-m", "dpeer", "simulate", "--size", str(size), "--seed", str(seed), "--alone", "always",
         "--out", str(folder / "run"), *flags], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return [json.loads((folder / "run" / f"rank-{rank}" / "summary.json").read_text()) for rank in range(size)]


def figures(summaries: list[Mapping[str, Any]]) -> dict[str, Any]:
    """The columns of the table."""
    found = [
        (one["worth"], closing_lines(effect)) for one in summaries if (effect := effect_of(one["worth"])) is not None
    ]
    compared = [(worth, lines) for worth, lines in found if worth["gain"] is not None]
    below = [lines for worth, lines in compared if worth["high"] < 0]
    lowest = min((worth for worth, _ in compared), key=lambda worth: worth["gain"])
    return {
        "peers": len(summaries),
        "compared": len(compared),
        "improved": sum(worth["verdict"] == "improved" for worth, _ in compared),
        "below": len(below),
        "warned": sum(any("worse than local only" in line for line in lines) for lines in below),
        "alone": sum(one["kept_point"] == "alone" for one in summaries),
        "gain": round(fmean(worth["gain"] for worth, _ in compared), 4),
        "lowest": [round(lowest[name], 4) for name in ("gain", "low", "high")],
    }


def main() -> None:
    """Train all tasks, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="TASK")
    parser.add_argument("--cifar", type=Path, metavar="DIR")
    parser.add_argument("--mnist", type=Path, metavar="FILE")
    parser.add_argument("--har", type=Path, metavar="FILE")
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--json", action="store_true", help="print a JSON object a line")
    parser.add_argument("flags", nargs="*", help="further flags of dpeer simulate, behind --")
    options = parser.parse_args()
    for name, flags in tasks(options).items():
        began, summaries = time.monotonic(), list[Mapping[str, Any]]()
        for seed in options.seeds:
            with tempfile.TemporaryDirectory() as folder:
                summaries += run([*flags, *options.flags], options.size, seed, Path(folder))
        line = {"task": name, **figures(summaries), "seconds": round(time.monotonic() - began)}
        print(
            json.dumps(line) if options.json else "  ".join(f"{key} {value}" for key, value in line.items()), flush=True
        )


if __name__ == "__main__":
    main()
