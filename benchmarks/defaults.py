"""Worst loss by default settings: dfedsmdc with several rates, radii and clippings, beside peers that train alone.

    python benchmarks/defaults.py --out DIR [--data har=FILE.npz --data mnist=FILE.npz --data cifar10=DIR]
        [--sets digits,table] [--only former,clip1] [--seeds 0,1,2] [--show]

Each candidate is a run on a ring, with the numbers of epochs that are the defaults. Data sets for which no --data is
given are left out. Three need none: the digits; a generated table of patients (eight sites of unequal size and mixture,
most of whose columns are noise); and letters, dark on white paper, whose inputs are standardized or not (raw). Runs lie
in --out, one folder each: the same command again makes only what is missing, also after Ctrl-C; --show makes none.

Columns: accuracy after mixing, mean over peers and seeds; of the worst peer, mean over seeds; share of the peers below
themselves trained alone with the same rate, clipping and optimizer, and below themselves trained alone with whichever
of these made `local` best on average.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from string import ascii_uppercase
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from dpeer.experiments.cells import Cell, Condition, make_cell
from dpeer.experiments.launchers import find_launcher
from dpeer.experiments.outcomes import Result
from dpeer.experiments.running import run_cells
from dpeer.experiments.variants import Variant

OWN = f"{Path(__file__).with_name('candidates.py')}:Candidate"
"""DFedSMDC with a radius and rates that are found otherwise."""

SLOWER = {"body_lr": 0.02, "head_lr": 0.02}
ADAMW = {"optimizer": "adamw", "body_lr": 0.001, "head_lr": 0.001}
CLIP = {"grad_clip": 1.0}

STEPS: Mapping[str, Mapping[str, Any]] = {
    "former": {},
    "clip10": {"grad_clip": 10.0},
    "clip1": CLIP,
    "lr0.02": SLOWER,
    "adamw": ADAMW,
}
"""Candidates that `local` can have, too; other settings are those of `BASE`."""

OPTIONS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "rho0.01": ("former", {"rho": 0.01}),
    "clip1-rho0.01": ("clip1", {**CLIP, "rho": 0.01}),
    "clip1-rho0.001w": ("clip1", {**CLIP, "algorithm_options": {"relative": 0.001}}),
    "clip1-ramp5": ("clip1", {**CLIP, "algorithm_options": {"ramp": 5}}),
    "clip1-find": ("clip1", {**CLIP, "algorithm_options": {"find": True}}),
}
"""Candidates that only dfedsmdc can have, each with the one by which `local` is trained beside it.

rho0.001w is a radius of a thousandth of the body's length; ramp5 a radius that reaches its length in the fifth round;
find a rate that each peer chooses by two epochs with each of four before the first round.
"""

BASE: Mapping[str, Any] = {"body_lr": 0.05, "head_lr": 0.05, "rho": 0.05, "grad_clip": None, "workers": 1}


def main() -> None:
    """Make what is missing and print a table for each data set."""
    arguments = _arguments()
    data = dict(text.split("=", 1) for text in arguments.data)
    sets = {name: values for name, values in conditions(arguments.out, data).items() if _asked(name, arguments.sets)}
    if arguments.rounds:
        sets = {name: {**values, "rounds": arguments.rounds} for name, values in sets.items()}
    cells = {
        (name, method, step, seed): _cell(arguments.out, name, values, method, step, seed)
        for seed in map(int, arguments.seeds.split(","))
        for step in [*STEPS, *OPTIONS]
        for name, values in sets.items()
        for method in ("local", "dfedsmdc")
        if _asked(step, arguments.only) and not (method == "local" and step in OPTIONS)
    }
    here = find_launcher("local", 1, {}, arguments.out)
    if arguments.show or run_cells(list(cells.values()), here, lambda line: print(line, flush=True)):
        _print({key: Result(cell.folder) for key, cell in cells.items() if cell.done}, [*sets])


def conditions(out: Path, data: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The data sets: settings by name."""
    write_tables(out / "table")
    write_letters(out / "letters")
    table = {"path": f"{out}/table/site-{{rank}}.csv", "target": "outcome"}
    letters = {"path": f"{out}/letters/site-{{rank}}", "image_size": 28, "channels": 1, "classes": [*ascii_uppercase]}
    few = {"train_samples": 2400, "test_samples": 1200}
    found: dict[str, dict[str, Any]] = {
        "digits": {"task": "digits", "size": 8, "rounds": 8},
        "table": {"task": "csv", "task_options": table, "standardize": True, "size": 8, "rounds": 8},
        "letters": {"task": "image-folder", "task_options": letters, "standardize": True},
        "letters-raw": {"task": "image-folder", "task_options": letters},
    }
    if "har" in data:
        found["har"] = {"task": "har", "task_options": {"data": str(few_persons(data["har"], out))}}
    for name in ("mnist", "cifar10"):
        if name in data:
            found[name] = {"task": name, "task_options": {"data": data[name], **few}}
    return {name: {"size": 4, "rounds": 4, **values} for name, values in found.items()}


