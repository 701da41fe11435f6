"""A first week at eight sites: from their tables to predictions, beside the local-only model of each.

    python benchmarks/first_week.py --out DIR [--only visits,income,biopsies] [--seeds 0,1,2] [--rounds 30]

For each table of examples/tables.py, the commands of docs/first-week.md are typed as a site types them: `schema init`
at rank 0, the review (its changes stand in `REVIEWED`), `schema check` at every site, `start` in eight processes,
`predict` on new rows. Then scikit-learn's logistic regression and gradient boosting are trained at each site on the
very rows that its peer trained on, with the usual preparation, and all models answer the same new rows.

Columns: accuracy and AUROC on the new rows, mean over sites and seeds (the AUROC of the sites whose new rows have
several classes; the mean over the classes that are there, each against the rest); accuracy of the worst site, mean over
seeds; sites whose accuracy is below that of the better of the two, alone. Runs lie in --out; the same command again
makes only what is missing.
"""

from __future__ import annotations

import argparse
import csv
import json
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score
from usual_models import Rows, boosting, certain, fitted, logistic

EXAMPLE = Path(__file__).parents[1] / "examples" / "tables.py"
SITES = 8
TARGETS = {"visits": "outcome", "income": "income", "biopsies": "diagnosis"}

BIOPSIES = load_breast_cancer()

REVIEWED: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "visits": {
        "admitted": {"format": '["%Y-%m-%d", "%d.%m.%Y"]'},
        "arrival": {"values": '["ambulance", "helicopter", "police", "referral", "transfer", "walk-in"]'},
        "smoker": {"yes": '["yes", "ja", "1"]', "no": '["no", "nein", "0"]'},
        "age": {"unit": '"years"'},
        "pulse": {"unit": '"/min"'},
        "systolic": {"unit": '"mmHg"'},
        "oxygen": {"unit": '"%"'},
        "lactate": {"unit": '"mmol/l"', "range": "[0, 30]", "missing": "[-1]"},
    },
    "income": {
        "occupation": {
            "values": '["armed forces", "clerical", "craft", "farming", "fishing", "manager", "professional", "sales", '
            '"service", "technology", "transport"]'
        },
        "country": {
            "values": '["Austria", "Denmark", "France", "Germany", "Greece", "Italy", "Norway", "Poland", "Portugal", '
            '"Spain"]'
        },
        "age": {"unit": '"years"', "range": "[0, 120]"},
        "hours per week": {"unit": '"h"', "range": "[0, 168]"},
        "capital gain": {"unit": '"dollars"', "range": "[0, 1000000]"},
    },
    "biopsies": {
        str(name): {"range": f"[0, {2 * largest:.3g}]"}
        for name, largest in zip(BIOPSIES.feature_names, BIOPSIES.data.max(axis=0), strict=True)
    },
}
"""What people of all sites changed in the schema that rank 0 proposed: column, key and new value."""

ALONE = ("logistic regression, alone", "gradient boosting, alone")

FEDERATION = """size = {sites}
task = "csv"
task_options = {{ path = "tables/site-{{rank}}.csv" }}
schema = "schema.toml"
out = "week"
rounds = {rounds}
seed = {seed}
base_port = {port}
"""


class Week(NamedTuple):
    """One federation from tables to predictions, and what it took rank 0."""

    folder: Path
    target: str
    sites: int
    typed: int  # commands that one site typed
    edited: int  # lines of the schema that people changed
    seconds: Mapping[str, float]


class Score(NamedTuple):
    """How well one model does on one site's new rows."""

    accuracy: float
    auroc: float  # nan where all rows are of one class


