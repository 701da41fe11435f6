"""Which defaults fall least deep: dfedsmdc with several rates, radii and clippings, beside peers that train alone.

    python benchmarks/defaults.py --out DIR [--data har=FILE.npz --data mnist=FILE.npz --data cifar10=DIR]
        [--sets digits,clinic] [--only lr0.01,clip1] [--seeds 0,1] [--rounds 10]

Each candidate is a run of eight peers on a ring, with the numbers of epochs that are the defaults. Data sets for which
no --data is given are left out. Three need none: digits, a generated table of patients (eight sites of unequal size and
mixture, with columns that are partly noise), and drawings of 26 letters on white paper, whose inputs are standardized or
not (raw). Runs lie in --out, one folder each: the same command again makes only what is missing, also after Ctrl-C.

Columns: accuracy after mixing, over peers and seeds; the worst peer, mean over seeds; the share of the peers below
themselves trained alone with the same rate, clipping and optimizer; and below themselves trained alone with whatever
made `local` best on average.
"""

from __future__ import annotations

import argparse
import csv
import math
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase
from statistics import fmean
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from dpeer.experiments.cells import Cell, Condition, make_cell
from dpeer.experiments.outcomes import Result
from dpeer.experiments.running import run_cells
from dpeer.experiments.variants import Variant

OWN = f"{Path(__file__).with_name('candidates.py')}:Candidate"
"""DFedSMDC with a radius and rates that are found otherwise."""

RATE = {f"lr{rate}": {"body_lr": rate, "head_lr": rate} for rate in (0.01, 0.02)}

STEPS: Mapping[str, Mapping[str, Any]] = {
    "papers": {"body_lr": 0.05, "head_lr": 0.05, "grad_clip": None},
    "clip10": {"grad_clip": 10.0},
    "clip1": {"grad_clip": 1.0},
    **RATE,
    "lr0.02-clip1": {**RATE["lr0.02"], "grad_clip": 1.0},
}
"""Candidates that are settings, which `local` can have, too; each over the first."""

OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "rho0.01": {"rho": 0.01},
    "rho0.005w": {"algorithm_options": {"relative": 0.005}},
    "rho-root": {"algorithm_options": {"per_root": 0.0002}},
    "rho-ramp5": {"algorithm_options": {"ramp": 5}},
    "find": {"algorithm_options": {"find": True}},
}
"""Candidates that only dfedsmdc can have."""

SITES = 8


def main() -> None:
    """Make what is missing and print a table for each data set."""
    arguments = _arguments()
    data = dict(text.split("=", 1) for text in arguments.data)
    sets = {name: values for name, values in conditions(arguments.out, data).items() if _asked(name, arguments.sets)}
    cells = {
        (name, method, step, seed): _cell(arguments.out, name, values, method, step, seed, arguments.rounds)
        for seed in _list(arguments.seeds)
        for name, values in sets.items()
        for step in [*STEPS, *OPTIONS]
        for method in ("local", "dfedsmdc")
        if _asked(step, arguments.only) and not (method == "local" and step in OPTIONS)
    }
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if run_cells(list(cells.values()), 1, lambda line: print(line, flush=True)):
        _print(cells, sorted({key[0] for key in cells}))


