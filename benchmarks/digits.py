"""Accuracy on the digits: the table of docs/algorithms.md.

    python benchmarks/digits.py [--seeds 0-4] [--rounds 20] [--size 8] [--topology ring] [--partition dirichlet:0.3]

Every cell is a run of `dpeer simulate` with the default settings; results are kept in --out, so a second call, or one
after an interruption, computes only what is missing.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from pathlib import Path
from statistics import fmean

from rich.console import Console

from dpeer.cli.config import Settings
from dpeer.cli.federation import run_federation

ALGORITHMS = ("local", "dfedavgm", "dfedmdc", "dfedsmdc")


def main() -> None:
    """Run what is missing and print the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", default="0-4", help="FIRST-LAST")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--topology", default="ring")
    parser.add_argument("--partition", default="dirichlet:0.3")
    parser.add_argument("--out", type=Path, default=Path("dpeer-run-digits"))
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)

    rows = {(algorithm, seed): _cell(arguments, algorithm, seed) for seed in seeds for algorithm in ALGORITHMS}
    print("| algorithm | " + " | ".join(f"seed {seed}" for seed in seeds) + " | mean | before mixing | sent |")
    print("|---" * (len(seeds) + 4) + "|")
    for algorithm in ALGORITHMS:
        cells = [rows[algorithm, seed] for seed in seeds]
        values = [f"{cell['accuracy_mean']:.4f}" for cell in cells]
        mean = fmean(cell["accuracy_mean"] for cell in cells)
        trained = fmean(cell["accuracy_trained_mean"] for cell in cells)
        sent = fmean(cell["bytes_sent"] for cell in cells) / 1e6
        print(f"| {algorithm} | {' | '.join(values)} | **{mean:.4f}** | {trained:.4f} | {sent:.1f} MB |")


def _cell(arguments: argparse.Namespace, algorithm: str, seed: int) -> dict[str, object]:
    out = arguments.out / f"{arguments.topology}-{arguments.partition}-{arguments.size}-{arguments.rounds}"
    out = out / f"{algorithm}-{seed}"
    if not _done(out / "summary.json"):
        settings = Settings(
            size=arguments.size, topology=arguments.topology, partition=arguments.partition,
            rounds=arguments.rounds, algorithm=algorithm, seed=seed, out=out,
        )  # fmt: skip
        print(f"running {algorithm}, seed {seed}", file=sys.stderr)
        run_federation(settings, "simulate", overwrite=True, console=Console(file=io.StringIO()))
    content: dict[str, object] = json.loads((out / "summary.json").read_text())
    return content


def _done(summary: Path) -> bool:
    return summary.exists() and json.loads(summary.read_text())["status"] == "done"


if __name__ == "__main__":
    main()
