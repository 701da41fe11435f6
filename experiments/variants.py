"""The rows of a comparison: each an algorithm with settings of its own, as `--algorithms` writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpeer.exceptions import ConfigurationError, UnknownName
from dpeer.federation.config import parse_option
from dpeer.federation.policy import find, obey
from dpeer.federation.run_settings import (
    LogSettings,
    MeasureSettings,
    NetworkSettings,
    ThreadSettings,
)
from dpeer.federation.settings import Settings, option_names
from dpeer.sections import names
from dpeer.topology.settings import GraphSettings
from dpeer.training import find_algorithm
from dpeer.training.algorithms.options import about_options
from dpeer.training.settings import TaskSettings

RESERVED: Mapping[str, str] = {
    "algorithm": "rows are given by --algorithms",
    "seed": "repetitions are given by --seeds",
    "out": "every run has a folder of its own in --out",
    "rank": "all peers of a comparison are set alike",
    "threads": "--jobs sets the number of runs at a time",
    "evaluate_on": "a comparison measures on test data, and chooses by --grid on validation data",
    "keep": "the tables are of the last rounds, never of the best one",
    "validation": "a share is held out only where --grid chooses: give it as --validation, or in [compare]",
}
"""Settings that are the comparison's to give, and why."""

DATA = ("size", *names(TaskSettings), "partition", "test_split")
"""Settings that decide the peers and their data: rows that differ in one cannot be paired."""

_ONE_FOR_ALL = (MeasureSettings, LogSettings, ThreadSettings, NetworkSettings)
_OF_A_ROW = tuple(name for name in option_names(*_ONE_FOR_ALL) if name not in (*RESERVED, *DATA, "rounds"))


@dataclass(frozen=True)
class Variant:
    """A row of the table.

    Attributes:
        label: The row's name: the text that was given.
        algorithm: The algorithm's name.
        changes: Settings that the row has of its own, by field name.
    """

    label: str
    algorithm: str
    changes: Mapping[str, Any]

    @property
    def alone(self) -> bool:
        """Whether the row's peers share nothing, so that graphs have no effect on it."""
        return find_algorithm(self.algorithm).shares == "nothing"

    @property
    def settled(self) -> frozenset[str]:
        """Settings of a condition without effect on the row: those it sets itself, and of graphs if it uses none."""
        return frozenset({*self.changes, *self.unused_graph})

    @property
    def options(self) -> frozenset[str]:
        """The names of its algorithm's options."""
        return frozenset(about_options(find_algorithm(self.algorithm)))

    def options_among(self, base: Mapping[str, Any]) -> dict[str, Any]:
        """Its algorithm's options: those that all rows are given, as far as it has them, and its own."""
        common = base.get("algorithm_options") or {}
        own = self.changes.get("algorithm_options", {})
        return {**{name: value for name, value in common.items() if name in self.options}, **own}

    @property
    def unused_graph(self) -> frozenset[str]:
        """The settings of graphs that have no effect on the row: all of them, where its peers share nothing."""
        return frozenset(names(GraphSettings)) - {"size"} if self.alone else frozenset()


def parse_variant(text: str) -> Variant:
    """Parse ``ALGORITHM[:KEY=VALUE...]``, such as ``dfedsmdc:sam=both:rho=0.1``.

    Raises:
        UnknownName: No algorithm or setting has such a name.
        ConfigurationError: It is no KEY=VALUE, a setting that all rows must share, or one is given twice; or the site's
            policy forbids the algorithm.
    """
    where = f"--algorithms {text!r}"
    name, *parts = text.split(":")
    if parts and "=" not in parts[0]:  # FILE.py:CLASS or MODULE:CLASS
        name += f":{parts.pop(0)}"
    for place in range(len(parts) - 1, 0, -1):
        if "=" not in parts[place]:  # of a value, such as finish=head:5
            parts[place - 1] += f":{parts.pop(place)}"
    if (policy := find(None)) is not None:
        obey(policy.programs({"algorithm": name}, lambda setting: where))
    algorithm = find_algorithm(name)
    changes: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for part in parts:
        key, value = parse_option(part, where=where, example="rho=0.1")
        own = key in about_options(algorithm) and key not in Settings.model_fields
        field = key if own else setting_name(key, where, of_a_row=True)
        if field in changes or field in options:
            raise ConfigurationError(f"{where}: {key!r} is given twice")
        (options if own else changes)[field] = value
    return Variant(text, name, {**changes, **({"algorithm_options": options} if options else {})})


def setting_name(key: str, where: str, *, of_a_row: bool = False) -> str:
    """The field of `Settings` that a key names, with ``-`` or ``_``.

    Args:
        key: The key as it was typed.
        where: Where it was typed, for the message.
        of_a_row: Whether the setting is one row's own, and not one table's.

    Raises:
        UnknownName: The key names no setting.
        ConfigurationError: It is one that must be the same throughout, or that a comparison gives itself.
    """
    name = key.replace("-", "_")
    allowed = _OF_A_ROW if of_a_row else (*_OF_A_ROW, *DATA)
    if name in allowed:
        return name
    if name in Settings.model_fields:
        why = RESERVED.get(name, "all rows of a table, which are compared peer by peer, have the same")
        raise ConfigurationError(f"{where}: {key!r} cannot be set here: {why}")
    raise UnknownName("key", key, allowed, where)
