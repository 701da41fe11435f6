"""Curves and means of groups of runs, over peers and seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from dpeer.results.groups import Group
from dpeer.results.records import Figure
from dpeer.results.runs import Run

DISTANCE = "consensus distance"

BAND = (10, 90)
"""The percentiles of the peers between which a band lies: one odd peer of a hundred does not widen it."""


@dataclass(frozen=True)
class Measure:
    """The metric that the runs are judged by.

    Attributes:
        key: The metric's name in the files.
        trained: The name of the same metric before mixing, if there is one.
        name: The metric in words.
        axis: The axis's title, with the unit.
        most_is_best: Whether higher values are better.
    """

    key: Figure
    trained: Figure | None
    name: str
    axis: str
    most_is_best: bool = True

    def worst(self, values: Mapping[int, float]) -> tuple[int, float]:
        """The worst peer's rank and value."""
        rank = (min if self.most_is_best else max)(values, key=lambda one: values[one])
        return rank, values[rank]


ACCURACY = Measure("accuracy", "accuracy_trained", "accuracy", "accuracy (share correct)")
LOSS = Measure("test_loss", None, "test loss", "test loss (the task's own unit)", most_is_best=False)


def choose(groups: Sequence[Group]) -> Measure:
    """The accuracy if any run has one; else the loss, which is all that a regression has."""
    return ACCURACY if any(run.finals("accuracy") for group in groups for run in group.runs) else LOSS


@dataclass(frozen=True)
class Curve:
    """A value by rounds completed; low and high are the band over all peers of all seeds."""

    rounds: list[int]
    mean: list[float]
    low: list[float]
    high: list[float]


def by_round(group: Group, key: Figure) -> Curve:
    """The mean over seeds of the means over peers, in the rounds that all seeds have."""
    series = [run.by_round(key) for run in group.runs]
    shared = sorted(set.intersection(*(set(values) for values in series)))
    means = [fmean(fmean(values[number]) for values in series) for number in shared]
    bands = [np.percentile([value for values in series for value in values[number]], BAND) for number in shared]
    low, high = ([float(band[side]) for band in bands] for side in (0, 1))
    return Curve([number + 1 for number in shared], means, low, high)


def sent_by_round(group: Group) -> Curve:
    """Bytes that a peer has sent since the start, from 0 rounds on: the mean and, as `high`, the busiest peer's."""
    series = [totals for run in group.runs if (totals := _totals(run))]
    shared = sorted(set.intersection(*(set(totals) for totals in series))) if series else []
    mean = [fmean(fmean(totals[number]) for totals in series) for number in shared]
    high = [fmean(max(totals[number]) for totals in series) for number in shared]
    return Curve(shared, mean, mean, high)


def _totals(run: Run) -> dict[int, list[float]]:
    """The bytes that each peer has sent, by the number of rounds completed, as far as all peers have come."""
    logs = [peer.entries for peer in run.peers.values() if peer.entries]
    if not logs:
        return {}
    rounds = sorted({number for entries in logs for number in entries})
    if run.status == "unfinished":
        rounds = [number for number in rounds if number < run.completed]
    sent = [0.0] * len(logs)
    found = {0: list(sent)}
    for number in rounds:
        for row, entries in enumerate(logs):
            line = entries.get(number)
            sent[row] += (line.bytes_sent or 0) if line else 0
        found[number + 1] = list(sent)
    return found


def mean_of(group: Group, key: Figure, *, mixed: bool = False) -> list[float]:
    """Every seed's mean over its peers at the end: of the kept models, or of those after mixing."""
    return [fmean(values.values()) for run in group.runs if (values := run.finals(key, mixed=mixed))]


def mean_of_run(run: Run, key: Figure) -> float | None:
    """A run's mean over its peers at the end, after mixing; None if none of them has it."""
    values = run.finals(key, mixed=True)
    return fmean(values.values()) if values else None


def distances(group: Group) -> list[float]:
    """Every seed's consensus distance at the end."""
    return [run.distance for run in group.runs if run.distance is not None]


_ROUNDING = 1e-9
"""A consensus distance below this is that of rounding: the bodies are equal."""

_NEGLIGIBLE = 1e-5
"""So is one below this share of another run's: drawn on one axis they would be decades apart that mean nothing."""


def settled(distance: float, largest: float = 0.0) -> float:
    """A consensus distance, 0 where bodies differ by no more than rounding; `largest` is the largest beside it."""
    return 0.0 if distance < max(_ROUNDING, _NEGLIGIBLE * largest) else distance


def distance_by_round(group: Group) -> Curve:
    """The consensus distance by round: mean and range over the seeds that recorded it."""
    series = [run.distances for run in group.runs if run.distances]
    shared = sorted(set.intersection(*(set(values) for values in series))) if series else []
    values = [[each[number] for each in series] for number in shared]
    return Curve(
        [number + 1 for number in shared],
        [fmean(v) for v in values],
        [min(v) for v in values],
        [max(v) for v in values],
    )
