"""Groups of runs that differ only in their seed: their names, means and curves over peers and seeds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

import numpy as np

from dpeer.results.records import Figure
from dpeer.results.run_folders import RunFolder

_FIRST = ("algorithm", "topology", "partition", "task", "size", "participation", "rounds", "body_lr", "head_lr")
_LONG = 60


@dataclass(frozen=True)
class Group:
    """Runs that are shown as one.

    Attributes:
        values: The group's value of every setting in which groups differ, as text.
        runs: One run for each seed.
    """

    number: int
    label: str
    values: Mapping[str, str]
    runs: tuple[RunFolder, ...]

    @property
    def name(self) -> str:
        """The label, with the number of several seeds, and of peers if some are missing."""
        remarks = [f"{len(self.runs)} seeds"] if len(self.runs) > 1 else []
        remarks += [f"{len(self.ranks)} of {self.size} peers"] if self.partial else []
        return f"{self.label} ({', '.join(remarks)})" if remarks else self.label

    @property
    def size(self) -> int:
        """The number of peers."""
        return self.runs[0].size

    @cached_property
    def ranks(self) -> list[int]:
        """The ranks whose results are here: where a peer was started by itself, those of that one alone."""
        return sorted({rank for run in self.runs for rank in (*run.peers, *run.finals("accuracy"))})

    @property
    def partial(self) -> bool:
        """Whether some peers of the federation left no files here, so that a mean is not that of all."""
        return 0 < len(self.ranks) < self.size


@dataclass(frozen=True)
class Grouped:
    """All groups of a report.

    Attributes:
        groups: The groups, in the order in which their folders were named.
        differing: The settings in which the groups differ, the most telling first.
        common: The settings that all groups have in common, as text.
    """

    groups: tuple[Group, ...]
    differing: tuple[str, ...]
    common: Mapping[str, str]


def group_runs(runs: Sequence[RunFolder], labels: Sequence[str] = (), aside: Collection[str] = ()) -> Grouped:
    """Put runs together that differ in nothing but their seed.

    `labels` name the runs of the first, second, ... folder; runs of different names are not grouped. `aside` are
    settings that do not decide about results: where and how a run was made.
    """
    ignored = {"seed", *aside, "rank"}

    def key(run: RunFolder) -> tuple[str, str]:
        texts = sorted((name, as_text(value)) for name, value in _plain(run, ignored).items())
        return (labels[run.source] if run.source < len(labels) else ""), repr(texts)

    together = [group for one in _by(runs, key) for group in _apart(one)]
    settings = [_plain(group[0], ignored) for group in together]
    names = list(dict.fromkeys(name for each in settings for name in each))
    texts = [{name: as_text(each.get(name)) for name in names} for each in settings]
    varied = [name for name in names if len({each[name] for each in texts}) > 1]
    differing = tuple(sorted(varied, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST)))
    common = {name: texts[0][name] for name in names if name not in varied}
    values = [{name: each[name] for name in differing} for each in texts]
    labelled = _labels(together, values, labels)
    groups = tuple(
        Group(number, label, value, tuple(group))
        for number, (label, value, group) in enumerate(zip(labelled, values, together, strict=True), 1)
    )
    return Grouped(groups, differing, common)


def short(values: Mapping[str, str]) -> str:
    """Values of settings in few words: a number is named by its setting, a word needs no name."""
    bare = {"task", "partition", "algorithm", "topology"}
    return ", ".join(text if key in bare else f"{key} {text}" for key, text in values.items())


def as_text(value: Any) -> str:
    """A setting's value as text."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={inner}" for key, inner in value.items()) or "-"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _plain(run: RunFolder, ignored: Collection[str]) -> dict[str, Any]:
    """The settings that a run's results depend on."""
    return {key: value for key, value in run.settings.items() if key not in ignored and value not in (None, {}, [])}


def _seed(run: RunFolder) -> str:
    return repr(run.settings.get("seed"))


def _apart(runs: list[RunFolder]) -> list[list[RunFolder]]:
    """Split a group in which a seed occurs twice: by folder if that is enough, else into single runs."""
    if len({_seed(run) for run in runs}) == len(runs):
        return [runs]
    sources = _by(runs, lambda run: run.source)
    if len(sources) > 1:
        return [group for one in sources for group in _apart(one)]
    return [[run] for run in runs]


def _by(runs: Iterable[RunFolder], key: Any) -> list[list[RunFolder]]:
    found: dict[Any, list[RunFolder]] = {}
    for run in runs:
        found.setdefault(key(run), []).append(run)
    return list(found.values())


def _labels(together: list[list[RunFolder]], values: list[dict[str, str]], labels: Sequence[str]) -> list[str]:
    """The groups' names: the label, the settings that differ, and the folder where two would be the same."""
    first = [group[0] for group in together]
    given = [labels[run.source] if run.source < len(labels) else "" for run in first]
    names = []
    for run, value, label in zip(first, values, given, strict=True):
        settings = "" if label and given.count(label) == 1 else short(value)
        named = ": ".join(filter(None, (label, settings)))
        names.append(named or str(run.settings.get("algorithm") or run.folder))
    labelled = []
    for number, (name, run) in enumerate(zip(names, first, strict=True), 1):
        whole = f"{name} in {run.folder}" if names.count(name) > 1 else name
        labelled.append(whole if len(whole) <= _LONG else f"{whole[: _LONG - 8]}… (no. {number})")
    return labelled


DISTANCE = "consensus distance"

BAND = (10, 90)
"""The percentiles of the peers between which a band lies: one odd peer of a hundred does not widen it."""


@dataclass(frozen=True)
class Measure:
    """The metric that the runs are judged by.

    Attributes:
        key: The metric's name in the files.
        trained: The name of the same metric before mixing; None without one.
        axis: The axis's title, with the unit.
        most_is_best: Whether higher values are better.
    """

    key: Figure
    trained: Figure | None
    name: str
    axis: str
    most_is_best: bool = True

    def standing(self, group: Group) -> float:
        """A group's mean, of which more is better; minus infinity without one."""
        found = mean_of(group, self.key)
        return float("-inf") if not found else fmean(found) if self.most_is_best else -fmean(found)


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
    return _curve([run.by_round(key) for run in group.runs])


def distance_by_round(group: Group) -> Curve:
    """The mean consensus distance by round, over the seeds that recorded it."""
    return _curve([{number: [far] for number, far in run.distances.items()} for run in group.runs if run.distances])


def _curve(series: Sequence[Mapping[int, Sequence[float]]]) -> Curve:
    shared = sorted(set.intersection(*(set(values) for values in series))) if series else []
    means = [fmean(fmean(values[number]) for values in series) for number in shared]
    bands = [np.percentile([value for values in series for value in values[number]], BAND) for number in shared]
    low, high = ([float(band[side]) for band in bands] for side in (0, 1))
    return Curve([number + 1 for number in shared], means, low, high)


def sent_in_a_round(group: Group) -> tuple[float, float] | None:
    """The bytes that a peer sends in a round, in the mean over rounds: the mean over peers, and the busiest peer's."""
    found = [
        [fmean(line.bytes_sent or 0 for line in peer.entries.values()) for peer in run.peers.values() if peer.entries]
        for run in group.runs
    ]
    found = [sent for sent in found if sent]
    return None if not found else (fmean(map(fmean, found)), fmean(map(max, found)))


def mean_of(group: Group, key: Figure, *, mixed: bool = False) -> list[float]:
    """Every seed's mean over its peers at the end: of the kept models, or of those after mixing."""
    return [fmean(values.values()) for run in group.runs if (values := run.finals(key, mixed=mixed))]


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
