"""The methods of DP-FedAdamW's tables at equal epsilon, serverless.

    python benchmarks/optimizers.py --out DIR [--data cifar10=DIR --data roles=FILE] [--only digits] [--seeds 1,2,3]
        [--show]

Four peers on a ring train one common model, all of it shared, with privacy at sample level. At epsilon 3 each row gets
three learning rates, of which the accuracy with seed 0 chooses; that one is run with the seeds of --seeds at each
epsilon, and only these runs are in the table. Ablations take the learning rate of `fedadamw`.

Results are lines of DIR/optimizers.jsonl: the same command again makes only what is missing, also after Ctrl-C; --show
makes none. Data sets for which no --data is given are left out; digits needs none. Figures are means over the peers of
the accuracy on each peer's own test data, after the last mixing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from kept import Cell, Kept, Line, simulated

BUDGETS = (1.0, 3.0, 8.0)
SEARCH_EPSILON, SEARCH_SEED = 3.0, 0

SAME: Mapping[str, Any] = {
    "size": 4, "topology": "ring", "workers": 1, "log_level": "error", "checkpoint_every": 10_000, "head": "",
    "evaluate_every": 10_000, "privacy": "sample", "clip_norm": 1.0, "grad_clip": 0.0, "lr_schedule": "cosine",
    "momentum": 0.0, "weight_decay": 0.0, "finish": "none", "local_steps": 5, "rounds": 30, "microbatch": 256,
}  # fmt: skip
"""Five local steps a round, as many rounds as let the noise be moderate at epsilon 3."""

SETS: Mapping[str, Mapping[str, Any]] = {
    "digits": {"task": "digits", "partition": "dirichlet:0.6", "sampling_rate": 0.1},
    "cifar10": {
        "task": "cifar10", "model": "cnn", "partition": "dirichlet:0.6", "sampling_rate": 0.05, "rounds": 20,
        "task_options": {"train_samples": 4000, "test_samples": 2000},
    },
    "roles": {
        "task": "roles", "model": "gpt", "model_options": {"layers": 2, "width": 32, "heads": 2}, "sampling_rate": 0.02,
        "rounds": 15,
        "task_options": {"roles": 4, "length": 32},
    },
}  # fmt: skip

AdamW: Mapping[str, Any] = {"momentum": 0.9, "weight_decay": 0.01}
SGD, ADAM = (0.3, 1.0, 3.0), (0.003, 0.01, 0.03)

ROWS: Mapping[str, tuple[Mapping[str, Any], tuple[float, ...]]] = {
    "fedavg": ({"algorithm": "fedavg"}, SGD),
    "scaffold": ({"algorithm": "scaffold"}, SGD),
    "fedavg-ls": ({"algorithm": "fedavg-ls"}, (0.1, 0.3, 1.0)),
    "fedsam": ({"algorithm": "fedsam", "rho": 0.05}, SGD),
    "fedopt": ({"algorithm": "fedopt", "body_lr": 1.0}, (0.03, 0.1, 0.3)),
    "fafed": ({"algorithm": "fafed", "weight_decay": 0.01}, ADAM),
    "fafed, one gradient a step": (
        {"algorithm": "fafed", "weight_decay": 0.01, "algorithm_options": {"corrected": False}}, ADAM,
    ),
    "fedlada": ({"algorithm": "fedlada", **AdamW}, (0.01, 0.03, 0.1)),
    "localadamw": ({"algorithm": "localadamw", **AdamW}, ADAM),
    "fedadamw": ({"algorithm": "fedadamw", **AdamW}, ADAM),
}  # fmt: skip
"""Each method's settings, and the learning rates that are tried, of which `fedopt`'s are for its step after mixing."""

ABLATIONS: Mapping[str, Mapping[str, Any]] = {
    "fedadamw, nothing aggregated": {"aggregate": "none"},
    "fedadamw, all of v aggregated": {"aggregate": "full"},
    "fedadamw, noise not subtracted": {"correct": False},
    "fedadamw, not aligned": {"gamma": 0.0},
}
"""Options of `fedadamw`."""


def main() -> None:
    """Make what is missing, and print the tables."""
    arguments = _arguments()
    torch.set_num_threads(1)
    data = dict(text.split("=", 1) for text in arguments.data)
    sets = [name for name in arguments.only.split(",") if name in ("digits", *data) or arguments.show]
    seeds = [int(seed) for seed in arguments.seeds.split(",")]

    def measure(cell: Cell) -> Line:
        shorter = {"rounds": arguments.rounds} if arguments.rounds else {}
        return simulated(lambda out: {**settings(cell, data.get(cell["set"])), **shorter, "out": out}, "accuracy_mixed")

    found = Kept(arguments.out / "optimizers.jsonl", measure, only=arguments.show)
    for name in sets:
        chosen = best(found.make(cell for cell in searched(name) if cell["row"] in arguments.rows), found)
        found.make(repeated(chosen, seeds))
        _print(name, chosen, seeds, found)


def searched(name: str) -> Iterator[Cell]:
    """The runs of which each row's learning rate is chosen."""
    for row, (_, rates) in ROWS.items():
        for lr in rates:
            yield {"set": name, "row": row, "epsilon": SEARCH_EPSILON, "lr": lr, "seed": SEARCH_SEED}


