"""Experiment: rows, conditions and seeds of a comparison from a file and flags, checked before any run."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from dpeer.exceptions import ConfigurationError, UnknownName
from dpeer.experiments.cells import RESERVED, Condition, Variant, parse_variant, setting_name
from dpeer.experiments.grid_search import TUNE_SEED, Axis, check_grid, parse_axis
from dpeer.federation.presets import find_preset
from dpeer.federation.settings import TABLES, InvalidSettings, Settings
from dpeer.sections import Mistake
from dpeer.toml_text import read_toml
from dpeer.training import BUILTIN_TASKS
from dpeer.training.data.partitions import parse as parse_partition

_MOST_SEEDS = 10_000


def _as_text(value: Any) -> Any:
    """A number, or a list of them, as they would be typed."""
    parts = value if isinstance(value, list) else [value]
    whole = all(isinstance(part, int) and not isinstance(part, bool) for part in parts)
    return ",".join(map(str, parts)) if whole and parts else value


Seeds = Annotated[str, BeforeValidator(_as_text)]


class Plan(BaseModel):
    """`[compare]` in an experiment's file, and the flags of the same names."""

    model_config = ConfigDict(extra="forbid", strict=True)

    algorithms: list[str] = Field(min_length=1)
    topology: list[str] | None = Field(None, min_length=1)
    partition: list[str] | None = Field(None, min_length=1)
    conditions: list[dict[str, Any]] = Field(default_factory=list)
    seeds: Seeds = "0"
    reference: str | None = None
    grid: list[str] = Field(default_factory=list)
    validation: Annotated[float, Field(gt=0, lt=1)] | None = None