def conditions(out: Path, data: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The data sets: settings by name."""
    few = {"train_samples": 1600, "test_samples": 1600}
    tables = out / "clinic"
    found: dict[str, dict[str, Any]] = {
        "digits": {"task": "digits", "partition": "dirichlet:0.3"},
        "clinic": {"task": "csv", "task_options": {"path": f"{tables}/site-{{rank}}.csv", "target": "outcome"}},
    }
    found["clinic"]["standardize"] = True
    write_clinic(tables)
    drawn = {"path": f"{out}/drawings/site-{{rank}}", "image_size": 28, "channels": 1, "classes": list(ascii_uppercase)}
    for name in ("drawings", "raw"):
        found[name] = {"task": "image-folder", "task_options": drawn, "standardize": name == "drawings"}
    write_drawings(out / "drawings")
    if "har" in data:
        found["har"] = {"task": "har", "task_options": {"data": str(few_persons(data["har"], out))}}
    for name in ("mnist", "cifar10"):
        if name in data:
            found[name] = {
                "task": name,
                "task_options": {"data": data[name], **few},
                "partition": "dirichlet:0.3",
            }
    return found


def write_clinic(where: Path) -> None:
    """Tables of patients of eight sites, in files of their own; the same numbers every time.

    Twelve measurements, of which five matter, on scales from 0.1 to 100; two of them act together; sites differ in
    size (60 to 400), in who comes (shifted means), and in how often the outcome is met with.
    """
    where.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    weights = np.array([1.2, -0.9, 0.7, 0.5, -0.4, *[0.0] * 7])
    scales = 10.0 ** rng.uniform(-1, 2, 12)
    for site in range(SITES):
        rows = int(rng.integers(60, 400))
        values = rng.normal(rng.normal(0, 0.7, 12), 1.0, (rows, 12))
        odds = values @ weights + 0.8 * values[:, 0] * values[:, 1] - rng.normal(0.5, 0.5)
        outcome = rng.random(rows) < 1 / (1 + np.exp(-1.5 * odds))
        with (where / f"site-{site}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*(f"m{number}" for number in range(12)), "outcome"])
            for row, label in zip(values * scales, outcome, strict=True):
                writer.writerow([*(f"{value:.4f}" for value in row), "yes" if label else "no"])


def write_drawings(where: Path) -> None:
    """Letters, dark on white, turned and moved, of eight sites that draw some letters more often than others."""
    if where.exists():
        return
    rng = np.random.default_rng(8)
    font = ImageFont.load_default(22)
    for site in range(SITES):
        often = rng.dirichlet(np.full(26, 1.0))
        for number, letter in enumerate(ascii_uppercase):
            folder = where / f"site-{site}" / letter
            folder.mkdir(parents=True)
            for copy in range(2 + round(180 * often[number])):
                image = Image.new("L", (28, 28), 255)
                ImageDraw.Draw(image).text((14, 14), letter, fill=int(rng.integers(0, 90)), font=font, anchor="mm")
                moved = tuple(int(pixels) for pixels in rng.integers(-3, 4, 2))
                image.rotate(float(rng.normal(0, 15)), translate=moved, fillcolor=255).save(folder / f"{copy}.png")


def few_persons(path: str, out: Path) -> Path:
    """The windows of the first eight persons of an .npz of HAR."""
    found = out / "har-8.npz"
    if not found.exists():
        with np.load(path) as arrays:
            rows = np.isin(arrays["subject"], np.unique(arrays["subject"])[:SITES])
            np.savez_compressed(
                found, x=arrays["x"][rows], y=arrays["y"][rows], subject=arrays["subject"][rows],
                is_test=np.zeros(int(rows.sum()), dtype=bool),
            )  # fmt: skip
    return found


def _cell(
    out: Path, name: str, values: Mapping[str, Any], method: str, step: str, seed: int, rounds: int
) -> Cell:
    base = {"size": SITES, "rounds": rounds, "evaluate_every": rounds, "workers": 1, **STEPS["papers"]}
    algorithm = OWN if step in OPTIONS else method
    changes = {**STEPS.get(step, {}), **OPTIONS.get(step, {})}
    return make_cell({**base, **values}, Variant(f"{name}-{method}-{step}", algorithm, changes), Condition({}), seed, out)


def _print(cells: Mapping[tuple[str, str, str, int], Cell], names: Sequence[str]) -> None:
    results = {key: Result(cell.folder) for key, cell in cells.items()}
    for name in names:
        found: dict[tuple[str, str], list[list[float]]] = {}
        for (here, method, step, _), result in results.items():
            if here == name:
                found.setdefault((method, step), []).append(result.last("accuracy"))
        alone = {step: accuracies for (method, step), accuracies in found.items() if method == "local"}
        best = max(alone, key=lambda step: _mean(alone[step]))
        print(f"\n{name} (best alone: {best}, {_mean(alone[best]):.4f})\n")
        print("| | mean | worst peer | below alone alike | below best alone | alone |")
        print("|---|---:|---:|---:|---:|---:|")
        for (method, step), accuracies in found.items():
            if method == "local":
                continue
            like = alone.get(step, alone.get("papers"))
            worst = fmean(min(_known(peers)) for peers in accuracies)
            print(
                f"| {step} | {_mean(accuracies):.4f} | {worst:.4f} | {_below(accuracies, like)} | "
                f"{_below(accuracies, alone[best])} | {'-' if like is None else format(_mean(like), '.4f')} |"
            )


def _known(values: Sequence[float]) -> list[float]:
    """Accuracies; 0 where training has left none."""
    return [0.0 if math.isnan(value) else value for value in values]


def _mean(seeds: Sequence[Sequence[float]]) -> float:
    return fmean(value for peers in seeds for value in _known(peers))


def _below(mine: Sequence[Sequence[float]], other: Sequence[Sequence[float]] | None) -> str:
    if other is None:
        return "-"
    pairs = [
        (here, there)
        for peers, others in zip(mine, other, strict=True)
        for here, there in zip(_known(peers), _known(others), strict=True)
    ]
    return f"{fmean(here < there for here, there in pairs):.0%}"


def _list(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _asked(name: str, asked: str | None) -> bool:
    return asked is None or name in asked.split(",")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="where runs and generated tables lie")
    parser.add_argument("--data", action="append", default=[], metavar="SET=PATH", help="har, mnist or cifar10; repeat")
    parser.add_argument("--sets", help="data sets, with commas; all that there are data of if not given")
    parser.add_argument("--only", help="candidates, with commas; all if not given")
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    return arguments


if __name__ == "__main__":
    main()