def best(cells: Iterable[Cell], found: Kept) -> dict[str, Cell]:
    """The most accurate cell of each row; each ablation has that of `fedadamw`."""
    chosen: dict[str, Cell] = {}
    for cell in cells:
        row = cell["row"]
        if row not in chosen or found[cell]["accuracy"] > found[chosen[row]]["accuracy"]:
            chosen[row] = cell
    if "fedadamw" in chosen:
        chosen |= {row: chosen["fedadamw"] | {"row": row} for row in ABLATIONS}
    return chosen


def repeated(chosen: Mapping[str, Cell], seeds: Iterable[int]) -> Iterator[Cell]:
    """The runs of the table: all rows with one seed and budget, then with the next."""
    for seed in seeds:
        for epsilon in BUDGETS:
            for cell in chosen.values():
                yield cell | {"seed": seed, "epsilon": epsilon}


def settings(cell: Cell, data: str | None) -> dict[str, Any]:
    """What `dpeer.Settings` takes for a cell.

    Args:
        cell: The run.
        data: The path of the data set's files; None where it comes with scikit-learn.
    """
    row = cell["row"]
    own, _ = ROWS["fedadamw" if row in ABLATIONS else row]
    values = {**SAME, **SETS[cell["set"]], **own, "seed": cell["seed"], "target_epsilon": cell["epsilon"]}
    options = {**own.get("algorithm_options", {}), **ABLATIONS.get(row, {})}
    if row == "fedopt":
        options["server_lr"] = cell["lr"]
    else:
        values["body_lr"] = cell["lr"]
    if data is not None:
        values["task_options"] = {**values.get("task_options", {}), "data": data}
    return {**values, "algorithm_options": options}


def _print(name: str, chosen: Mapping[str, Cell], seeds: Iterable[int], found: Kept) -> None:
    print(f"\n| {name} | learning rate | {' | '.join(f'epsilon {budget:g}' for budget in BUDGETS)} |")
    print(f"|---|---:|{'---:|' * len(BUDGETS)}")
    for row, cell in chosen.items():
        cells = [[cell | {"seed": seed, "epsilon": budget} for seed in seeds] for budget in BUDGETS]
        values = [[found[one]["accuracy"] for one in some if one in found] for some in cells]
        print(f"| {row} | {cell['lr']:g} | {' | '.join(map(_said, values))} |")


def _said(values: list[float]) -> str:
    if not values:
        return "-"
    return f"{fmean(values):.3f}{f' ± {stdev(values):.3f}' if len(values) > 1 else ''} ({len(values)})"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("optimizers"))
    parser.add_argument("--data", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--only", default=",".join(SETS))
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--rows", nargs="+", default=[*ROWS], help="methods")
    parser.add_argument("--rounds", type=int, help="in place of each data set's own")
    parser.add_argument("--show", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
