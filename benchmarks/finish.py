"""Accuracy of the model that is kept: the last mixed one, a fine-tuned one (--finish) or the best one (--keep best).

    python benchmarks/finish.py --out DIR [--data har=FILE.npz --data mnist=FILE.npz --data cifar10=DIR]
        [--sets digits,har] [--algorithms local,dfedmdc] [--seeds 0,1,2] [--jobs 2] [--show]

Every run is trained once, with the settings that are defaults but for the rounds; a tenth of the training samples is
held out as validation data. Then each way to finish starts from the checkpoint of its last round. A last part of one
round more, without finishing, costs as much as finishing does or more (an epoch of the whole model is at most one of
the round's five): that is the comparison at equal compute. Dis-PFL cannot be continued: for it the run is made again
with one round more. Data sets for which no --data is given are left out; digits need none.

Results are lines of DIR/finish.jsonl: the same command again makes only what is missing, also after Ctrl-C; --show
makes none. Figures are means over the peers and the seeds of the accuracy on each peer's own test data.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import dpeer
from dpeer.federation.build import build
from dpeer.federation.config import resolve
from dpeer.peer.checkpoint import learner_folder
from dpeer.results.files import rank_folder
from dpeer.training.state.file_names import REST

ALGORITHMS = ("local", "dfedavgm", "dfedmdc", "dfedsmdc", "fedrod", "ditto", "fedbabu", "dis-pfl")
WAYS = ("head:1", "head:5", "all:1", "all:5")
SETS: Mapping[str, Mapping[str, Any]] = {
    "digits": {"size": 8, "rounds": 10, "topology": "ring"},
    "har": {"size": 30, "rounds": 8, "topology": "exponential", "partition": "subject"},
    "mnist": {"size": 20, "rounds": 6, "topology": "exponential", "partition": "writer"},
    "cifar10": {"size": 8, "rounds": 10, "topology": "exponential", "partition": "dirichlet:0.3"},
}
SAMPLES: Mapping[str, Mapping[str, int]] = {
    "mnist": {"train_samples": 7500, "test_samples": 2500},
    "cifar10": {"train_samples": 4000, "test_samples": 4000},
}
COLUMNS = {
    "trained": "before mixing", "none": "none", "more": "none, a round more", **{way: way for way in WAYS},
    "best": "best, none", "best head:5": "best, head:5", "best all:5": "best, all:5",
}  # fmt: skip
"""What is measured, and the heading of its column."""


def main() -> None:
    """Make what is missing, and print a table for each data set and one of all."""
    arguments = _arguments()
    data = dict(text.split("=", 1) for text in arguments.data)
    sets = [name for name in arguments.sets.split(",") if name == "digits" or name in data or arguments.show]
    algorithms, seeds = arguments.algorithms.split(","), [int(seed) for seed in arguments.seeds.split(",")]
    lines = arguments.out / "finish.jsonl"
    arguments.out.mkdir(parents=True, exist_ok=True)
    found = _read(lines)
    cells = [(name, algorithm, seed) for seed in seeds for name in sets for algorithm in algorithms]
    missing = [] if arguments.show else [cell for cell in cells if found.get(cell, {}).keys() < COLUMNS.keys()]
    jobs = [(cell, data.get(cell[0]), arguments.out, arguments.rounds) for cell in missing]
    with get_context("spawn").Pool(arguments.jobs, maxtasksperchild=4) as pool:
        for number, (cell, line) in enumerate(pool.imap_unordered(_measured, jobs), 1):
            found[cell] = line
            name, algorithm, seed = cell
            with lines.open("a") as file:
                file.write(json.dumps({"set": name, "algorithm": algorithm, "seed": seed, **line}) + "\n")
            print(f"{number} of {len(missing)}: {name}, {algorithm}, seed {seed}", flush=True)
    print()
    for name in sets:
        _print(name, algorithms, {cell: found[cell] for cell in cells if cell in found and cell[0] == name})
    _print_gains(sets, algorithms, {cell: found[cell] for cell in cells if cell in found})


def _measured(
    job: tuple[tuple[str, str, int], str | None, Path, int | None],
) -> tuple[tuple[str, str, int], dict[str, float]]:
    cell, data, out, rounds = job
    return cell, measure(*cell, data, out, rounds)


def measure(
    name: str, algorithm: str, seed: int, data: str | None, out: Path, rounds: int | None = None
) -> dict[str, float]:
    """Train one run, finish it in every way, and train it a round more: mean accuracy over the peers by column."""
    folder = out / f"{name}-{algorithm}-{seed}"
    options = {"data": data, **SAMPLES.get(name, {})} if data else {}
    values = {
        "task": name, "task_options": options, "algorithm": algorithm, "seed": seed, "workers": 1, "validation": 0.1,
        "keep": "best", "finish": "none", "log_level": "error", "out": folder, "alone": "never",
        **SETS[name], **({"rounds": rounds} if rounds else {}),
    }  # fmt: skip
    settings = dpeer.Settings(**values)
    run = dpeer.run(settings, overwrite=True)
    last = [run.metrics(rank)[-1] for rank in range(settings.size)]
    found = {
        "trained": _mean(line["accuracy_trained"] for line in last),
        "none": _mean(line["accuracy"] for line in last),
        "best": _mean(run.summary["accuracy"]),
    }
    for way in WAYS:
        finished = [_finished(settings.model_copy(update={"finish": way}), rank) for rank in range(settings.size)]
        found[way] = _mean(one for one, _ in finished)
        if way.endswith(":5"):
            found[f"best {way}"] = _mean(best for _, best in finished)
    more = dpeer.Settings(**values | {"rounds": settings.rounds + 1})
    again = algorithm == "dis-pfl"
    longer = dpeer.run(more, resume=not again, overwrite=again)
    # Not of the summary, whose accuracy is that of the best round.
    found["more"] = _mean(longer.metrics(rank)[-1]["accuracy"] for rank in range(settings.size))
    shutil.rmtree(folder)
    return found


def _finished(settings: dpeer.Settings, rank: int) -> tuple[float, float]:
    """The accuracy of a peer's finished model, and of the best one by validation data, the finished one included."""
    learner = build(resolve(settings.of_rank(rank), rank), resume=True).learner
    checkpoint = learner_folder(rank_folder(settings.out, rank))
    assert checkpoint is not None
    with tempfile.TemporaryDirectory(prefix="dpeer-benchmark-") as copied:
        shutil.copytree(checkpoint, copied, dirs_exist_ok=True)
        rest = json.loads((Path(copied) / REST).read_text())
        rest["finish"] = settings.finish  # else a run that has ended is not resumed with another fine-tuning
        (Path(copied) / REST).write_text(json.dumps(rest))
        learner.load(Path(copied))
    after = learner.fine_tune(settings.rounds - 1)
    best, _ = learner.rows()
    assert after is not None
    assert after.accuracy is not None
    assert best.accuracy is not None
    return after.accuracy, best.accuracy


