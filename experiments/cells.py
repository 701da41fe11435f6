"""Rows and cells of a comparison: an algorithm with its settings, and one run each of row, condition and seed."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpeer.exceptions import ConfigurationError, OutputError, UnknownName, not_written
from dpeer.federation.config import parse_option, resolve
from dpeer.federation.policy import find, obey
from dpeer.federation.run_settings import (
    LogSettings,
    MeasureSettings,
    NetworkSettings,
    ThreadSettings,
)
from dpeer.federation.settings import InvalidSettings, Settings, aside, default_of, option_names
from dpeer.results.files import SUMMARY, make_folder, write_json
from dpeer.results.run_folders import read_run_summary
from dpeer.sections import names
from dpeer.simulation.faults import check_faults
from dpeer.toml_text import read_toml
from dpeer.topology import function_source, is_function
from dpeer.topology.settings import GraphSettings
from dpeer.training import codecs, find_algorithm, source_hash
from dpeer.training.algorithms.options import about_options
from dpeer.training.algorithms.plugins import is_built_in
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
    """The field of `Settings` that a key names, with ``-`` or ``_``: of one row, or of a whole table.

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


ASKED = "cell.json"
"""In a cell's folder: the settings it was asked to run with, so that other ones are noticed."""

_ELSEWHERE = frozenset(aside())
"""Settings that do not change a cell's results."""

_LONGEST = 150
"""Characters of a folder's name; file systems take 255 bytes."""


@dataclass(frozen=True)
class Condition:
    """The settings that all rows of one table have in common, besides those that never change.

    Attributes:
        values: The varied settings, by field name; None for the default.
    """

    values: Mapping[str, Any]

    @property
    def label(self) -> str:
        """The condition in words."""
        common = [str(self.values[name]) for name in ("topology", "partition") if self.values.get(name) is not None]
        rest = [f"{name.replace('_', '-')} {_plain(value)}" for name, value in self._rest()]
        return ", ".join([*common, *rest])

    def name(self, but: Collection[str] = ()) -> str:
        """The condition as a part of a folder's name, without some of its settings."""
        parts = [] if "topology" in but or self.values.get("topology") is None else [str(self.values["topology"])]
        parts.append(str(self.values.get("partition") or "default"))
        return "-".join([*parts, *(f"{name}{_plain(value)}" for name, value in self._rest() if name not in but)])

    def _rest(self) -> list[tuple[str, Any]]:
        return [
            (name, value)
            for name, value in self.values.items()
            if name not in ("topology", "partition") and value is not None
        ]


@dataclass(frozen=True)
class Cell:
    """One run of a comparison.

    Attributes:
        variant: The row of the table.
        condition: The table; the first one, if the run serves several.
        seed: The repetition.
    """

    variant: Variant
    condition: Condition
    seed: int
    settings: Settings

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self.settings.out

    @property
    def done(self) -> bool:
        """Whether the run is done."""
        summary = read_run_summary(self.folder)
        return summary is not None and summary.status == "done"  # else not begun, or killed before its end

    def check(self) -> None:
        """Check that the folder can be the cell's; nothing is written.

        Raises:
            OutputError: The folder holds a run of other settings, or one that no comparison made.
        """
        if not self._begun:
            return  # without a completed round nothing could be lost
        try:
            before = json.loads((self.folder / ASKED).read_text())
        except (OSError, ValueError):
            raise OutputError(f"{str(self.folder)!r} holds a run that no comparison made: give another --out") from None
        asked = self._asked()
        for name in sorted(before.keys() | asked.keys()):
            # Settings with their default value are not written.
            there, here = (values.get(name, default_of(name)) for values in (before, asked))
            if there != here:
                raise OutputError(
                    f"{str(self.folder)!r} holds a run with {name} = {there!r}, here it is {here!r}: give another "
                    "--out, or remove that folder"
                )

    def claim(self) -> None:
        """Write the cell's settings into its folder, before it is run.

        Raises:
            OutputError: The folder cannot be written.
        """
        try:
            make_folder(self.folder)
            write_json(self.folder / ASKED, self._asked())
        except OSError as error:
            raise not_written(f"--out: {str(self.folder)!r}", error) from error

    @property
    def _begun(self) -> bool:
        return any(self.folder.glob("rank-*/checkpoint/round-*")) or (self.folder / SUMMARY).exists()

    def _asked(self) -> dict[str, Any]:
        """The settings that differ from the defaults, or may, without those that have no effect on results."""
        config = resolve(self.settings, 0)
        # As they will be used: an explicit default may differ from the algorithm's own. A row that shares nothing uses
        # no graph: its run serves the tables of all graphs.
        nothing = {*_ELSEWHERE, *self.variant.unused_graph}
        found = {name: value for name, value in config.plain().items() if name not in nothing}
        asked = {name: value for name, value in found.items() if value != default_of(name)}
        faults, compress, topology = config.run.faults, config.training.compress, config.graph.topology
        if faults is not None:
            asked["content of faults"] = json.dumps(read_toml(faults, "--faults"), sort_keys=True)
        if not is_built_in(config.algorithm):
            asked["algorithm's source"] = source_hash(config.algorithm)
        if codecs.find_codec(compress) is not None:
            asked |= codecs.identity(compress)
        if "topology" in asked and is_function(topology):
            asked["topology's source"] = function_source(topology)
        return asked


def make_cell(
    base: Mapping[str, Any], variant: Variant, condition: Condition, seed: int, out: Path, *, mark: str = ""
) -> Cell:
    """A cell with its settings checked.

    `mark` ends the folder's name, so that cells that agree in all of the others have folders of their own.

    Raises:
        ConfigurationError: The settings cannot be used.
    """
    name = condition.name(variant.settled)
    folder = out / _safe(f"{variant.label.replace(':', '+')}-{name}-seed{seed}{mark}")
    given = {name: value for name, value in condition.values.items() if value is not None}
    own = {"algorithm": variant.algorithm, "seed": seed, "out": folder, "keep": "last"}
    values = {**base, **given, **variant.changes, **own}
    values["algorithm_options"] = variant.options_among(base)
    try:
        settings = Settings.model_validate(values)
    except InvalidSettings as error:
        raise ConfigurationError(f"row {variant.label!r}, {condition.label}: {error.located(values, None)}") from error
    check_faults(settings, settings.size, settings.rounds, resume=False)  # here, not when the runs before it are done
    return Cell(variant, condition, seed, settings)


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{key}={_plain(entry)}" for key, entry in value.items())
    return str(value)


def _safe(name: str) -> str:
    """A name as a file name that shells and file systems leave alone; different names stay different."""
    plain = re.sub(r"[^A-Za-z0-9.,+=_-]", "", name)
    # Colons are in all partitions, and no two of those differ in a colon alone.
    if plain == name.replace(":", "") and len(plain) <= _LONGEST:
        return plain
    return f"{plain[:_LONGEST]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
