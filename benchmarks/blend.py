"""What `--keep blend` gains over `--keep best`, and how many peers are significantly worse than local only.

    python benchmarks/blend.py --out DIR [--har FILE.npz] [--cifar10 DIR] [--text FILE.npz] [--digits] [--seeds 3]

Peers are the 30 persons of UCI HAR, 16 peers that divide CIFAR-10 (or the digits, of scikit-learn) by classes, or the
speakers of a play with most text, who predict their next letter (arrays `text`, bytes, and `offsets`, where each
speaker's begin). One simulation of a data set, an algorithm and a seed leaves both models of each peer, and so both
rules' choices on the same test rows. A rule's peer is below local where the verdict of `dpeer worth` would be "worse".
Intervals are bootstraps over peers, each with its algorithms and seeds. The same command goes on after Ctrl-C.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import dpeer
from dpeer.federation.build import task_of
from dpeer.federation.config import resolve
from dpeer.results.effect import find_gain
from dpeer.training import Task
from dpeer.training.batch_loader import Batches
from dpeer.training.evaluation import predictions
from dpeer.training.use.blend import Blend

LENGTH, STRIDE = 16, 8
ALGORITHMS = ("dfedmdc", "dfedavgm")
COMMON: dict[str, Any] = {"body_epochs": 2, "evaluate_every": 2, "threads": 1, "keep": "blend", "alone": "always"}
BY_CLASSES = {"size": 16, "topology": "exponential", "partition": "dirichlet:0.3"}
DATA: dict[str, dict[str, Any]] = {
    "har": {"size": 30, "topology": "exponential", "task": "har", "rounds": 8},
    "cifar10": {**BY_CLASSES, "task": "cifar10", "model": "cnn", "rounds": 12},
    "text": {"size": 20, "topology": "exponential", "task": f"{__file__}:speakers", "rounds": 10},
    "digits": {**BY_CLASSES, "task": "digits", "rounds": 10},
}
OPTIONS = {"cifar10": {"train_samples": 3200, "test_samples": 4000}}


def speakers(rank: int, size: int, seed: int, *, data: str) -> Task:
    """The next letter of one of the speakers with most text: the first 60 % to train, then validation, then test."""
    found = np.load(data)
    letters, numbers = np.unique(found["text"], return_inverse=True)
    ends = np.append(found["offsets"], len(numbers))[: len(found["offsets"]) + 1]
    most = np.argsort(-np.diff(ends), kind="stable")[:size]
    own = torch.from_numpy(numbers[ends[most[rank]] : ends[most[rank] + 1]].astype(np.int64))
    rows = own.unfold(0, LENGTH + 1, STRIDE)[:800]
    first, second = int(0.6 * len(rows)), int(0.75 * len(rows))
    parts = (rows[:first], rows[first:second], rows[second:])
    train, validation, test = (TensorDataset(part[:, :-1].clone(), part[:, -1].clone()) for part in parts)
    hidden = (nn.Embedding(len(letters), 16), nn.Flatten(), nn.Linear(16 * LENGTH, 128), nn.ReLU())
    model = nn.Sequential(*hidden, nn.Linear(128, len(letters)))
    return Task(model=model, head=("4",), train=train, validation=validation, test=test)


def cell(data: str, algorithm: str, seed: int, changes: Mapping[str, Any], out: Path) -> list[dict[str, Any]]:
    """Train all peers once, and what became of each; from `out` if that was done before."""
    kept = out / f"{data}-{algorithm}-{seed}-{changes['rounds']}.json"
    if kept.exists():
        return json.loads(kept.read_text())  # type: ignore[no-any-return]
    values = {**DATA[data], **changes, **COMMON, "algorithm": algorithm, "seed": seed}
    settings = dpeer.Settings(**values, out=out / "run")
    run = dpeer.run(settings, overwrite=True)
    found = [
        {"data": data, "rank": rank, **of_peer(run.folder / f"rank-{rank}", task_of(resolve(settings, rank)))}
        for rank in range(settings.size)
    ]
    kept.write_text(json.dumps(found))
    return found


def of_peer(folder: Path, task: Task) -> dict[str, Any]:
    """Accuracy, log loss and verdict of a peer's models on its test rows."""
    blend = dpeer.load_model(folder).module
    worth = json.loads((folder / "summary.json").read_text())["worth"]
    assert isinstance(blend, Blend), worth["no_blend"]
    data = Batches("test", task.test, task.collate)
    found = {"joined": predictions(blend.members[0], data), "local": predictions(blend.members[1], data)}
    found["blend"] = predictions(blend, data)
    found["best"] = found["local" if worth["alone_validation_loss"] < worth["validation_loss"] else "joined"]
    scores = {name: one for name, one in found.items() if one is not None}
    right = {name: (one.argmax(dim=1) == targets).double().tolist() for name, (one, targets) in scores.items()}
    verdicts = {name: find_gain(of, right["local"], most_is_best=True).verdict for name, of in right.items()}
    return {
        "weight": blend.weights[0],
        "accuracy": {name: fmean(of) for name, of in right.items()},
        "loss": {name: float(cross_entropy(*one)) for name, one in scores.items()},
        "below": {name: verdict == "worse" for name, verdict in verdicts.items()},
    }


def line(name: str, found: list[dict[str, Any]]) -> str:
    """The means over peers, what the blend changes with 95 % intervals, and how many are below local by each rule."""
    rules = ("local", "joined", "best", "blend")
    figures = ", ".join(f"{rule} {fmean(one['accuracy'][rule] for one in found):.4f}" for rule in rules)
    loss = fmean(one["loss"]["best"] for one in found)
    below = ", ".join(f"{rule} {sum(one['below'][rule] for one in found)}" for rule in rules[1:])
    return (
        f"{name}: {figures}; blend less best: {change(found, 'accuracy', 100)} points; log loss {loss:.4f}, "
        f"{change(found, 'loss', 1)}; below local of {len(found)}: {below}"
    )


def change(found: list[dict[str, Any]], key: str, unit: float) -> str:
    """The mean of a figure of the blend, less that of the best, with its interval."""
    by_peer: dict[tuple[str, int], list[float]] = {}
    for one in found:
        by_peer.setdefault((one["data"], one["rank"]), []).append(unit * (one[key]["blend"] - one[key]["best"]))
    means = np.array([fmean(values) for values in by_peer.values()])
    drawn = np.random.default_rng(0).choice(means, (10_000, len(means))).mean(axis=1)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return f"{means.mean():+.3f} ({low:+.3f} to {high:+.3f})"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    for name in ("har", "cifar10", "text"):
        parser.add_argument(f"--{name}", help="the place of the data")
    parser.add_argument("--digits", action="store_true")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, help="fewer rounds, to see that it runs")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.out.mkdir(parents=True, exist_ok=True)
    given = {name: vars(arguments)[name] for name in DATA if vars(arguments)[name]}
    found: dict[str, list[dict[str, Any]]] = {}
    for seed, name, algorithm in itertools.product(range(arguments.seeds), given, ALGORITHMS):
        options = {**OPTIONS.get(name, {}), **({} if name == "digits" else {"data": given[name]})}
        changes = {"task_options": options, "rounds": arguments.rounds or DATA[name]["rounds"]}
        found.setdefault(name, []).extend(cell(name, algorithm, seed, changes, arguments.out))
    found["all"] = [*itertools.chain.from_iterable(found.values())]
    for name, peers in found.items():
        print(line(name, peers))


if __name__ == "__main__":
    main()
