"""Schema of a table: the kinds of its columns, so that the inputs of all sites mean the same; no torch."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from dpeer.encoding import read_text
from dpeer.exceptions import ConfigurationError, UnknownName
from dpeer.training.data.tables.kinds import KINDS, AnyColumn, Column, Date, Group, Number, Target, Words, composed

MISSING = ("NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "?", "-")
"""Words that stand for a gap where a schema names no others; an empty cell always is one."""

WORDS = "missing ="
"""What the words for a gap are called among the definitions of columns."""


def _composed(columns: Any) -> Any:
    return {composed(name): column for name, column in columns.items()} if isinstance(columns, Mapping) else columns


class Schema(BaseModel):
    """The columns of a table.

    Attributes:
        format: Version of the file.
        missing: Words that stand for a gap in any column.
        target: The column to predict.
        columns: What each column is, by name.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1]
    missing: Words = MISSING
    target: Target
    columns: Annotated[Mapping[str, AnyColumn], BeforeValidator(_composed)] = Field(min_length=1)

    @model_validator(mode="after")
    def _fits(self) -> Schema:
        if self.target.column in self.columns:
            raise ValueError(f"column {self.target.column!r} is the target: leave out [columns.{self.target.column}]")
        if not self.inputs:
            raise ValueError("there is no column to learn from: at least one must be no group and not ignored")
        groups = [name for name, column in self.columns.items() if isinstance(column, Group)]
        if len(groups) > 1:
            raise ValueError(f"columns {', '.join(groups)} are of kind group: one column can say what belongs together")
        return self

    @property
    def inputs(self) -> dict[str, Column]:
        """The columns that inputs are made of, by name, sorted: the order in a file means nothing."""
        found = {name: column for name, column in self.columns.items() if isinstance(column, Column)}
        return dict(sorted(found.items()))

    @property
    def group(self) -> str | None:
        """The column that says which rows belong together."""
        return next((name for name, column in self.columns.items() if isinstance(column, Group)), None)

    @property
    def without_range(self) -> list[str]:
        """The columns of numbers and dates that have no range by which they could be scaled."""
        return [name for name, it in self.inputs.items() if isinstance(it, Number | Date) and it.range is None]

    def definitions(self) -> dict[str, str]:
        """By column, the target's included, a text that is the same where a column means the same.

        The order of columns and of a category's values, and what is ignored or a group, mean nothing. The order of the
        classes does.
        """
        found = {name: _definition(column) for name, column in self.inputs.items()}
        found[WORDS] = {"missing": sorted(self.missing)}
        found[self.target.column] = {"target": self.target.model_dump(mode="json", exclude={"column"})}
        return {name: json.dumps(one, sort_keys=True) for name, one in found.items()}


def _definition(column: Column) -> dict[str, Any]:
    found = column.model_dump(mode="json")
    unordered = ("missing", "values", "yes", "no")
    return {key: sorted(value) if key in unordered else value for key, value in found.items()}


def read_schema(path: str | Path) -> Schema:
    """Read a schema.toml.

    Raises:
        ConfigurationError: There is none, or something in it cannot be; names key, value and what would be right.
        UnknownName: A key or a kind does not exist.
    """
    try:
        content = tomllib.loads(read_text(Path(path).expanduser()))
    except OSError as error:
        raise ConfigurationError(
            f"schema {str(path)!r}: {error.strerror}; `dpeer schema init FILE.csv` proposes one"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"schema {str(path)!r} is not valid TOML: {error}") from error
    return parsed(content, str(path))


def parsed(content: Mapping[str, Any], path: str) -> Schema:
    """A schema from the values of its file; `path` names it in errors.

    Raises:
        ConfigurationError, UnknownName: As in `read_schema`.
    """
    try:
        return Schema.model_validate(content)
    except ValidationError as error:
        raise _mistake(error, content, path) from error


_EXAMPLES = {
    "range": "two of them, such as [0, 120]",
    "values": 'a list of words, such as ["A", "B"]',
    "classes": 'a list of words, such as ["no", "yes"]',
    "yes": 'a list of words, such as ["yes", "1"]',
    "no": 'a list of words, such as ["no", "0"]',
    "format": 'a list of formats, such as ["%Y-%m-%d"]',
    "since": "a day without quotes, such as 2000-01-01",
    "missing": 'a list of words, such as ["NA", "?"]',
}


def _mistake(error: ValidationError, content: Mapping[str, Any], path: str) -> ConfigurationError:
    """The first mistake as one line."""
    first = error.errors()[0]
    location = [str(part) for part in first["loc"]]
    # A union names the kind that was tried after the column's name.
    keys = [part for number, part in enumerate(location) if not (number == 2 and part in KINDS)]
    key, place = ".".join(keys), f"schema {path!r}"
    if first["type"] == "extra_forbidden":
        return UnknownName("key", keys[-1], _known(keys[:-1], content), f"{'.'.join(keys[:-1]) or 'the top'} of {path}")
    if first["type"] == "union_tag_invalid":
        return UnknownName("kind", str(first["ctx"]["tag"]), KINDS, f"{key} of {path}")
    if first["type"] == "union_tag_not_found":
        return ConfigurationError(f'{place}: {key} has no kind: write kind = "number" (or {", ".join([*KINDS][1:])})')
    if first["type"] == "missing":
        return ConfigurationError(f"{place}: {key} is missing{_as(keys[-1])}")
    wrong = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error" and isinstance(first["input"], Mapping):
        return ConfigurationError(f"{place}{f': {key}' if key else ''}: {wrong}")
    return ConfigurationError(f"{place}: {key} = {first['input']!r}: {wrong[:1].lower()}{wrong[1:]}{_as(keys[-1])}")


def _as(key: str) -> str:
    return f"; expected {_EXAMPLES[key]}" if key in _EXAMPLES else ""


def _known(keys: list[str], content: Mapping[str, Any]) -> list[str]:
    """The keys that a table of the file may have."""
    if not keys:
        return [*Schema.model_fields]
    if keys == ["target"]:
        return [*Target.model_fields]
    model = KINDS[content["columns"][keys[1]]["kind"]]
    return [*model.model_fields]
