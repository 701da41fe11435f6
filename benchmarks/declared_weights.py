"""What weights by rows do to large and small sites: metropolis beside declared, and each site alone.

    python benchmarks/declared_weights.py [--data FILE.npz] [--seeds 3] [--out FOLDER]

Eight sites on the graph `exponential` have from 51.7 % down to 0.6 % of the training rows, and class shares of their
own (Dirichlet, 0.5). Each is tested on 200 rows of held-out ones, drawn with its class shares. Data: the digits of
scikit-learn (a third is held out), or x (rows, ...), y (rows,) and is_test (rows,) of a file. The table has the mean
accuracy by rows, the mean by sites, and the worst site, in percent: mean and standard deviation over the seeds. A run
that is done in the folder is not made again.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import TensorDataset

import dpeer
from dpeer.exceptions import DpeerError

SHARES = np.array([51.7, 18.0, 11.0, 7.6, 5.0, 3.5, 2.6, 0.6]) / 100
TEST_ROWS, SPARE = 200, 0.2
"""Rows of each site's test; the share of all training rows that no site has, so that class shares can be met."""
RUNS = [("local", False), ("dfedavgm", False), ("dfedavgm", True), ("dfedmdc", False), ("dfedmdc", True)]
"""Algorithms, and whether weights are declared."""

Rows = tuple[np.ndarray, np.ndarray]
Sites = list[tuple[Rows, Rows]]


def read(file: Path | None) -> tuple[Rows, Rows]:
    """Training and held-out rows: inputs (rows, width), standardized, and classes (rows,)."""
    if file is None:
        from sklearn.datasets import load_digits

        x, y = load_digits(return_X_y=True)
        held_out = np.random.default_rng(0).random(len(y)) < 1 / 3
    else:
        with np.load(file) as found:
            x, y, held_out = found["x"], found["y"], found["is_test"].astype(bool)
    x, y = x.reshape(len(x), -1).astype(np.float32), np.unique(y, return_inverse=True)[1]
    x = (x - x[~held_out].mean(axis=0)) / (x[~held_out].std(axis=0) + 1e-3)
    return (x[~held_out], y[~held_out]), (x[held_out], y[held_out])


def divided(rows: tuple[Rows, Rows], seed: int) -> Sites:
    """By site its training rows and its test rows."""
    random, ((x, y), (test_x, test_y)) = np.random.default_rng(seed), rows
    free, sites = np.arange(len(y)), []
    for count in np.maximum(4, np.round(SHARES * (1 - SPARE) * len(y))).astype(int):
        mix = random.dirichlet(np.full(y.max() + 1, 0.5)) + 1e-3
        chance, held = ((mix / np.bincount(among, minlength=len(mix)).clip(1))[among] for among in (y[free], test_y))
        own = random.choice(free, count, replace=False, p=chance / chance.sum())
        drawn = random.choice(len(test_y), TEST_ROWS, p=held / held.sum())
        sites.append(((x[own], y[own]), (test_x[drawn], test_y[drawn])))
        free = np.setdiff1d(free, own)
    return sites


def task_of(sites: Sites, rank: int, size: int, seed: int) -> dpeer.Task:
    """A site's task: an MLP whose last layer is the head."""
    torch.manual_seed(seed)
    width, classes = sites[0][0][0].shape[1], 1 + max(int(test[1].max()) for _, test in sites)
    model = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, classes))
    train, test = (TensorDataset(*map(torch.from_numpy, part)) for part in sites[rank])
    return dpeer.Task(model=model, head=("4",), train=train, test=test)


def accuracies(sites: Sites, algorithm: str, weights: str, seed: int, out: Path, rounds: int) -> list[float]:
    """Each site's accuracy after the last round, in percent."""
    try:
        summary = dpeer.open_run(out).summary
    except DpeerError:
        summary = {}
    task: Any = partial(task_of, sites)
    if (summary.get("status"), summary.get("rounds")) != ("done", rounds):
        settings = dpeer.Settings(
            size=len(sites), topology="exponential", weights=weights, algorithm=algorithm, rounds=rounds, seed=seed,
            task=task, keep="last", alone="never", evaluate_every=rounds, out=out,
        )  # fmt: skip
        summary = dpeer.run(settings, mode="simulate", overwrite=True).summary
    return [100 * one for one in summary["accuracy"]]


def main() -> None:
    """Make the runs that are missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="an npz file with x, y and is_test in place of the digits")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path("declared-weights"))
    given = parser.parse_args()
    rows, name = read(given.data), "digits" if given.data is None else given.data.stem
    print(f"{name}, {len(rows[0][1])} training rows: accuracy in percent, {given.seeds} seeds")
    print(f"{'':22}{'by rows':>14}{'by sites':>14}{'worst site':>14}")
    for algorithm, declared in RUNS:
        lines = []
        for seed in range(given.seeds):
            sites = divided(rows, seed)
            counts = [len(train[1]) for train, _ in sites]
            weights = f"declared:{','.join(map(str, counts))}" if declared else "metropolis"
            out = given.out / f"{name}-{algorithm}{'-declared' if declared else ''}-{seed}"
            found = accuracies(sites, algorithm, weights, seed, out, given.rounds)
            lines.append((fmean(found, counts), fmean(found), min(found)))
        each = [f"{fmean(one):.1f} +- {stdev(one) if len(one) > 1 else 0:.1f}" for one in zip(*lines, strict=True)]
        print(f"{algorithm + (' declared' if declared else ''):22}{''.join(f'{one:>14}' for one in each)}", flush=True)


if __name__ == "__main__":
    main()
