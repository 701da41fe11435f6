"""Accuracy against epsilon, as a picture and a table, from the results of the privacy comparisons.

    python benchmarks/privacy_figure.py TITLE=DIR [TITLE=DIR ...] --out docs/privacy.svg

Each DIR is the --out of `dpeer compare examples/experiments/privacy-*.toml`. Means over peers and seeds, of the last
round; the table is printed as Markdown, with the standard deviation over seeds.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

BODIES = {"large": "#1f5fa8", "small-body": "#c25a12"}
ALONE = "no epsilon"
Found = dict[tuple[str, str, str, str], list[tuple[float, float]]]


def read(folder: Path) -> Found:
    """Accuracy after and before mixing of each seed, by (body, algorithm, adversary, epsilon)."""
    found: Found = defaultdict(list)
    for path in sorted(folder.glob("*/summary.json")):
        run: dict[str, Any] = json.loads(path.read_text())
        settings = run["settings"]
        private = settings["privacy"] == "client"
        key = (
            "small-body" if settings["model"] == "small-body" else "large",
            run["algorithm"],
            settings["dp_adversary"] if private else "",
            "0" if run["algorithm"] == "local" else f"{settings['target_epsilon']:g}" if private else ALONE,
        )
        found[key].append((run.get("accuracy_mixed_mean", run["accuracy_mean"]), run["accuracy_trained_mean"]))
    return found


def table(title: str, found: Found) -> None:
    """Print it."""
    print(f"\n**{title}**\n\n| body | algorithm | epsilon | holds against | after mixing | before mixing |")
    print("|---|---|---|---|---|---|")
    for (body, algorithm, adversary, epsilon), values in sorted(found.items(), key=_order):
        cells = [f"{fmean(column):.3f} ± {stdev(column):.3f}" for column in zip(*values, strict=True)]
        against = {"": "-", "neighbor": "a neighbor", "aggregate": "an outsider"}[adversary]
        print(f"| {body} | `{algorithm}` | {epsilon} | {against} | {cells[0]} | {cells[1]} |")


def _order(entry: tuple[tuple[str, str, str, str], Any]) -> tuple[Any, ...]:
    (body, algorithm, adversary, epsilon), _ = entry
    number = float("inf") if epsilon == ALONE else float(epsilon)
    return body, algorithm != "local", algorithm, adversary, -number


def draw(everything: dict[str, Found], out: Path) -> None:
    """One panel a data set: dfedmdc against a neighbor as lines, aggregate as squares, local as dashes."""
    mpl.rcParams["svg.hashsalt"] = "dpeer"
    figure = Figure(figsize=(4.6 * len(everything), 3.6), layout="constrained")
    panels = figure.subplots(1, len(everything), squeeze=False)[0]
    for panel, (title, found) in zip(panels, everything.items(), strict=True):
        epsilons = sorted({float(key[3]) for key in found if key[1] == "dfedmdc" and key[2] == "neighbor"})
        places = [*range(len(epsilons)), len(epsilons)]
        for body, color in BODIES.items():
            heights = [_mean(found, body, "neighbor", f"{epsilon:g}") for epsilon in epsilons] + [
                _mean(found, body, "", ALONE)
            ]
            panel.plot(places, heights, "o-", color=color, label=f"dfedmdc, {body}, against a neighbor")
            squares = [(i, e) for i, e in enumerate(epsilons) if (body, "dfedmdc", "aggregate", f"{e:g}") in found]
            panel.plot(
                [i for i, _ in squares], [_mean(found, body, "aggregate", f"{e:g}") for _, e in squares], "s",
                color=color, markerfacecolor="white", markersize=8, label="the same, against an outsider only",
            )  # fmt: skip
            alone = fmean(value for value, _ in found[body, "local", "", "0"])
            panel.axhline(alone, linestyle="--", linewidth=1, color=color, label=f"local, {body} (epsilon 0)")
        panel.set_xticks(places, [*(f"{epsilon:g}" for epsilon in epsilons), "none"])
        panel.set_xlabel("epsilon (smaller is more private)")
        panel.set_title(title, fontsize=11)
        panel.grid(axis="y", linewidth=0.4)
    panels[0].set_ylabel("mean accuracy after mixing")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(panels), fontsize=8, frameon=False)
    figure.savefig(out, metadata={"Date": None} if out.suffix == ".svg" else None)


def _mean(found: Found, body: str, adversary: str, epsilon: str) -> float:
    return fmean(after for after, _ in found[body, "dfedmdc", adversary, epsilon])


def main() -> None:
    """Read, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="+", metavar="TITLE=DIR")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    everything = {}
    for given in arguments.folders:
        title, _, folder = given.partition("=")
        everything[title] = read(Path(folder))
        table(title, everything[title])
    draw(everything, arguments.out)


if __name__ == "__main__":
    main()
