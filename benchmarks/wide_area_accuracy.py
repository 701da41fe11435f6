"""Accuracy against megabytes and against minutes on a slow line: each codec, with and without overlap, on three tasks.

    python benchmarks/wide_area_accuracy.py --out FOLDER [--cifar10 FOLDER] [--har FILE] [--roles FILE]
        [--rows float32 int8-overlap ...] [--seeds 0,1,2] [--line 20Mbit/40ms] [--train 0.5] [--few N] [--show]

The tasks are those whose data are named; without any, the digits that scikit-learn brings:

    cifar10   16 peers, Dirichlet(.3), 4,000 training and 2,000 test images, small CNN, exponential graph, dfedmdc
    har       30 persons, each a peer, a CNN over time, exponential graph, dfedmdc
    roles     8 peers with the 16 roles that say most, a GPT of two layers on bytes, ring, dfedavgm with AdamW
    digits    8 peers, Dirichlet(.3), ring, dfedmdc

A cell is a simulation, whose bits are those of a cluster: so accuracy and bytes are measured, and minutes are computed
from them. A round takes `--train` seconds of training, the same for all tasks and an assumption, and an exchange: the
bytes of the peer that sends most at the line's bandwidth, and a round trip. Without overlap it takes their sum, with it
the longer of the two (`wide_area.py` measures how close whole peers come). By row, over the seeds with half of the 95 %
interval (Student's t):

    accuracy      after the last mixing, the mean over the peers
    vs float32    the difference to float32 without overlap, seed by seed
    MB            that a peer sends
    minutes       of all rounds on that line
    at M minutes  accuracy at the moment at which the fastest row has ended
    to TARGET     rounds, MB and minutes until the mean accuracy is a point below what float32 ends with

Results are lines of FOLDER/wide_area_accuracy.jsonl: the same command again makes only what is missing, `--show` none,
and `--line` and `--train` may change, since cells do not depend on them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from emulated_lines import Shape
from kept import Cell, Kept, Line

import dpeer
from dpeer.experiments.statistics import interval

SAME: Mapping[str, Any] = {
    "rounds": 20, "evaluate_every": 2, "keep": "last", "finish": "none", "alone": "never", "workers": 1,
    "checkpoint_every": 10_000, "log_level": "error",
}  # fmt: skip
TASKS: Mapping[str, Mapping[str, Any]] = {
    "cifar10": {
        "size": 16, "topology": "exponential", "task": "cifar10", "partition": "dirichlet:0.3", "model": "cnn",
        "task_options": {"train_samples": 4000, "test_samples": 2000}, "algorithm": "dfedmdc", "body_epochs": 1,
        "head_epochs": 1, "body_lr": 0.01, "head_lr": 0.01,
    },
    "har": {
        "size": 30, "topology": "exponential", "task": "har", "partition": "subject", "algorithm": "dfedmdc",
        "body_epochs": 1, "head_epochs": 1, "body_lr": 0.03, "head_lr": 0.03,
    },
    "roles": {
        "size": 8, "topology": "ring", "task": "roles", "partition": "role",
        "task_options": {"roles": 16, "length": 64},
        "model": "gpt", "model_options": {"layers": 2, "width": 64, "heads": 2}, "algorithm": "dfedavgm",
        "optimizer": "adamw", "body_lr": 1e-3, "batch_size": 8, "local_steps": 20,
    },
    "digits": {
        "size": 8, "topology": "ring", "task": "digits", "partition": "dirichlet:0.3", "algorithm": "dfedmdc",
        "body_epochs": 1, "head_epochs": 1,
    },
}  # fmt: skip
"""What each task has beside `SAME`."""

CODECS = ("float32", "bfloat16", "int8", "int4", "topk:0.05", "powersgd:4")
ROWS = [f"{codec}{late}" for codec in CODECS for late in ("", "-overlap")]


def main() -> None:
    """Make what is missing, and print a table for each task."""
    options = _arguments()
    torch.set_num_threads(1)
    given = {name: path for name in TASKS if (path := getattr(options, name, None)) is not None}
    tasks: Mapping[str, Path | None] = given or {"digits": None}
    found = Kept(
        options.out / "wide_area_accuracy.jsonl", lambda cell: measured(cell, tasks[cell["task"]]), only=options.show
    )
    seeds = [int(seed) for seed in options.seeds.split(",")]
    cells = [
        {"task": task, "row": row, "seed": seed, "rounds": options.rounds or SAME["rounds"]}
        for seed in seeds
        for task in tasks
        for row in options.rows
    ]
    if options.few is not None:
        cells = cells[: options.few]
    made = found.make(cells)
    for task in tasks:
        lines = {
            row: [found[cell] for cell in made if cell["task"] == task and cell["row"] == row] for row in options.rows
        }
        show(task, {row: curves for row, curves in lines.items() if curves}, Shape.parse(options.line), options.train)


def measured(cell: Cell, data: Path | None) -> Line:
    """The curve of one cell, or why its settings are refused."""
    codec, _, late = cell["row"].partition("-")
    values = {**SAME, **TASKS[cell["task"]], "compress": codec, "overlap": int(bool(late)), "seed": cell["seed"]}
    values["rounds"] = cell["rounds"]
    if data is not None:
        values["task_options"] = {**values.get("task_options", {}), "data": str(data)}
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="dpeer-benchmark-") as folder:
        run = dpeer.run(dpeer.Settings(**values, out=Path(folder) / "run"), mode="simulate")
        peers = [run.metrics(rank) for rank in range(values["size"])]
        parameters = run.summary["body_parameters"]
    sent = [max(lines[number]["bytes_sent"] for lines in peers) for number in range(cell["rounds"])]
    return {
        "bytes": sent,
        "accuracy": {
            str(number): fmean(lines[number]["accuracy"] for lines in peers)
            for number in range(cell["rounds"])
            if peers[0][number]["accuracy"] is not None
        },
        "parameters": parameters,
        "seconds": round(time.perf_counter() - began, 1),
    }


def ends(line: Line, row: str, shape: Shape, train: float) -> list[float]:
    """The minutes at which each round ends on the line.

    Args:
        line: A cell's.
        row: Its row: whether bodies travel while the next round trains.
        shape: The line of the peer that sends most.
        train: Seconds of training in a round.
    """
    exchanges = [sent / shape.bytes_per_second + shape.round_trip for sent in line["bytes"]]
    if not row.endswith("-overlap"):
        return [total / 60 for total in accumulate(train + exchange for exchange in exchanges)]
    # The first round is trained before anything travels; while the last one travels, nothing is left to train.
    rounds = [max(train, exchange) for exchange in exchanges[:-1]] + exchanges[-1:]
    return [(train + total) / 60 for total in accumulate(rounds)]


def accuracy_at(line: Line, row: str, shape: Shape, train: float, minutes: float) -> float:
    """The accuracy of the last evaluated round that has ended by then; 0 before the first."""
    over = ends(line, row, shape, train)
    return max(
        (
            (over[int(number)], accuracy)
            for number, accuracy in line["accuracy"].items()
            if over[int(number)] <= minutes
        ),
        default=(0.0, 0.0),
    )[1]


def reaches(lines: Sequence[Line], row: str, shape: Shape, train: float, target: float) -> tuple[int, float, float]:
    """Rounds, MB and minutes until the mean accuracy over the seeds is the target; of no round where it never is.

    Raises:
        LookupError: It never is.
    """
    for number in sorted(map(int, lines[0]["accuracy"])):
        if fmean(line["accuracy"][str(number)] for line in lines) >= target:
            mb = fmean(sum(line["bytes"][: number + 1]) for line in lines) / 1e6
            return number + 1, mb, fmean(ends(line, row, shape, train)[number] for line in lines)
    raise LookupError(row)


def show(task: str, lines: Mapping[str, Sequence[Line]], shape: Shape, train: float) -> None:
    """Print the table of a task, in Markdown.

    Args:
        task: Its name.
        lines: The cells of each row, one for each seed.
        shape: The line.
        train: Seconds of training in a round.
    """
    last = {row: [_last(line) for line in cells] for row, cells in lines.items()}
    total = {row: fmean(ends(line, row, shape, train)[-1] for line in cells) for row, cells in lines.items()}
    first = min(total.values())
    target = fmean(last["float32" if "float32" in last else next(iter(last))]) - 0.01
    some, plain = next(iter(lines.values())), last.get("float32", [])
    print(f"\n{task}: {some[0]['parameters']:,} parameters, line {shape}, {train:g} s of training, {len(some)} seeds\n")
    columns = f"MB | minutes | at {first:.2f} minutes | rounds to {target:.3f} | MB | minutes"
    print(f"| row | accuracy | vs float32 | {columns} |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for row, cells in lines.items():
        mb = fmean(sum(line["bytes"]) for line in cells) / 1e6
        then = [accuracy_at(line, row, shape, train, first) for line in cells]
        try:
            rounds, sent, minutes = reaches(cells, row, shape, train, target)
            reached = f"{rounds} | {sent:.2f} | {minutes:.2f}"
        except LookupError:
            reached = "- | - | -"
        paired = row != "float32" and len(plain) == len(cells)
        beside = _mean([one - other for one, other in zip(last[row], plain, strict=True)], sign="+") if paired else "-"
        print(f"| {row} | {_mean(last[row])} | {beside} | {mb:.2f} | {total[row]:.2f} | {_mean(then)} | {reached} |")


def _last(line: Line) -> float:
    accuracy: float = line["accuracy"][max(line["accuracy"], key=int)]
    return accuracy


def _mean(values: Sequence[float], sign: str = "") -> str:
    """A mean, and half of its 95 % interval."""
    mean, half = interval(values)
    return f"{mean:{sign}.4f}" + ("" if half is None else f" ± {half:.4f}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("wide_area_accuracy"))
    parser.add_argument("--cifar10", type=Path, help="the folder that has cifar-10-batches-py")
    parser.add_argument("--har", type=Path, help="UCI HAR, a folder or an .npz file")
    parser.add_argument("--roles", type=Path, help="text by role, as --task roles takes it")
    parser.add_argument("--rows", nargs="+", default=ROWS, metavar="CODEC[-overlap]")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--rounds", type=int, help=f"of each cell (default: {SAME['rounds']})")
    parser.add_argument("--line", default="20Mbit/40ms", help="bandwidth and round trip")
    parser.add_argument("--train", type=float, default=0.5, help="seconds of training in a round")
    parser.add_argument("--few", type=int, help="make so many cells at most, to try it")
    parser.add_argument("--show", action="store_true", help="make no cell")
    return parser.parse_args()


if __name__ == "__main__":
    main()
