"""The tables of a report as text: the results of each group, and its further metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from dpeer.report.facets import LINES
from dpeer.report.style import COLORS
from dpeer.results import units
from dpeer.results.costs import largest_cost
from dpeer.results.curves import Measure, distances, mean_of, mean_of_run, settled
from dpeer.results.figures import all_metrics, called, in_order
from dpeer.results.groups import Group
from dpeer.results.runs import Peer, Run

NONE = "-"

Table = tuple[list[str], list[list[str]]]
"""The headings, and a row of texts for each group."""


@dataclass(frozen=True)
class Row:
    """One group's line: a color if its pictures have one, and a text for each column."""

    number: int
    color: str | None
    label: str
    cells: tuple[str, ...]


def columns(groups: Sequence[Group], measure: Measure) -> list[str]:
    """The headings of the columns of `rows`, without the label."""
    trained = ["before mixing (mean)"] if measure.trained else []
    return [
        "seeds",
        "peers",
        f"{measure.name}: kept (mean)",
        "after mixing (mean)",
        *trained,
        *(["training accuracy after mixing", "generalization gap"] if _fitted(groups) else []),
        f"worst peer's {measure.name}",
        "sent in all",
        "wall time",
        "consensus distance",
        *(["epsilon"] if _private(groups) else []),
    ]


def rows(groups: Sequence[Group], measure: Measure) -> list[Row]:
    """A line for each group."""
    return [
        Row(
            group.number,
            COLORS[group.number - 1] if len(groups) <= LINES else None,
            group.label,
            tuple(_cells(group, measure, private=_private(groups), fitted=_fitted(groups))),
        )
        for group in groups
    ]


def _cells(group: Group, measure: Measure, *, private: bool, fitted: bool) -> list[str]:
    runs = group.runs
    trained = [_over(mean_of(group, measure.trained), _four)] if measure.trained else []
    fit = (
        [_over(mean_of(group, "training_accuracy", mixed=True), _four), _over(_gaps(group), _signed)] if fitted else []
    )
    return [
        str(len(runs)),
        f"{len(group.ranks)} of {group.size}" if group.partial else str(group.size),
        _over(mean_of(group, measure.key), _four),
        _over(mean_of(group, measure.key, mixed=True), _four),
        *trained,
        *fit,
        _worst(group, measure),
        units.size(round(fmean(run.bytes_sent for run in runs))),
        _over([run.wall_seconds for run in runs if run.wall_seconds is not None], units.duration, spread=False),
        _over(distances(group), lambda value: f"{settled(value):.4g}", spread=False),
        *([_epsilon(group)] if private else []),
    ]


def _fitted(groups: Sequence[Group]) -> bool:
    """Whether any run has measured accuracy on training data."""
    return any(_gaps(group) for group in groups)


def _gaps(group: Group) -> list[float]:
    """Every seed's mean generalization gap after the last mixing, of the runs that have it."""
    both = [(mean_of_run(run, "training_accuracy"), mean_of_run(run, "accuracy")) for run in group.runs]
    return [training - test for training, test in both if training is not None and test is not None]


def _private(groups: Sequence[Group]) -> bool:
    return any(_epsilon(group) != NONE for group in groups)


def _epsilon(group: Group) -> str:
    """The largest epsilon of all peers and seeds; against both adversaries where there are two."""
    summaries = [run.summary.privacy for run in group.runs if run.summary]
    peers = [peer.spent() for run in group.runs for peer in run.peers.values()]
    found = [spent for spent in (*summaries, *peers) if spent is not None and "epsilon" in spent]
    return largest_cost(found) if found else NONE


def _over(values: Sequence[float], text: Callable[[float], str], *, spread: bool = True) -> str:
    """The mean over seeds and, of several, their standard deviation."""
    if not values:
        return NONE
    many = spread and len(values) > 1
    return text(fmean(values)) + (f" ± {text(stdev(values))}" if many else "")


def _worst(group: Group, measure: Measure) -> str:
    """The worst peer of all seeds: its value and its rank."""
    found = [(run, *measure.worst(values)) for run in group.runs if (values := run.finals(measure.key))]
    if not found:
        return NONE
    run, rank, value = (min if measure.most_is_best else max)(found, key=lambda one: one[2])
    seed = f", seed {run.settings.get('seed')}" if len(group.runs) > 1 else ""
    return f"{_four(value)} (rank {rank}{seed})"


def _signed(value: float) -> str:
    return f"{value:+.4f}"


def _four(value: float) -> str:
    return f"{value:.4f}"


def metrics_table(groups: Sequence[Group]) -> Table | None:
    """Every metric's mean over the peers, a row for each group in their order; None where there is none."""
    means = [[_means(run) for run in group.runs] for group in groups]
    names = [*in_order(dict.fromkeys(name for group in means for run in group for name in run))]
    names = [name for name in names if name != "accuracy"]  # the table of results has it
    if not names:
        return None
    return [called(name) for name in names], [
        [_over([run[name] for run in group if name in run], _four) for name in names] for group in means
    ]


def _means(run: Run) -> dict[str, float]:
    """By name, the mean over the peers that have such a metric."""
    found: dict[str, list[float]] = {}
    for peer in run.peers.values():
        for name, value in _last(peer).items():
            if value is not None:
                found.setdefault(name, []).append(value)
    return {name: fmean(values) for name, values in found.items()}


def _last(peer: Peer) -> dict[str, float | None]:
    """A peer's metrics at the end; those of its last evaluated round where it has not ended."""
    if peer.summary is not None:
        return all_metrics(peer.summary)
    lines = (line.metrics for line in reversed(list(peer.entries.values())))
    return dict(next((metrics for metrics in lines if metrics is not None), {}))
