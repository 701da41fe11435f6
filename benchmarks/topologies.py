"""Accuracy and disagreement on the digits by round and by bytes for eight graphs: see docs/results-algorithms.md.

    python benchmarks/topologies.py [--seeds 0-2] [--rounds 30] [--size 16] [--figure FILE.png]

Every cell is a simulation with the default settings. Results are kept in --out, so a second call, or one after an
interruption, computes only what is missing. The figure needs matplotlib (pip install 'dpeer[plot]').
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from dpeer.federation.settings import Settings
from dpeer.federation.view import Silent
from dpeer.peer.checkpoint import learner_folder
from dpeer.results.files import rank_folder
from dpeer.simulation.run import peer_configs
from dpeer.simulation.simulation import Simulation
from dpeer.training.state.file_names import saved_body

TOPOLOGIES = (
    "ring", "grid", "star", "random-matching", "one-peer-exponential", "fresh-neighbors", "exponential", "full",
)  # fmt: skip

REACHED = 0.97

# Okabe and Ito's colors, which people with any color vision can tell apart; dashes where the graph changes.
STYLES = {
    "ring": ("#E69F00", "-", "o"),
    "grid": ("#56B4E9", "-", "s"),
    "star": ("#999999", "-", "*"),
    "random-matching": ("#CC79A7", "--", "v"),
    "one-peer-exponential": ("#D55E00", "--", "^"),
    "fresh-neighbors": ("#009E73", "--", "D"),
    "exponential": ("#0072B2", "-", "P"),
    "full": ("#000000", "-", "X"),
}


class Watch(Silent):
    """A view that looks at all peers' bodies after every round."""

    def __init__(self, out: Path, size: int) -> None:
        self._out, self._size = out, size
        self._bodies: dict[int, list[np.ndarray]] = defaultdict(list)
        self._entries: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
        self.rounds: list[dict[str, float]] = []

    def record(self, rank: int, entry: Mapping[str, Any]) -> None:
        """Take the body from the checkpoint, which is of this very round as long as this call lasts."""
        number = entry["round"]
        learner = learner_folder(rank_folder(self._out, rank))
        body = None if learner is None else saved_body(learner)
        assert body is not None
        self._bodies[number].append(body.astype(np.float64))
        self._entries[number].append(entry)
        if len(self._bodies[number]) == self._size:
            bodies, entries = np.stack(self._bodies.pop(number)), self._entries.pop(number)
            distances = np.square(bodies - bodies.mean(axis=0)).sum(axis=1)
            self.rounds.append({
                "accuracy": fmean(entry["accuracy"] for entry in entries),
                "disagreement": float(np.sqrt(distances.mean())),
                "bytes_sent": fmean(entry["bytes_sent"] for entry in entries),
            })  # fmt: skip