def main() -> None:
    """Make what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="visits,income,biopsies")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--sites", type=int, choices=range(2, SITES + 1), default=SITES, help="the first ones")
    typed = parser.parse_args()
    seeds = [int(seed) for seed in typed.seeds.split(",")]
    for name in typed.only.split(","):
        weeks = [lived(name, seed, typed.rounds, typed.sites, typed.out / f"{name}-{seed}") for seed in seeds]
        scores = [scored(week) for week in weeks]
        print(f"\n{name}: one site typed {weeks[0].typed} commands; {weeks[0].edited} lines of the schema were edited")
        print(
            "seconds: " + ", ".join(f"{what} {fmean(w.seconds[what] for w in weeks):.1f}" for what in weeks[0].seconds)
        )
        print(table(scores))
        print(by_site(weeks[0], scores[0]))


def lived(name: str, seed: int, rounds: int, sites: int, folder: Path) -> Week:
    """Type what the sites type, where it has not been typed before."""
    kept, target = folder / "week.json", TARGETS[name]
    if not kept.exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, str(EXAMPLE), name, str(folder / "tables"), "--seed", str(seed)], check=True)
        seconds: dict[str, float] = {}
        types(folder, seconds, "init", [["schema", "init", "tables/site-0.csv", "--target", target, "--overwrite"]])
        edited = review(folder / "schema.toml", REVIEWED[name])
        path = folder / "federation.toml"
        path.write_text(FEDERATION.format(sites=sites, rounds=rounds, seed=seed, port=free_ports()), encoding="utf-8")
        checks = [["schema", "check", f"tables/site-{rank}.csv", "--schema", "schema.toml"] for rank in range(sites)]
        types(folder, seconds, "check", checks, share=sites)
        start = ["start", "--federation", "federation.toml", "--overwrite", "--rank"]
        types(folder, seconds, "start", [[*start, str(rank)] for rank in range(sites)], together=True)
        types(folder, seconds, "predict", [predicting("week", rank) for rank in range(sites)], share=sites)
        same = round(gradients(folder / "week"))
        alone = ["simulate", "--federation", "federation.toml", "--algorithm", "local", "--out", "alone", "--overwrite"]
        types(folder, {}, "alone", [[*alone, "--body-epochs", str(same)]])
        types(folder, {}, "alone", [predicting("alone", rank) for rank in range(sites)])
        kept.write_text(json.dumps({"typed": 4, "edited": edited, "seconds": seconds}), encoding="utf-8")
    return Week(folder, target, sites, **json.loads(kept.read_text(encoding="utf-8")))


def types(
    folder: Path,
    seconds: dict[str, float],
    what: str,
    commands: Sequence[Sequence[str]],
    *,
    share: int = 1,
    together: bool = False,
) -> None:
    """Run dpeer's commands one after another, or at once, and keep the time that one site waits."""
    began = time.perf_counter()
    log = (folder / f"{what}.log").open("w", encoding="utf-8")
    running = []
    for command in commands:
        process = subprocess.Popen([sys.executable, "-m", "dpeer", *command], cwd=folder, stdout=log, stderr=log)
        running.append(process)
        if not together:
            process.wait()
    codes = [process.wait() for process in running]
    if any(codes):
        raise SystemExit(f"{what} failed: {folder / what}.log says why")
    seconds[what] = (time.perf_counter() - began) / share


def predicting(out: str, rank: int) -> list[str]:
    """The command that says what a rank's model thinks of its new rows."""
    return [
        "predict",
        "--run",
        f"{out}/rank-{rank}",
        "--input",
        f"tables/new-{rank}.csv",
        "--output",
        f"{out}-{rank}.csv",
    ]


def review(path: Path, changes: Mapping[str, Mapping[str, str]]) -> int:
    """Change keys of columns in a schema, as an editor would; the number of lines that changed."""
    lines, left, column = path.read_text(encoding="utf-8").splitlines(), 0, ""
    missing = {(column, key): value for column, keys in changes.items() for key, value in keys.items()}
    found: list[str] = []
    for line in [*lines, "["]:
        if line.startswith("["):
            added = [key for where, key in missing if where == column]
            found[len(found) - 1 : len(found) - 1] = [f"{key} = {missing.pop((column, key))}" for key in added]
            left += len(added)
            column = line.removeprefix("[columns.").removesuffix("]").strip('"')
        key = line.partition(" =")[0]
        if (column, key) in missing:
            line, left = f"{key} = {missing.pop((column, key))}", left + 1
        found.append(line)
    if missing:
        raise SystemExit(f"{path} has no {sorted(missing)}")
    path.write_text("\n".join(found[:-1]) + "\n", encoding="utf-8")
    return left


