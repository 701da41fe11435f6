"""How often a site's verdict on joining is true, held against rows that were kept from all sites.

    python benchmarks/verdicts.py [--har uci_har_f16.npz] [--seeds 0 1 2 3 4] [--sites 8] [--json] [-- FLAGS...]

Each seed draws the sites' data anew, and `dpeer simulate --alone never --baseline local FLAGS` trains them together and
alone. A site has few rows of its own, as its verdict is made of, and many more that neither model has seen: on these
the gain is measured again, which is taken for the truth. Three kinds of data:

    alike     a table: 12 columns, two classes, one rule for all sites and little beside it
    unlike    the same, but each site's own part of the rule is as large as the common one
    har       signals of three persons a site (UCI HAR, in the file that is named): whole stretches are kept apart

By kind, over all sites and seeds:

    covers      sites whose 95 % interval has the true gain in it; HAR's truth is itself of some 400 rows, so its own
                error is added to the interval in squares
    sign        of the sites whose true gain is more than its error away from 0 and whose own gain is not 0: those
                whose own gain has the true one's sign
    improved    verdicts that joining improved the model, and of these the ones whose true gain is positive
    alone       verdicts that it is worse than local only, and of these the ones whose true gain is negative
    below       sites whose whole interval lies below 0, and of these the ones that get a warning
    gain, true  the means over all sites
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dpeer.results.effect import closing_lines, effect_of

TASK = Path(__file__).parent / "examples" / "sites.py"
COLUMNS, TRAINED, TESTED, KEPT = 12, 160, 80, 4000
PERSONS = 3
PARTS = (0.4, 0.2)
"""Of each activity's windows: to train, to test; the rest is kept from all."""

Arrays = dict[str, np.ndarray]


def table(sites: int, seed: int, effect: float) -> tuple[Arrays, list[tuple[np.ndarray, np.ndarray]]]:
    """What a file of the sites holds, and each site's rows that are kept from all.

    Args:
        sites: How many.
        seed: Of the rows and the rule.
        effect: The size of a site's own part of the rule; that of the common one is 1.
    """
    rng = np.random.default_rng((seed, 1))
    common, pairs = rng.normal(size=COLUMNS), rng.normal(size=(COLUMNS, COLUMNS)) / 2
    arrays: Arrays = {"classes": np.array(2)}
    kept = []
    for site in range(sites):
        own = rng.normal(size=COLUMNS) * effect
        x = rng.normal(size=(TRAINED + TESTED + KEPT, COLUMNS)).astype(np.float32)
        score = (x @ (common + own) + np.einsum("ij,jk,ik->i", x, pairs, x) / math.sqrt(COLUMNS)) / math.sqrt(COLUMNS)
        y = (rng.random(len(x)) < 1 / (1 + np.exp(-3 * score))).astype(np.int64)
        kept.append((x[TRAINED + TESTED :], y[TRAINED + TESTED :]))
        arrays |= _of_site(
            site, (x[:TRAINED], y[:TRAINED]), (x[TRAINED : TRAINED + TESTED], y[TRAINED : TRAINED + TESTED])
        )
    return arrays, kept


def har(sites: int, seed: int, path: Path) -> tuple[Arrays, list[tuple[np.ndarray, np.ndarray]]]:
    """The same of UCI HAR: the seed draws whose signals are a site's, and which stretches it trains on."""
    with np.load(path) as file:
        signals, labels, subject = file["x"].astype(np.float32).transpose(0, 2, 1), file["y"], file["subject"]
    labels = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    rng = np.random.default_rng((seed, 2))
    persons = rng.permutation(np.unique(subject))[: sites * PERSONS].reshape(sites, PERSONS)
    arrays: Arrays = {"classes": np.array(labels.max() + 1)}
    kept = []
    for site in range(sites):
        parts: list[list[np.ndarray]] = [[], [], []]
        for person in persons[site]:
            for activity in range(labels.max() + 1):
                rows = np.flatnonzero((subject == person) & (labels == activity))
                ends = np.cumsum([round(len(rows) * share) for share in PARTS])
                # Windows overlap by half: the one between two parts is left out.
                stretches = (rows[: ends[0]], rows[ends[0] + 1 : ends[1]], rows[ends[1] + 1 :])
                for part, stretch in zip(parts, stretches, strict=True):
                    part.append(stretch)
        train, test, rest = (np.concatenate(part) for part in parts)
        arrays |= _of_site(site, (signals[train], labels[train]), (signals[test], labels[test]))
        kept.append((signals[rest], labels[rest]))
    return arrays, kept


def _of_site(site: int, train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray]) -> Arrays:
    names = (f"x_{site}", f"y_{site}", f"test_x_{site}", f"test_y_{site}")
    return dict(zip(names, (*train, *test), strict=True))