def main() -> None:
    """Run what is missing, draw the figure and print the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", default="0-2", help="FIRST-LAST")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--algorithm", default="dfedsmdc")
    parser.add_argument("--body-epochs", type=int, default=5)
    parser.add_argument("--partition", default="dirichlet:0.3")
    parser.add_argument("--out", type=Path, default=Path("dpeer-run-topologies"))
    parser.add_argument("--figure", type=Path, default=Path("topologies-digits.png"))
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)

    means = {}
    for topology in TOPOLOGIES:
        runs = [_cell(arguments, topology, seed) for seed in seeds]
        means[topology] = {key: np.mean([[one[key] for one in run] for run in runs], axis=0) for key in runs[0][0]}
    _table(means)
    _figure(means, arguments)


def _cell(arguments: argparse.Namespace, topology: str, seed: int) -> list[dict[str, float]]:
    epochs = "" if arguments.body_epochs == 5 else f"-{arguments.body_epochs}"
    name = f"{arguments.algorithm}{epochs}-{arguments.partition}-{arguments.size}-{arguments.rounds}-{topology}-{seed}"
    result, out = arguments.out / f"{name}.json", arguments.out / name
    if not result.exists():
        print(f"running {topology}, seed {seed}", file=sys.stderr)
        shutil.rmtree(out, ignore_errors=True)
        settings = Settings(
            size=arguments.size, topology=topology, rounds=arguments.rounds, seed=seed, graph_seed=seed, out=out,
            algorithm=arguments.algorithm, partition=arguments.partition, log_level="warning",
            body_epochs=arguments.body_epochs,
            grad_clip=None,  # as when the table of docs/results-algorithms.md was made
        )  # fmt: skip
        watch = Watch(out, arguments.size)
        asyncio.run(Simulation(peer_configs(settings), watch, resume=False).run())
        result.write_text(json.dumps(watch.rounds))
        shutil.rmtree(out)
    content: list[dict[str, float]] = json.loads(result.read_text())
    return content


def _table(means: Mapping[str, Mapping[str, np.ndarray]]) -> None:
    rounds = len(next(iter(means.values()))["accuracy"])
    third = rounds // 3
    print(
        f"| graph | sent per peer and round | accuracy after {third} rounds | after {rounds} | disagreement then "
        f"| first at {REACHED} | sent until then |"
    )
    print("|---" * 7 + "|")
    for topology, mean in sorted(means.items(), key=lambda item: item[1]["bytes_sent"].sum()):
        accuracy = mean["accuracy"]
        print(
            f"| {topology} | {mean['bytes_sent'].mean() / 1e3:.0f} kB | {accuracy[third - 1]:.4f} | {accuracy[-1]:.4f} "
            f"| {mean['disagreement'][-1]:.3f} | {_reached(mean)} |"
        )


def _reached(mean: Mapping[str, np.ndarray]) -> str:
    """After which round, and how many bytes a peer, the accuracy was first REACHED."""
    there = np.flatnonzero(mean["accuracy"] >= REACHED)
    if not len(there):
        return "- | -"
    return f"round {there[0] + 1} | {np.cumsum(mean['bytes_sent'])[there[0]] / 1e6:.1f} MB"


def _label(topology: str, mean: Mapping[str, np.ndarray]) -> str:
    """A logarithmic axis has no place for 0."""
    return f"{topology} (disagreement 0)" if mean["disagreement"].max() == 0.0 else topology


def _figure(means: Mapping[str, Mapping[str, np.ndarray]], arguments: argparse.Namespace) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(11, 8), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, 2, sharey="row", sharex="col")
    for topology, mean in means.items():
        color, line, marker = STYLES[topology]
        rounds = np.arange(1, len(mean["accuracy"]) + 1)
        sent = np.cumsum(mean["bytes_sent"]) / 1e6
        for column, x in enumerate((rounds, sent)):
            for row, key in enumerate(("accuracy", "disagreement")):
                panels[row, column].plot(
                    x, mean[key], color=color, linestyle=line, marker=marker, markersize=4, linewidth=1.4,
                    markevery=max(1, len(rounds) // 10), label=_label(topology, mean),
                )  # fmt: skip
    panels[0, 0].set_ylabel("mean accuracy on each peer's own test data")
    panels[1, 0].set_ylabel("disagreement: root mean square distance\nof the bodies from their mean")
    panels[1, 0].set_xlabel("round")
    panels[1, 1].set_xlabel("MB sent by a peer, on average")
    panels[1, 0].set_yscale("log")
    panels[0, 1].set_xscale("log")
    # The first rounds climb from chance everywhere; what tells graphs apart is what comes then.
    panels[0, 0].set_ylim(
        bottom=min(float(mean["accuracy"][min(2, len(mean["accuracy"]) - 1)]) for mean in means.values())
    )
    panels[0, 1].xaxis.set_major_formatter("{x:g}")
    panels[0, 0].xaxis.set_major_locator(MaxNLocator(integer=True))
    for panel in panels.flat:
        panel.grid(alpha=0.3)
    panels[0, 0].legend(fontsize=9, ncols=2, loc="lower right")
    figure.suptitle(f"digits, {arguments.size} peers, {arguments.algorithm}, {arguments.partition}")
    figure.savefig(arguments.figure, dpi=130)
    print(f"figure: {arguments.figure}", file=sys.stderr)


if __name__ == "__main__":
    main()