def parse_seeds(text: str) -> list[int]:
    """Parse ``0-4``, ``3`` or ``0,2,7``.

    Raises:
        ConfigurationError: It is none of these, or too many.
    """
    try:
        first, dash, last = text.partition("-")
        numbers = range(int(first), int(last) + 1) if dash else [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if numbers[_MOST_SEEDS:]:
        raise ConfigurationError(f"--seeds {text!r}: at most {_MOST_SEEDS:,} seeds: each is a run of every row")
    if not numbers or min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise ConfigurationError(f"--seeds {text!r}: expected FIRST-LAST or numbers with commas, for example 0-4")
    return list(numbers)


def _explained(error: ValidationError, flags: Mapping[str, Any], path: Path | None) -> ConfigurationError:
    mistake = Mistake(error)
    key = ".".join(part for part in mistake.keys if not part.isdecimal())  # without places in a list
    if mistake.kind == "missing":
        there = f", or algorithms in [compare] of {path}" if path else ""
        return ConfigurationError(f"--{key} is missing{there}: for example --algorithms local,dfedavgm,dfedsmdc")
    source = f"--{key.replace('_', '-')}" if mistake.keys[0] in flags else f"compare.{key} in {path}"
    return mistake.error(source, Plan.model_fields, f"[compare] of {path}")


def _merged(content: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Two sets of settings, the second overriding the first; options of task, algorithm and model of both are kept."""
    merged = {**content, **more}
    for key in TABLES:
        options = [there for values in (content, more) if isinstance(there := values.get(key), Mapping)]
        if options[1:]:
            merged[key] = dict(itertools.chain(*(one.items() for one in options)))
    return merged


@dataclass(frozen=True)
class Experiment:
    """A comparison, checked.

    Attributes:
        baseline: The label of the row that trains alone.
        reference: The label of the row that the others are compared with.
        validation: Share of the training samples held out for that choice; 0 where the task brings validation data.
    """

    base: Mapping[str, Any]
    variants: Sequence[Variant]
    conditions: Sequence[Condition]
    seeds: Sequence[int]
    baseline: str | None
    reference: str
    grid: Sequence[Axis]
    validation: float


def load(path: Path | None, settings: Mapping[str, Any], plan: Mapping[str, Any]) -> Experiment:
    """Put an experiment together from its file and flags (settings, and fields of `Plan`), and check it; flags win.

    Raises:
        ConfigurationError: Names the key, the value and right values.
    """
    content = read_toml(path, "experiment") if path is not None else {}
    compared = content.pop("compare", None)
    if compared is not None and not isinstance(compared, dict):
        raise ConfigurationError(f"compare in {path} = {compared!r}: expected a table, [compare]")
    given = {name: value for name, value in settings.items() if value not in (None, {})}
    flags = {name: value for name, value in plan.items() if value is not None}
    try:
        found = Plan.model_validate({**(compared or {}), **flags})
    except ValidationError as error:
        raise _explained(error, flags, path) from error
    # By themselves: a flag wins over the file, whatever the file calls the setting.
    return _checked(_merged(content, given), found, path, given)


def _checked(base: dict[str, Any], plan: Plan, path: Path | None, given: Mapping[str, Any]) -> Experiment:
    for name, why in RESERVED.items():
        if name in base:
            raise ConfigurationError(f"{name} in {path}: a comparison cannot be given it here: {why}")
    for name in (name for one in plan.conditions for name in one):
        field = name.replace("-", "_")
        if field in given:
            raise ConfigurationError(
                f"--{field.replace('_', '-')}: {path} varies it in [compare]: leave one of them out"
            )
    conditions = _conditions(base, plan, path)
    for name in conditions[0].values:
        base.pop(name, None)
    variants = [parse_variant(text) for text in plan.algorithms]
    if "rounds" not in base:
        base["rounds"] = _rounds([base, *(one.values for one in conditions), *(row.changes for row in variants)])
    try:
        settings = Settings.model_validate(base)
    except InvalidSettings as error:
        raise error.located(given, path) from error
    _check_data(settings.task, conditions)
    known = {name for variant in variants for name in variant.options}
    if strange := next((name for name in base.get("algorithm_options", {}) if name not in known), None):
        raise UnknownName("option", strange, sorted(known) or ["(none)"], "--algorithm-option, which no row knows")
    labels = [variant.label for variant in variants]
    if twice := next((label for label in labels if labels.count(label) > 1), None):
        raise ConfigurationError(f"--algorithms: {twice!r} is named twice")
    baseline = next((variant.label for variant in variants if variant.alone), None)
    reference = plan.reference or baseline or labels[0]
    if reference not in labels:
        raise UnknownName("row", reference, labels, "--reference")
    seeds = parse_seeds(plan.seeds)
    grid = [parse_axis(text) for text in plan.grid]
    check_grid(grid, variants)
    _check_tuning(grid, conditions, seeds)
    return Experiment(
        base, variants, conditions, seeds, baseline, reference, grid,
        _validation(plan, {base.get("task"), *(one.values.get("task") for one in conditions)}),
    )  # fmt: skip


def _rounds(given: Iterable[Mapping[str, Any]]) -> int:
    """The rounds of the presets that the comparison names, which all its runs have in common, or the default."""
    presets = {name: find_preset(name) for values in given if isinstance(name := values.get("preset"), str)}
    rounds = {name: preset.values["rounds"] for name, preset in presets.items() if "rounds" in preset.values}
    if len({*rounds.values()}) > 1:
        each = ", ".join(f"{name} {count}" for name, count in rounds.items())
        raise ConfigurationError(f"--rounds is missing: the presets of this comparison have others each ({each})")
    default: int = Settings.model_fields["rounds"].default
    return next(iter(rounds.values()), default)


def _check_data(task: str, conditions: Sequence[Condition]) -> None:
    """Check the names of tasks and partitions before any run."""
    for condition in conditions:
        name = condition.values.get("task") or task
        if ":" not in name and name not in BUILTIN_TASKS and not name.endswith(".py"):
            raise UnknownName("task", name, BUILTIN_TASKS)
        if condition.values.get("partition") is not None:
            parse_partition(str(condition.values["partition"]))


def _check_tuning(grid: Sequence[Axis], conditions: Sequence[Condition], seeds: Sequence[int]) -> None:
    for name in (name for axis in grid for name in axis.names):
        if name in conditions[0].values:
            raise ConfigurationError(f"--grid: {name.replace('_', '-')!r} distinguishes the tables: choose one of both")
    if grid and TUNE_SEED in seeds:
        raise ConfigurationError(
            f"--seeds: --grid chooses with seed {TUNE_SEED}, and the choice would have seen its test data: leave it out"
        )


def _validation(plan: Plan, tasks: set[str | None]) -> float:
    own = [task for task in tasks if task is not None and ":" in task]
    if plan.validation is not None or not own:
        return 0.2 if plan.validation is None else plan.validation
    return 0.0  # a task of the user's own brings its validation data


def _conditions(base: Mapping[str, Any], plan: Plan, path: Path | None) -> list[Condition]:
    """Every graph with every division, each with every one of the conditions that are listed."""
    where = f"compare.conditions in {path}"
    listed = [{setting_name(name, where): value for name, value in one.items()} for one in plan.conditions or [{}]]
    usual: dict[str, Any] = {"topology": None, "partition": None}
    for name in (name for one in listed for name in one):
        given = base.get(name)
        usual[name] = Settings.model_fields[name].get_default(call_default_factory=True) if given is None else given
    topologies = plan.topology or [base.get("topology") or Settings.model_fields["topology"].default]
    partitions: Sequence[str | None] = plan.partition or [base.get("partition")]
    combinations = itertools.product(topologies, partitions, listed)
    found = [Condition({**usual, "topology": one, "partition": other, **more}) for one, other, more in combinations]
    labels = [condition.label for condition in found]
    if twice := next((label for label in labels if labels.count(label) > 1), None):
        raise ConfigurationError(f"the table of {twice!r} is asked for twice: name each topology and partition once")
    return found