@dataclass(frozen=True)
class Site:
    """A site's verdict, and what is true.

    Attributes:
        worth: The entry of its summary.
        truth: The gain on the rows that were kept from all.
        error: The standard error of that.
    """

    worth: Mapping[str, Any]
    truth: float
    error: float


def run(sites: int, seed: int, make: Callable[[int, int], Any], flags: Sequence[str], folder: Path) -> list[Site]:
    """Train the sites of one seed together and alone; returns the verdict of each, and the true gain."""
    from dpeer import load_model

    arrays, kept = make(sites, seed)
    np.savez(folder / "sites.npz", **arrays)
    out = folder / "run"
    subprocess.run(
        [sys.executable, "-m", "dpeer", "simulate", "--size", str(sites), "--task", f"{TASK}:task", "--task-option",
         f"path={folder / 'sites.npz'}", "--seed", str(seed), "--alone", "never", "--baseline", "local",
         "--out", str(out), *flags], check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    worth = json.loads((out / "summary.json").read_text())["worth"]
    found = []
    for site, (x, y) in enumerate(kept):
        right = []
        for rank in (out / f"rank-{site}", out / "baseline-local" / f"rank-{site}"):
            outputs = load_model(rank).predict(torch.from_numpy(x)).outputs
            right.append(np.asarray(outputs).argmax(axis=1) == y)
        difference = right[0].astype(float) - right[1]
        found.append(Site(worth[site], float(difference.mean()), float(difference.std() / math.sqrt(len(y)))))
    return found


def figures(found: Sequence[Site], *, widened: bool) -> dict[str, Any]:
    """The columns of the table."""
    judged = [site for site in found if site.worth["gain"] is not None]
    covers = 0
    for site in judged:
        w, more = site.worth, 1.96 * site.error if widened else 0.0
        low, high = (
            w["gain"] - math.hypot(w["gain"] - w["low"], more),
            w["gain"] + math.hypot(w["high"] - w["gain"], more),
        )
        covers += low <= site.truth <= high
    signed = [site for site in judged if abs(site.truth) > 1.96 * site.error and site.worth["gain"] != 0.0]
    verdicts = {
        word: [site for site in judged if site.worth["verdict"] == verdict]
        for word, verdict in (("improved", "improved"), ("alone", "worse"))
    }
    below = [site for site in judged if site.worth["high"] < 0]
    return {
        "sites": len(found),
        "covers": [covers, len(judged)],
        "sign": [sum(site.worth["gain"] * site.truth > 0 for site in signed), len(signed)],
        "improved": [sum(site.truth > 0 for site in verdicts["improved"]), len(verdicts["improved"])],
        "alone": [sum(site.truth < 0 for site in verdicts["alone"]), len(verdicts["alone"])],
        "below": [sum(_is_told(site.worth) for site in below), len(below)],
        "gain": round(float(np.mean([site.worth["gain"] for site in judged])), 4) if judged else None,
        "true": round(float(np.mean([site.truth for site in found])), 4),
    }


def _is_told(worth: Mapping[str, Any]) -> bool:
    """Whether the peer's last lines have the verdict worse, be it probably."""
    found = effect_of(worth)
    return found is not None and any("worse than local only" in line for line in closing_lines(found))


def main() -> None:
    """Run all kinds and seeds, and print a line for each kind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--har", type=Path, metavar="FILE", help="UCI HAR's signals: arrays x, y and subject")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--sites", type=int, default=8)
    parser.add_argument("--json", action="store_true", help="print a JSON object a line")
    parser.add_argument("flags", nargs="*", help="further flags of dpeer simulate, behind --")
    options = parser.parse_args()
    torch.set_num_threads(1)
    kinds: dict[str, Callable[[int, int], Any]] = {
        "alike": partial(table, effect=0.3), "unlike": partial(table, effect=1.0)
    }  # fmt: skip
    if options.har is not None:
        kinds["har"] = partial(har, path=options.har)
    for kind, make in kinds.items():
        found: list[Site] = []
        for seed in options.seeds:
            with tempfile.TemporaryDirectory() as folder:
                found += run(options.sites, seed, make, options.flags, Path(folder))
            print(f"{kind}: seed {seed} done", file=sys.stderr, flush=True)
        line = figures(found, widened=kind == "har")
        if options.json:
            print(json.dumps({"kind": kind, **line}), flush=True)
            continue
        words = [
            f"{name} {value[0]}/{value[1]}" if isinstance(value, list) else f"{name} {value}"
            for name, value in line.items()
        ]
        print(f"{kind:8}{', '.join(words)}", flush=True)


if __name__ == "__main__":
    main()
