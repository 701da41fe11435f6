"""Reading an experiment's file and flags."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from dpeer.exceptions import ConfigurationError, UnknownName
from dpeer.federation.config import read_toml
from dpeer.federation.settings import TABLES

_MOST_SEEDS = 10_000


def _as_text(value: Any) -> Any:
    """A number, or a list of them, as they would be typed."""
    parts = value if isinstance(value, list) else [value]
    whole = all(isinstance(part, int) and not isinstance(part, bool) for part in parts)
    return ",".join(map(str, parts)) if whole and parts else value


Seeds = Annotated[str, BeforeValidator(_as_text)]
Values = Annotated[list[Any], Field(min_length=1)]


class Plan(BaseModel):
    """`[compare]` in an experiment's file, and the flags of the same names."""

    model_config = ConfigDict(extra="forbid", strict=True)

    algorithms: list[str] = Field(min_length=1)
    topology: list[str] | None = Field(None, min_length=1)
    partition: list[str] | None = Field(None, min_length=1)
    vary: dict[str, Values] = Field(default_factory=dict)
    conditions: list[dict[str, Any]] = Field(default_factory=list)
    seeds: Seeds = "0"
    last: Annotated[int, Field(ge=1)] = 1
    target: Annotated[float, Field(gt=0, le=1)] | None = None
    at_round: list[Annotated[int, Field(ge=1)]] = Field(default_factory=list)
    at_epsilon: list[Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(default_factory=list)
    reference: str | None = None
    grid: list[str] = Field(default_factory=list)
    tune_seeds: Seeds = "100"
    validation: Annotated[float, Field(gt=0, lt=1)] | None = None


class Asked(NamedTuple):
    """An experiment's file and flags, put together.

    Attributes:
        settings: What all runs share, by field name, not checked yet.
        plan: The values that are the comparison's own.
        path: The file; None without one.
        given: The settings that were given as flags.
    """

    settings: dict[str, Any]
    plan: Plan
    path: Path | None
    given: Mapping[str, Any]


def read_plan(path: Path | None, settings: Mapping[str, Any], plan: Mapping[str, Any], *, small: bool) -> Asked:
    """Put a file and flags together; flags win over the file, its `[small]` over the rest of it.

    Args:
        path: The experiment's file; None without one.
        settings: Flags that are settings, by field name.
        plan: Flags that are the comparison's own, by field of `Plan`.
        small: Whether the file's small variant is asked for.

    Raises:
        ConfigurationError: Names the key, the value and what would be right.
    """
    content = read_toml(path, "experiment") if path is not None else {}
    variant, compared = _taken(content, "small", path), _taken(content, "compare", path)
    if variant is not None:
        own = _taken(variant, "compare", path, "small.")
        if small:
            compared = {**(compared or {}), **(own or {})}
            content = _merged(content, variant)
    elif small:
        raise ConfigurationError(
            "--small is for an experiment's file that has a table [small]"
            + (f"; {path} has none" if path else ": name the file")
        )
    given = {name: value for name, value in settings.items() if value not in (None, {})}
    flags = {name: value for name, value in plan.items() if value is not None}
    try:
        found = Plan.model_validate({**(compared or {}), **flags})
    except ValidationError as error:
        raise _explained(error, flags, path) from error
    if "target" in flags:
        found.conditions = [{key: one[key] for key in one if key != "target"} for one in found.conditions]
    return Asked(_merged(content, given), found, path, given)


def parse_seeds(option: str, text: str) -> list[int]:
    """Parse ``0-4``, ``3`` or ``0,2,7``.

    Raises:
        ConfigurationError: It is none of these.
    """
    try:
        first, dash, last = text.partition("-")
        numbers = range(int(first), int(last) + 1) if dash else [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or len(numbers) > _MOST_SEEDS or min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise ConfigurationError(f"--{option} {text!r}: expected FIRST-LAST or numbers with commas, for example 0-4")
    return list(numbers)


def _explained(error: ValidationError, flags: Mapping[str, Any], path: Path | None) -> ConfigurationError:
    # A key that is misspelled is missing, too.
    first = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    key = ".".join(part for part in first["loc"] if isinstance(part, str))  # without places in a list
    if first["type"] == "extra_forbidden":
        return UnknownName("key", key, Plan.model_fields, f"[compare] of {path}")
    if first["type"] == "missing":
        there = f", or algorithms in [compare] of {path}" if path else ""
        return ConfigurationError(f"--{key} is missing{there}: for example --algorithms local,dfedavgm,dfedsmdc")
    where = f"--{key.replace('_', '-')}" if str(first["loc"][0]) in flags else f"compare.{key} in {path}"
    return ConfigurationError(f"{where} = {first['input']!r}: {first['msg'].lower()}")


def _merged(content: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Two sets of settings, the second overriding the first; options of task, algorithm and model of both are kept."""
    merged = {**content, **more}
    for key in TABLES:
        options = [there for values in (content, more) if isinstance(there := values.get(key), Mapping)]
        if options[1:]:
            merged[key] = dict(itertools.chain(*(one.items() for one in options)))
    return merged


def _taken(content: dict[str, Any], name: str, path: Path | None, place: str = "") -> dict[str, Any] | None:
    """Take a table out of the file's content."""
    found = content.pop(name, None)
    if found is not None and not isinstance(found, dict):
        raise ConfigurationError(f"{place}{name} in {path} = {found!r}: expected a table, [{place}{name}]")
    return found