def write_tables(where: Path) -> None:
    """Tables of patients of eight sites, in files of their own; the same numbers every time.

    Twelve measurements, of which five matter, on scales from 0.1 to 100; two of them act together; sites differ in
    size (60 to 400), in who comes (shifted means), and in how often the outcome is met with.
    """
    where.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    weights = np.array([1.2, -0.9, 0.7, 0.5, -0.4, *[0.0] * 7])
    scales = 10.0 ** rng.uniform(-1, 2, 12)
    for site in range(8):
        rows = int(rng.integers(60, 400))
        values = rng.normal(rng.normal(0, 0.7, 12), 1.0, (rows, 12))
        odds = values @ weights + 0.8 * values[:, 0] * values[:, 1] - rng.normal(0.5, 0.5)
        outcome = rng.random(rows) < 1 / (1 + np.exp(-1.5 * odds))
        with (where / f"site-{site}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*(f"m{number}" for number in range(12)), "outcome"])
            for row, label in zip(values * scales, outcome, strict=True):
                writer.writerow([*(f"{value:.4f}" for value in row), "yes" if label else "no"])


def write_letters(where: Path) -> None:
    """Letters, dark on white, turned and moved, of four sites that draw some letters more often than others."""
    if where.exists():
        return
    rng = np.random.default_rng(8)
    font = ImageFont.load_default(22)
    for site in range(4):
        often = rng.dirichlet(np.full(26, 1.0))
        for number, letter in enumerate(ascii_uppercase):
            folder = where / f"site-{site}" / letter
            folder.mkdir(parents=True)
            for copy in range(5 + round(600 * often[number])):
                image = Image.new("L", (28, 28), 255)
                ImageDraw.Draw(image).text((14, 14), letter, fill=int(rng.integers(0, 90)), font=font, anchor="mm")
                moved = int(rng.integers(-3, 4)), int(rng.integers(-3, 4))
                image.rotate(float(rng.normal(0, 15)), translate=moved, fillcolor=255).save(folder / f"{copy}.png")


def few_persons(path: str, out: Path) -> Path:
    """The windows of the first eight persons of an .npz of HAR."""
    found = out / "har-8.npz"
    if not found.exists():
        with np.load(path) as arrays:
            rows = np.isin(arrays["subject"], np.unique(arrays["subject"])[:8])
            np.savez_compressed(
                found, x=arrays["x"][rows], y=arrays["y"][rows], subject=arrays["subject"][rows],
                is_test=np.zeros(int(rows.sum()), dtype=bool),
            )  # fmt: skip
    return found


def _cell(out: Path, name: str, values: Mapping[str, Any], method: str, step: str, seed: int) -> Cell:
    changes = STEPS[step] if step in STEPS else OPTIONS[step][1]
    algorithm = OWN if "algorithm_options" in changes else method
    base = {**BASE, **values, "evaluate_every": values["rounds"]}
    return make_cell(base, Variant(f"{name}-{method}-{step}", algorithm, changes), Condition({}), seed, out)


def _print(results: Mapping[tuple[str, str, str, int], Result], names: Sequence[str]) -> None:
    """Print a table for each data set, and one of all."""
    overall: dict[str, dict[str, _Figures]] = {}
    for name in names:
        found = {
            (method, step, seed): _known(result.accuracies("accuracy_mixed"))
            for (here, method, step, seed), result in results.items()
            if here == name
        }
        alone = _by_step(found, "local")
        if not alone:
            continue
        best = max(alone, key=lambda step: _mean(alone[step].values()))
        print(f"\n**{name}** (best alone: {best}, {_mean(alone[best].values()):.4f})\n")
        print("| | mean | worst peer | below alone | below best alone | alone |")
        print("|---|---:|---:|---:|---:|---:|")
        seeds = {seed for _, _, seed in found}
        for step, mine in _by_step(found, "dfedsmdc").items():
            if {*mine} < seeds:
                continue  # of fewer repetitions than the others: its figures are not comparable
            like = alone.get(OPTIONS[step][0] if step in OPTIONS else step, {})
            figures = _Figures(
                _mean(mine.values()), fmean(map(min, mine.values())), _below(mine, like), _below(mine, alone[best]),
                _mean(like.values()),
            )  # fmt: skip
            overall.setdefault(step, {})[name] = figures
            cells = f"{figures.mean:.4f} | {figures.worst:.4f} | {figures.below:.0%} | {figures.below_best:.0%}"
            print(f"| {step} | {cells} | {figures.alone:.4f} |")
    _print_overall(overall, names)


class _Figures(NamedTuple):
    """What a candidate came to on a data set: see the columns above."""

    mean: float
    worst: float
    below: float
    below_best: float
    alone: float


def _print_overall(overall: Mapping[str, Mapping[str, _Figures]], names: Sequence[str]) -> None:
    """Print, by candidate, the means on each data set, and over the data sets the worst peer and who is below."""
    print("\n**all**: mean accuracy by data set; the last columns are means over the data sets\n")
    print(f"| | {' | '.join(names)} | worst peer | below alone | below best alone |")
    print(f"|---{'|---:' * (len(names) + 3)}|")
    for step, figures in overall.items():
        if {*figures} < {*names}:
            continue
        there = [figures[name] for name in names]
        shares = [fmean(one.below for one in there), fmean(one.below_best for one in there)]
        cells = [*(f"{one.mean:.3f}" for one in there), f"{fmean(one.worst for one in there):.3f}"]
        print(f"| {step} | {' | '.join([*cells, *(f'{share:.0%}' for share in shares)])} |")


def _by_step(found: Mapping[tuple[str, str, int], list[float]], method: str) -> dict[str, dict[int, list[float]]]:
    """Accuracies of all peers, by candidate and seed."""
    steps: dict[str, dict[int, list[float]]] = {}
    for (other, step, seed), accuracies in found.items():
        if other == method:
            steps.setdefault(step, {})[seed] = accuracies
    return steps


def _known(values: Sequence[float]) -> list[float]:
    """Accuracies; 0 where training has left none."""
    return [0.0 if math.isnan(value) else value for value in values]


def _mean(seeds: Iterable[Sequence[float]]) -> float:
    values = [value for peers in seeds for value in peers]
    return fmean(values) if values else math.nan


def _below(mine: Mapping[int, Sequence[float]], other: Mapping[int, Sequence[float]]) -> float:
    pairs = [pair for seed in mine.keys() & other.keys() for pair in zip(mine[seed], other[seed], strict=True)]
    return fmean(here < there for here, there in pairs) if pairs else math.nan


def _asked(name: str, asked: str | None) -> bool:
    return asked is None or name in asked.split(",")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="where runs and generated tables lie")
    parser.add_argument("--data", action="append", default=[], metavar="SET=PATH", help="har, mnist or cifar10; repeat")
    parser.add_argument("--sets", help="data sets, with commas; all with data by default")
    parser.add_argument("--only", help="candidates, with commas; all if not given")
    parser.add_argument("--seeds", default="0,1", help="repetitions, with commas")
    parser.add_argument("--rounds", type=int, help="in place of each data set's own")
    parser.add_argument("--show", action="store_true", help="print the tables of what is there")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    return arguments


if __name__ == "__main__":
    main()
