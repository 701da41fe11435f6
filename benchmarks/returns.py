"""Cost of a return: accuracy of a peer that was away and of its neighbors, with its own body and with their mean.

    python benchmarks/returns.py [--algorithms dfedavgm,dfedmdc] [--seeds 0,1,2] [--away 20] [--size 8]

Each run is a simulation of peers on a ring that learn the digits, with shares by Dirichlet(.3). Rank 3 is killed in the
second round, and resumed when the others have run `--away` rounds. "own body": with a high --rejoin-after none adopts.
Figures are means over the seeds, for the first round in which rank 3 takes part again, and the same round of a run
without faults: accuracy after mixing, of both its neighbors and of rank 3 itself, whose test loss is given, too.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import dpeer

_FAULTS = """round_seconds = 60
[[fault]]
what = "crash"
ranks = [3]
round = 1
for = {away}
"""
_AFTER = 8
"""Rounds that are run besides: before the fault, on the way back, and after it."""

Lines = Sequence[Sequence[Mapping[str, Any]]]
"""By rank its lines of metrics.jsonl."""

_WAYS: Mapping[str, int] = {"own body": 10_000, "adopted": 1}
"""By way to come back its --rejoin-after."""


def main() -> None:
    """Run the simulations, and print a table for each algorithm."""
    arguments = _arguments()
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    for algorithm in arguments.algorithms.split(","):
        tables = [measure(algorithm, seed, arguments.away, arguments.size) for seed in seeds]
        print(f"{algorithm}: rank 3 away for {arguments.away} rounds; {len(seeds)} seeds\n")
        print("| way | neighbors | lowest of 5 rounds | rounds to .01 below undisturbed | rank 3 | its loss |")
        print("|---|---:|---:|---:|---:|---:|")
        for way in tables[0]:
            mean = [fmean(table[way][column] for table in tables) for column in range(len(tables[0][way]))]
            print(f"| {way} | {' | '.join(f'{figure:.3f}' for figure in mean)} |", flush=True)
        print()


def measure(algorithm: str, seed: int, away: int, size: int) -> dict[str, list[float]]:
    """The figures of the returns by way, and of the same round of a run without faults."""
    common: dict[str, Any] = {
        "task": "digits", "algorithm": algorithm, "topology": "ring", "size": size, "rounds": away + _AFTER,
        "seed": seed, "workers": 1, "partition": "dirichlet:0.3", "finish": "none", "alone": "never",
        "log_level": "error",
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "faults.toml"
        plan.write_text(_FAULTS.format(away=away))
        without = _lines(dpeer.Settings(**common, out=Path(folder) / "without"))
        found = {}
        for way, after in _WAYS.items():
            settings = dpeer.Settings(**common, faults=plan, rejoin_after=after, out=Path(folder) / way.split()[0])
            lines = _lines(settings)
            back = next(line["round"] for line in lines[2] if 3 in line["heard"] and line["round"] > 2)
            found[way] = _figures(lines, without, back, size)
            found[f"undisturbed in the round of {way!r}"] = _figures(without, without, back, size)
    return found


def _lines(settings: dpeer.Settings) -> list[list[dict[str, Any]]]:
    run = dpeer.run(settings, overwrite=True)
    return [run.metrics(rank) for rank in range(settings.size)]


def _figures(lines: Lines, without: Lines, back: int, size: int) -> list[float]:
    def near(of: Lines, number: int) -> float:
        return fmean(of[rank][number]["accuracy"] for rank in (2, 4 % size))

    last = len(lines[2]) - 1
    close = (one for one in range(back, last) if near(lines, one) >= near(without, one) - 0.01)
    return [
        near(lines, back),
        min(near(lines, one) for one in range(back, min(back + 5, last + 1))),
        next(close, last) - back,
        lines[3][back]["accuracy"],
        lines[3][back]["test_loss"],
    ]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--algorithms", default="dfedavgm,dfedmdc", help="which ones, by comma")
    parser.add_argument("--seeds", default="0,1,2", help="which ones, by comma")
    parser.add_argument("--away", type=int, default=20, help="rounds that rank 3 is away")
    parser.add_argument("--size", type=int, default=8, help="how many peers")
    return parser.parse_args()


if __name__ == "__main__":
    main()
