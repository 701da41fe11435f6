"""Loss of honest peers by hostile ones, with and without --robust.

    python benchmarks/robust.py [--out robust] [--data DIR] [--sets digits,digits-iid,cifar10,cifar10-iid]
        [--seeds 0,1,2] [--topologies full,exponential] [--attacks flipped,random,nan,drift] [--hostile 1,2]
        [--rules none,clip,trimmed-mean,median] [--show] [--json]

Eight peers train DFedAvgM, which shares the whole model, so that nothing at home can hide what mixing did. The last one
or two of them train as the others do, and send to all their neighbors something else than they have:

    flipped   minus ten times their body
    random    a standard normal number for each value
    nan       NaN for each value
    drift     their body, moved each round a tenth of its length farther into one direction, the same for both

Peers run in one process, over the real round loop. Figures are accuracies of the honest peers on their own test data
right after the last mixing, without `--finish`; in runs without attack, those of the same ranks. F of trimmed-mean is
the number of hostile peers. Below the table is what the peers have who train alone. In digits-iid and cifar10-iid the
samples are divided at random, else unequally. CIFAR-10 (--data: the folder with cifar-10-batches-py) is a part of it:
4,000 training samples for all eight.

Results are lines of OUT/robust.jsonl: the same command again makes only what is missing, also after Ctrl-C; --show
makes none. --json prints the cells as a list in place of the table.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import dpeer
from dpeer.exceptions import Diverged
from dpeer.federation import build
from dpeer.training import TorchLearner, build_learner
from dpeer.training.payload import Payload

SIZE = 8
SETS: Mapping[str, Mapping[str, Any]] = {
    "digits": {"task": "digits", "rounds": 10, "local_steps": 5},
    "digits-iid": {"task": "digits", "rounds": 10, "local_steps": 5, "partition": "iid"},
    "cifar10": {"task": "cifar10", "rounds": 20, "local_steps": 15},
    "cifar10-iid": {"task": "cifar10", "rounds": 20, "local_steps": 15, "partition": "iid"},
}
SAMPLES = {"train_samples": 4000, "test_samples": 2000}
ALONE = "alone"
ATTACKS = ("flipped", "random", "nan", "drift")
RULES = ("none", "clip", "trimmed-mean", "median")
COMMON: Mapping[str, Any] = {
    "size": SIZE, "algorithm": "dfedavgm", "finish": "none", "evaluate_every": 1000, "checkpoint_every": 1000,
    "workers": 1, "threads": 1, "log_level": "error",
}  # fmt: skip


class Cell(NamedTuple):
    """One run: without attack ("-"), `hostile` is how many peers do not count. The rule may be `ALONE`."""

    set: str
    topology: str
    attack: str
    hostile: int
    rule: str
    seed: int


def main() -> None:
    """Make what is missing, and print a table for each data set."""
    arguments = _arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    lines = arguments.out / "robust.jsonl"
    found = _read(lines)
    there = arguments.data or arguments.show
    sets = [name for name in arguments.sets.split(",") if there or not name.startswith("cifar10")]
    cells = [cell for name in sets for cell in _cells(name, arguments)]
    missing = [] if arguments.show else [cell for cell in cells if cell not in found]
    for number, cell in enumerate(missing, 1):
        found[cell] = measure(cell, arguments.data, arguments.out, arguments.rounds)
        with lines.open("a") as file:
            file.write(json.dumps({**cell._asdict(), "accuracy": found[cell]}) + "\n")
        if not arguments.json:
            print(f"{number} of {len(missing)}: {' '.join(map(str, cell))}: {_mean(found[cell]):.4f}", flush=True)
    if arguments.json:
        print(json.dumps([{**cell._asdict(), "accuracy": found[cell]} for cell in cells if cell in found], indent=1))
        return
    for name in sets:
        _print(name, {cell: accuracies for cell, accuracies in found.items() if cell.set == name}, arguments)


def _cells(name: str, arguments: argparse.Namespace) -> list[Cell]:
    topologies, rules = arguments.topologies.split(","), arguments.rules.split(",")
    numbers = [int(text) for text in arguments.hostile.split(",")]
    cells = []
    for seed in map(int, arguments.seeds.split(",")):
        cells.append(Cell(name, "-", "-", 1, ALONE, seed))
        for topology in topologies:
            for hostile in numbers:
                for attack in ("-", *arguments.attacks.split(",")):
                    for rule in rules:
                        full = f"{rule}:{hostile}" if rule == "trimmed-mean" else rule
                        # Without attack a run without F is the same for any number of peers that do not count.
                        counts = 1 if attack == "-" and full == rule else hostile
                        cells.append(Cell(name, topology, attack, counts, full, seed))
    return list(dict.fromkeys(cells))


def measure(cell: Cell, data: str | None, out: Path, rounds: int | None = None) -> list[float]:
    """The accuracy of every peer, the hostile ones last."""
    options = {**SAMPLES, "data": data} if cell.set.startswith("cifar10") else {}
    how = {"algorithm": "local"} if cell.rule == ALONE else {"topology": cell.topology, "robust": cell.rule}
    shorter = {"rounds": rounds} if rounds else {}
    folder = out / "run"
    settings = dpeer.Settings(
        **{"keep": "last", "alone": "never", **COMMON, **SETS[cell.set], **how, **shorter}, task_options=options,
        seed=cell.seed, out=folder,
    )  # fmt: skip
    first = SIZE if cell.attack == "-" else SIZE - cell.hostile

    class Learner(TorchLearner):
        """Sends something else where its rank is hostile."""

        def release(self, number: int) -> Payload | None:
            sent = super().release(number)
            if sent is None or self.trainer.rank < first:
                return sent
            return [attacked(np.frombuffer(b"".join(sent), "<f4"), cell.attack, number, self.trainer.rank, cell.seed)]

    with patch.object(build, "build_learner", partial(build_learner, kind=Learner)):
        try:
            run = dpeer.run(settings, overwrite=True)
        except Diverged:
            run = dpeer.open_run(folder)
    return [accuracy or 0.0 for accuracy in run.summary["accuracy_mixed"]]


def attacked(body: np.ndarray[Any, np.dtype[np.float32]], attack: str, number: int, rank: int, seed: int) -> bytes:
    """What a hostile peer sends in a round in place of its body."""
    if attack == "flipped":
        sent = -10.0 * body
    elif attack == "random":
        sent = np.random.default_rng([seed, rank, number]).standard_normal(body.size)
    elif attack == "nan":
        sent = np.full(body.size, math.nan)
    else:
        direction = np.random.default_rng(seed).standard_normal(body.size)
        direction *= np.linalg.norm(body) / np.linalg.norm(direction)
        sent = body + 0.1 * (number + 1) * direction
    return sent.astype("<f4").tobytes()


def _print(name: str, found: Mapping[Cell, Sequence[float]], arguments: argparse.Namespace) -> None:
    rules, seeds = arguments.rules.split(","), [int(seed) for seed in arguments.seeds.split(",")]
    print(f"\n{name}, {len(seeds)} seed(s): mean accuracy of the honest peers, and of the worst of them\n")
    print(f"| graph | hostile | attack | {' | '.join(rules)} |\n|---|---:|---|{'---:|' * len(rules)}")
    for topology in arguments.topologies.split(","):
        for hostile in map(int, arguments.hostile.split(",")):
            for attack in ("-", *arguments.attacks.split(",")):
                shown = []
                for rule in rules:
                    full = f"{rule}:{hostile}" if rule == "trimmed-mean" else rule
                    counts = 1 if attack == "-" and full == rule else hostile
                    cells = [Cell(name, topology, attack, counts, full, seed) for seed in seeds]
                    # Of the same ranks in every row of this number, attacked or not.
                    honest = [found[cell][: SIZE - hostile] for cell in cells if cell in found]
                    shown.append(f"{_mean(map(fmean, honest)):.3f}, {_mean(map(min, honest)):.3f}" if honest else "-")
                print(f"| {topology} | {hostile} | {'none' if attack == '-' else attack} | {' | '.join(shown)} |")
    alone = [found[cell] for seed in seeds if (cell := Cell(name, "-", "-", 1, ALONE, seed)) in found]
    if alone:
        print(f"\nalone, all eight: {_mean(map(fmean, alone)):.3f}, {_mean(map(min, alone)):.3f}")


def _mean(values: Any) -> float:
    return fmean(values)


def _read(path: Path) -> dict[Cell, list[float]]:
    if not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {Cell(*(line[name] for name in Cell._fields)): line["accuracy"] for line in lines}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("robust"))
    parser.add_argument("--data")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--topologies", default="full,exponential")
    parser.add_argument("--attacks", default=",".join(ATTACKS))
    parser.add_argument("--hostile", default="1,2")
    parser.add_argument("--rules", default=",".join(RULES))
    parser.add_argument("--rounds", type=int, help="in place of each data set's own")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