def free_ports() -> int:
    """The first of consecutive free ports, one for each site."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return min(int(probe.getsockname()[1]), 65_535 - SITES)


def gradients(run: Path) -> float:
    """How often a round took the gradient of each training row, at rank 0."""
    with (run / "rank-0" / "metrics.jsonl").open(encoding="utf-8") as lines:
        first = json.loads(next(lines))
    held = json.loads((run / "rank-0" / "partition.json").read_text(encoding="utf-8"))
    return float(first["samples"]) / len(held["train"])


def scored(week: Week) -> dict[str, list[Score]]:
    """The models' scores, each by site."""
    scores: dict[str, list[Score]] = {}
    parts = [sites_rows(week, rank) for rank in range(week.sites)]
    classes = sorted({row[week.target] for train, _, _ in parts for row in train})
    pooled = [row for train, _, _ in parts for row in train]
    for rank, (train, new, answers) in enumerate(parts):
        frequent = max(classes, key=[row[week.target] for row in train].count)
        found = {
            "most frequent class": certain(frequent, classes, len(new)),
            ALONE[0]: fitted(logistic(), train, new, week.target, classes),
            ALONE[1]: fitted(boosting(), train, new, week.target, classes),
            "dpeer, alone (`local`)": predicted(week.folder / f"alone-{rank}.csv", classes),
            "**dpeer, together**": predicted(week.folder / f"week-{rank}.csv", classes),
            "logistic regression, all rows in one place": fitted(logistic(), pooled, new, week.target, classes),
            "gradient boosting, all rows in one place": fitted(boosting(), pooled, new, week.target, classes),
        }
        for model, probabilities in found.items():
            scores.setdefault(model, []).append(score(probabilities, answers, classes))
    return scores


def sites_rows(week: Week, rank: int) -> tuple[Rows, Rows, list[str]]:
    """The rows that a site's peer trained on, the new ones, and the answers to those."""
    labelled = read(week.folder / "tables" / f"site-{rank}.csv")
    held = json.loads((week.folder / "week" / f"rank-{rank}" / "partition.json").read_text(encoding="utf-8"))
    train = [labelled[place] for place in held["train"]]
    answers = [row[week.target] for row in read(week.folder / "tables" / f"answers-{rank}.csv")]
    return train, read(week.folder / "tables" / f"new-{rank}.csv"), answers


def read(path: Path) -> Rows:
    """A csv file's rows."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def predicted(path: Path, classes: Sequence[str]) -> np.ndarray:
    """The probabilities in a file that `dpeer predict` wrote: (rows, classes)."""
    return np.array([[float(row.get(f"probability_{name}", 0)) for name in classes] for row in read(path)])


def score(probabilities: np.ndarray, answers: Sequence[str], classes: Sequence[str]) -> Score:
    """Accuracy, and the AUROC of each class that is there against the rest, their mean."""
    right = np.array([classes[place] for place in probabilities.argmax(axis=1)]) == np.array(answers)
    there = [name for name in classes if 0 < answers.count(name) < len(answers)]
    areas = [roc_auc_score(np.array(answers) == name, probabilities[:, classes.index(name)]) for name in there]
    return Score(float(right.mean()), fmean(areas) if areas else float("nan"))


def table(seeds: Sequence[Mapping[str, Sequence[Score]]]) -> str:
    """One line for each model, over sites and seeds."""
    lines = ["| model | accuracy | AUROC | worst site | sites below the better of the two |", "|---|---|---|---|---|"]
    for model in seeds[0]:
        runs = [seed[model] for seed in seeds]
        areas = [site.auroc for run in runs for site in run if site.auroc == site.auroc]
        mean = fmean(site.accuracy for run in runs for site in run)
        worst = fmean(min(site.accuracy for site in run) for run in runs)
        better = [
            [max(pair) for pair in zip(*([site.accuracy for site in seed[name]] for name in ALONE), strict=True)]
            for seed in seeds
        ]
        pairs = [zip(run, alone, strict=True) for run, alone in zip(runs, better, strict=True)]
        below = sum(site.accuracy < alone for sites in pairs for site, alone in sites)
        lines.append(f"| {model} | {mean:.3f} | {fmean(areas):.3f} | {worst:.3f} | {below} of {sum(map(len, runs))} |")
    return "\n".join(lines)


def by_site(week: Week, scores: Mapping[str, Sequence[Score]]) -> str:
    """The accuracy of each model at each site, of one seed."""
    counts = [len(sites_rows(week, rank)[0]) for rank in range(week.sites)]
    lines = ["| rank (training rows) | " + " | ".join(f"{n} ({rows})" for n, rows in enumerate(counts)) + " |"]
    lines.append("|---" * (week.sites + 1) + "|")
    for model, sites in scores.items():
        lines.append(f"| {model} | " + " | ".join(f"{site.accuracy:.3f}" for site in sites) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
