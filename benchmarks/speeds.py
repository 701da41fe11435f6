"""One slow peer among equals: the others' rounds, and accuracies at equal time, for each round budget of the slow one.

    python benchmarks/speeds.py [--peers 8] [--times 5] [--rounds 40] [--seeds 0-4] [--round-seconds auto 24]
                                [--deadline 120] [--task digits] [--json] [-- SETTING=VALUE ...]

Federations are simulated in virtual time (`dpeer simulate --faults`), so the figures do not depend on the machine: a
round of an ordinary peer takes a minute, of which training takes nine tenths and mixing one, and all of it takes the
last peer so many times as long. At the time at which a federation without a slow peer has run all rounds, the run is
looked at:

    rounds      how many the others have completed, and how many minutes one took them, in the mean
    mixed       in how many of these the slow peer's body was mixed by its neighbors
    steps       of the slow peer in a round, of those that its epochs have
    others      mean accuracy of the other peers, after mixing
    slow        accuracy of the slow peer

Each is the mean over the seeds, with the standard deviation between them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import dpeer
from dpeer.results.files import rank_folder
from dpeer.results.reading import read_entries

ROUND = 60.0
"""Virtual seconds of a round."""

FIGURES = ("rounds", "minutes", "mixed", "steps", "others", "slow")
Figures = dict[str, float]


def run(settings: dict[str, Any], *, size: int, times: float, rounds: int, seed: int, **slow: Any) -> Figures:
    """Simulate one federation; returns its figures at the time at which undisturbed rounds would be over.

    Args:
        settings: Of all runs.
        size: The number of peers; the last one is slow.
        times: How slow; 1 for a federation of equals.
        rounds: How many rounds fit into the time.
        seed: Of data, first weights and batches.
        slow: Settings of the run; `round_seconds` is the slow peer's alone.
    """
    budget = slow.pop("round_seconds", None)
    with tempfile.TemporaryDirectory() as folder:
        out, faults = Path(folder) / "run", Path(folder) / "faults.toml"
        table = f'[[fault]]\nwhat = "slow"\nranks = [{size - 1}]\nround = 0\nat = 0.0\ntimes = {times:g}\n'
        faults.write_text(f"round_seconds = {ROUND:g}\n" + (table if times > 1 else ""))
        ranks = {} if budget is None else {size - 1: {"round_seconds": budget}}
        values: dict[str, Any] = {"size": size, "rounds": rounds, "seed": seed, "finish": "none"}
        values |= {"alone": "never", "keep": "last"}
        values |= {**settings, **slow, "faults": faults, "out": out, "rank": ranks}
        faults_of_run = dpeer.run(dpeer.Settings.model_validate(values), overwrite=True).summary["faults"]
        entries = [read_entries(rank_folder(out, rank)) for rank in range(size)]
    ends = [one["completed_at"] for one in faults_of_run["ranks"]]
    return at(1.01 * rounds, entries, ends, size - 1)  # messages take some time, too


def at(time: float, entries: Sequence[list[dict[str, Any]]], ends: Sequence[list[float]], slow: int) -> Figures:
    """The figures at a time, in rounds."""
    both = zip(entries, ends, strict=True)
    done = [[one for one, end in zip(lines, by, strict=True) if end <= time] for lines, by in both]
    others = [lines for rank, lines in enumerate(done) if rank != slow]
    near = [lines for lines in others if any(slow in one["heard"] or slow in one["missed"] for one in lines)]
    heard = [slow in one["heard"] for lines in near for one in lines]
    trained = [one for one in done[slow] if one["active"]]
    return {
        "rounds": fmean(map(len, others)),
        "minutes": time / max(1.0, fmean(map(len, others))) * ROUND / 60,
        "mixed": fmean(heard) if heard else 0.0,
        "steps": fmean(sum(one["steps"]) / sum(one["steps_asked"]) for one in trained) if trained else 0.0,
        "others": fmean(map(_last, others)),
        "slow": _last(done[slow]),
    }


def _last(lines: Sequence[dict[str, Any]]) -> float:
    """The accuracy that was measured last; NaN before the first."""
    return next((one["accuracy"] for one in reversed(lines) if one["accuracy"] is not None), float("nan"))


def cases(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """The runs by name: settings, and how slow the slow peer is."""
    found: dict[str, dict[str, Any]] = {
        "no slow peer": {"times": 1.0},
        "all wait": {"times": options.times},
        f"--deadline {options.deadline:g}": {"times": options.times, "deadline": options.deadline},
    }
    for budget in options.round_seconds:
        value = budget if budget == "auto" else float(budget)
        found[f"--round-seconds {budget}"] = {
            "times": options.times, "deadline": options.deadline, "round_seconds": value,
        }  # fmt: skip
    return found


def seeds(text: str) -> range:
    """Seeds such as 0-4."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main() -> None:
    """Run all cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=int, default=8)
    parser.add_argument("--times", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seeds", type=seeds, default=range(5))
    parser.add_argument("--round-seconds", nargs="*", default=["auto", "24"])
    parser.add_argument("--deadline", type=float, default=120.0)
    parser.add_argument("--task", default="digits")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("more", nargs="*", metavar="SETTING=VALUE")
    options = parser.parse_args()
    settings = {"task": options.task, **tomllib.loads("\n".join(options.more))}
    results = {}
    for name, case in cases(options).items():
        found = [run(settings, size=options.peers, rounds=options.rounds, seed=seed, **case) for seed in options.seeds]
        results[name] = {figure: [one[figure] for one in found] for figure in FIGURES}
        if not options.json:
            print(line(name, results[name]), flush=True)
    if options.json:
        print(json.dumps(results))


def line(name: str, found: dict[str, list[float]]) -> str:
    """A case's line of the table."""
    shown: dict[str, Callable[[float], str]] = dict.fromkeys(FIGURES, "{:.3f}".format)
    shown |= {"rounds": "{:.1f}".format, "minutes": "{:.2f}".format}
    spread = {figure: stdev(values) if len(values) > 1 else 0.0 for figure, values in found.items()}
    parts = (f"{figure} {shown[figure](fmean(found[figure]))} ({shown[figure](spread[figure])})" for figure in FIGURES)
    return f"{name:<22} " + "  ".join(parts)


if __name__ == "__main__":
    main()