def _mean(values: Any) -> float:
    return fmean(value for value in values)


def _read(path: Path) -> dict[tuple[str, str, int], dict[str, float]]:
    if not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {(line.pop("set"), line.pop("algorithm"), line.pop("seed")): line for line in lines}


def _print(name: str, algorithms: Sequence[str], found: Mapping[tuple[str, str, int], Mapping[str, float]]) -> None:
    print(f"{name}, {len({seed for *_, seed in found})} seeds\n")
    print(f"| | {' | '.join(COLUMNS.values())} |\n|---|{'---:|' * len(COLUMNS)}")
    for algorithm in algorithms:
        own = [line for (_, one, _), line in found.items() if one == algorithm]
        if own:
            lines = [[line[column] for line in own if column in line] for column in COLUMNS]
            cells = [f"{fmean(values):.4f}" if values else "-" for values in lines]
            print(f"| {algorithm} | {' | '.join(cells)} |")
    print()


def _print_gains(
    sets: Sequence[str], algorithms: Sequence[str], found: Mapping[tuple[str, str, int], Mapping[str, float]]
) -> None:
    """Differences to a round more without finishing: mean and standard error over data sets and seeds."""
    columns = [column for column in COLUMNS if column != "more"]
    print(f"difference to a round more without finishing, over all runs of {', '.join(sets)}\n")
    print(f"| | {' | '.join(COLUMNS[column] for column in columns)} |\n|---|{'---:|' * len(columns)}")
    for algorithm in algorithms:
        own = [line for (_, one, _), line in found.items() if one == algorithm and "more" in line]
        if len(own) < 2:
            continue
        cells = []
        for column in columns:
            gains = [line[column] - line["more"] for line in own]
            cells.append(f"{fmean(gains):+.4f} ± {stdev(gains) / len(gains) ** 0.5:.4f}")
        print(f"| {algorithm} | {' | '.join(cells)} |")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("finish"))
    parser.add_argument("--data", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rounds", type=int, help="in place of each data set's own")
    parser.add_argument("--show", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
