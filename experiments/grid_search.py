"""Grid search of hyperparameters on validation data, the same grid for all rows of a comparison."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from dpeer.exceptions import ConfigurationError
from dpeer.experiments.cells import Cell, Condition, Variant, make_cell, setting_name
from dpeer.experiments.outcomes import Result
from dpeer.federation.config import parse_option
from dpeer.sections import names
from dpeer.topology.settings import GraphSettings
from dpeer.training import ALGORITHMS, find_algorithm
from dpeer.training.settings import WireSettings

TUNE_SEED = 100
"""The seed of all trials; none of a comparison's, so that the choice has not seen its test data."""


@dataclass(frozen=True)
class Axis:
    """One direction of the grid: settings that take the same value, and the values they try."""

    names: tuple[str, ...]
    values: tuple[Any, ...]

    def of(self, variant: Variant) -> tuple[str, ...]:
        """The axis's settings that have an effect on a row and that the row does not set itself."""
        own = find_algorithm(variant.algorithm).uses
        others = {name for algorithm in ALGORITHMS.values() for name in algorithm.uses} - {*own}
        nothing = {*others, *variant.changes, *(names(GraphSettings, WireSettings) if variant.alone else ())}
        return tuple(name for name in self.names if name not in nothing)


@dataclass(frozen=True)
class Trial:
    """Some values for a row, the run that tries them, and the values as a part of its folder's name."""

    values: Mapping[str, Any]
    cell: Cell
    mark: str

    def score(self) -> float:
        """Mean accuracy on validation data at the end, over peers; minus infinity where training diverged.

        Raises:
            ConfigurationError: The task has no accuracy.
            OutputError: Some of a run's files are missing or damaged.
        """
        peers = Result(self.cell.folder).peers
        # A model of NaNs has an accuracy all the same, that of its first class.
        if any(peer.test_loss_mixed is None for peer in peers):
            return -math.inf
        accuracies = [peer.accuracy_mixed for peer in peers if peer.accuracy_mixed is not None]
        return fmean(accuracies) if len(accuracies) == len(peers) else -math.inf


def parse_axis(text: str) -> Axis:
    """Parse ``KEY=VALUE,VALUE,...``, or ``KEY+KEY=...`` for settings that go together.

    Raises:
        UnknownName: A key names no setting.
        ConfigurationError: The ``=`` or the values are missing, or a key or a value is given twice.
    """
    keys, equals, values = text.partition("=")
    parts = [part.strip() for part in values.split(",")]
    if not equals or not all(parts):
        raise ConfigurationError(
            f"--grid {text!r}: expected KEY=VALUE,VALUE, for example body-lr+head-lr=0.01,0.03,0.1"
        )
    names = tuple(setting_name(key.strip(), f"--grid {text!r}", of_a_row=True) for key in keys.split("+"))
    tried = tuple(parse_option(f"x={value}")[1] for value in parts)
    if len(set(names)) < len(names) or len(set(tried)) < len(tried):
        raise ConfigurationError(f"--grid {text!r}: a key or a value is given twice")
    return Axis(names, tried)


def check_grid(grid: Sequence[Axis], variants: Sequence[Variant]) -> None:
    """Refuse a grid with a setting that would never be tried.

    Raises:
        ConfigurationError: A setting is on two axes, or means nothing to any row.
    """
    names = [name for axis in grid for name in axis.names]
    for axis in grid:
        for name in axis.names:
            if names.count(name) > 1:
                raise ConfigurationError(f"--grid: {name.replace('_', '-')!r} is named twice")
            if not any(name in axis.of(variant) for variant in variants):
                raise ConfigurationError(
                    f"--grid: {name.replace('_', '-')!r} means nothing to any row "
                    f"({', '.join(variant.label for variant in variants)}), or each sets it itself: leave it out"
                )


def trials(
    base: Mapping[str, Any],
    variant: Variant,
    grid: Sequence[Axis],
    condition: Condition,
    validation: float,
    out: Path,
) -> list[Trial]:
    """The trials of a row: every point of the grid, without settings that have no effect on the row or are its own.

    `validation` is the share of each peer's training samples to hold out; 0 where the task brings validation data. None
    is made where nothing of the grid matters to the row.
    """
    axes = [(names, axis.values) for axis in grid if (names := axis.of(variant))]
    if not axes:
        return []
    measured = {**base, "validation": validation or None, "evaluate_on": "validation", "evaluate_every": base["rounds"]}
    found = []
    for point in itertools.product(*(values for _, values in axes)):
        values = {name: value for (names, _), value in zip(axes, point, strict=True) for name in names}
        tried = replace(variant, changes={**variant.changes, **values})
        mark = "".join(f"-{name}{value}" for name, value in values.items())
        found.append(Trial(values, make_cell(measured, tried, condition, TUNE_SEED, out / "tune", mark=mark), mark))
    return found


def best(found: Sequence[Trial]) -> Trial:
    """The trial with the highest score; the first of equals.

    Raises:
        ConfigurationError: Training diverged in all of them, or the task has no accuracy.
    """
    chosen = max(found, key=Trial.score)
    if chosen.score() == -math.inf:
        raise ConfigurationError(
            f"--grid: training of {chosen.cell.variant.label!r} diverged with every value: try smaller ones"
        )
    return chosen


def at_edge(chosen: Mapping[str, Any], grid: Sequence[Axis]) -> list[str]:
    """The chosen numbers that are the smallest or largest that were tried, beyond which better ones may lie."""
    found = []
    for axis in grid:
        numbers = [value for value in axis.values if isinstance(value, int | float) and not isinstance(value, bool)]
        names = [name for name in axis.names if name in chosen]
        if len(numbers) > 1 and any(chosen[name] in (min(numbers), max(numbers)) for name in names):
            found += names
    return found
