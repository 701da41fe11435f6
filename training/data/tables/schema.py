"""Schema of a table: the kinds of its columns, so that the inputs of all sites mean the same; no torch."""

from __future__ import annotations

import datetime
import json
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    ValidationError,
    model_validator,
)

from dpeer.exceptions import ConfigurationError, UnknownName
from dpeer.sections import Mistake
from dpeer.toml_text import read_toml

OTHER = "other"
"""The name of a category that the schema does not list."""

SINCE = datetime.date(2000, 1, 1)
"""The day from which days are counted, where a schema names no other."""


def _as_words(value: Any) -> Any:
    """One word or a list of them as texts: codes are often written as numbers."""
    given = value if isinstance(value, list | tuple) else [value]
    return tuple(_word(one) for one in given)


def _word(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else composed(value) if isinstance(value, str) else value


HIDDEN = re.compile("[\u00a0\u00ad\u2007\u200b-\u200f\u202a-\u202f\u2060-\u2064\u2066-\u2069\ufeff]")
"""Invisible signs: of no width, soft hyphens, marks of direction and order, and blanks that do not break."""

_NO_BREAK = str.maketrans("\u00a0\u2007\u202f", "   ")


def composed(text: str) -> str:
    """A text without blanks around it and without hidden signs, its letters in composed form.

    macOS writes some letters as a letter and an accent.
    """
    if text.isascii():
        return text.strip()
    return unicodedata.normalize("NFC", HIDDEN.sub("", text.translate(_NO_BREAK)).strip())


def _different(words: tuple[str, ...]) -> tuple[str, ...]:
    if twice := next((word for number, word in enumerate(words) if word in words[:number]), None):
        raise ValueError(f"{twice!r} stands there twice")
    return words


def _rising(ends: tuple[Any, Any]) -> tuple[Any, Any]:
    if not ends[0] < ends[1]:
        raise ValueError("the first must be below the second")
    return ends


Words = Annotated[tuple[str, ...], BeforeValidator(_as_words), AfterValidator(_different)]
SomeWords = Annotated[Words, Field(min_length=1)]
Range = Annotated[tuple[FiniteFloat, FiniteFloat], AfterValidator(_rising)]
Days = Annotated[tuple[datetime.date, datetime.date], AfterValidator(_rising)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Column(_Strict):
    """A column that inputs are made of; `missing` are its words for a gap, besides those of the whole schema."""

    missing: Words = ()


class _Scaled(Column):
    """A column with a plausible range, by which it may be scaled; a gap is filled with what the range allows."""

    @model_validator(mode="after")
    def _fills(self) -> Self:
        ends, filling = getattr(self, "range", None), getattr(self, "filling", None)
        if ends is not None and filling is not None and not ends[0] <= filling <= ends[1]:
            raise ValueError(f"filling = {filling} is outside range = [{ends[0]}, {ends[1]}]")
        return self


class Number(_Scaled):
    """A number, scaled by the peer's own training rows or by its range.

    Attributes:
        unit: What it is measured in; peers compare it.
        range: The plausible values; None for any.
        filling: What a gap counts as; if None the median of the own training rows, or the middle of the range.
        limits: Whether `<1.0` and `>500` are read: the bound as the value, and an input that says which bound it is.
    """

    kind: Literal["number"]
    unit: str = ""
    range: Range | None = None
    filling: FiniteFloat | None = None
    limits: bool = False


class Category(Column):
    """One of a few words, in any order; all others become `OTHER`."""

    kind: Literal["category"]
    values: SomeWords


class YesNo(Column):
    """Yes (1) or no (-1), however that is written; capitals do not matter."""

    kind: Literal["yes-no"]
    yes: SomeWords
    no: SomeWords

    @model_validator(mode="after")
    def _apart(self) -> YesNo:
        both = {word.casefold() for word in self.yes} & {word.casefold() for word in self.no}
        if both:
            raise ValueError(f"{min(both)!r} is a word for yes and for no")
        return self


class Date(_Scaled):
    """A day, or a day with a time, as a number of days since a stated one; scaled as a number is.

    Attributes:
        format: How it is written, in the signs of Python's `strptime`; formats that fit a cell must read it alike.
        since: The day that is 0.
        range: The plausible days; None for any.
        filling: What a gap counts as; as in `Number`.
    """

    kind: Literal["date"]
    format: SomeWords
    since: datetime.date = SINCE
    range: Days | None = None
    filling: datetime.date | None = None


class Text(Column):
    """A few words, as parts of words that are hashed into `size` inputs."""

    kind: Literal["text"]
    size: int = Field(64, ge=8, le=4096)


class Group(_Strict):
    """The column by which rows belong together, such as a patient's; it is no input, and peers do not compare it."""

    kind: Literal["group"]


class Ignore(_Strict):
    """A column that is left out, and that peers do not compare."""

    kind: Literal["ignore"]


AnyColumn = Annotated[
    Number | Category | YesNo | Date | Text | Group | Ignore,
    Field(discriminator="kind"),
]
KINDS: Mapping[str, type[BaseModel]] = {
    get_args(kind.model_fields["kind"].annotation)[0]: kind
    for kind in (Number, Category, YesNo, Date, Text, Group, Ignore)
}
"""Every kind of column by its name."""


class Target(_Strict):
    """The column to predict: classes, in the order of their numbers, or a number with its unit and plausible range."""

    column: Annotated[str, AfterValidator(composed)] = Field(min_length=1)
    kind: Literal["classification", "regression"] = "classification"
    classes: Words = ()
    unit: str = ""
    range: Range | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_limits(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and "limits" in values:
            raise ValueError(
                "limits is for inputs, because no loss counts how far beyond a bound a value lies: leave rows with a "
                "bound out, or write a number in its place"
            )
        return values

    @model_validator(mode="after")
    def _fits(self) -> Target:
        if self.kind == "classification" and len(self.classes) < 2:
            raise ValueError('a classification needs two classes or more, such as classes = ["no", "yes"]')
        if self.kind == "classification" and (self.range is not None or self.unit):
            raise ValueError('range and unit are for kind = "regression"')
        if self.kind == "regression" and self.classes:
            raise ValueError('classes are for kind = "classification"')
        return self


MISSING = ("NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "?", "-")
"""Words that stand for a gap where a schema names no others; an empty cell always is one."""

_UNORDERED = ("missing", "values", "yes", "no")

WORDS = "missing ="
"""What the words for a gap are called among the definitions of columns."""


def _composed(columns: Any) -> Any:
    return {composed(name): column for name, column in columns.items()} if isinstance(columns, Mapping) else columns


class Schema(_Strict):
    """The columns of a table, by name, and the words that stand for a gap in any of them."""

    plain: ClassVar[bool] = False
    """Whether all inputs are numbers as they are: no gap, no code, and no input beside the number."""

    format: Literal[1]
    missing: Words = MISSING
    target: Target
    columns: Annotated[Mapping[str, AnyColumn], BeforeValidator(_composed)] = Field(min_length=1)

    @model_validator(mode="after")
    def _fits(self) -> Schema:
        if self.target.column in self.columns:
            raise ValueError(f"column {self.target.column!r} is the target: leave out [columns.{self.target.column}]")
        if not self.inputs:
            raise ValueError("no column to learn from: at least one must be no group and not ignored")
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
    def limited(self) -> list[str]:
        """The columns of numbers that may be bounds."""
        return [name for name, it in self.inputs.items() if isinstance(it, Number) and it.limits]

    @property
    def without_range(self) -> list[str]:
        """The columns of numbers and dates that have no range by which they could be scaled."""
        return [name for name, it in self.inputs.items() if isinstance(it, Number | Date) and it.range is None]

    def definitions(self) -> dict[str, str]:
        """By column, the target's included, a text that is the same where a column means the same.

        The order of columns and of a category's values, and what is ignored or a group, mean nothing. The order of the
        classes does.
        """
        found: dict[str, Any] = {WORDS: {"missing": sorted(self.missing)}}
        for name, column in self.inputs.items():
            keys = column.model_dump(mode="json").items()
            found[name] = {key: sorted(value) if key in _UNORDERED else value for key, value in keys}
        found[self.target.column] = {"target": self.target.model_dump(mode="json", exclude={"column"})}
        return {name: json.dumps(one, sort_keys=True) for name, one in found.items()}


class PlainSchema(Schema):
    """What options say of a table without a schema: numbers as they are, which the model scales."""

    plain: ClassVar[bool] = True

    @classmethod
    def of(cls, target: Mapping[str, Any], kinds: Mapping[str, str]) -> PlainSchema:
        """The schema with these keys of the target, and the kind of each column."""
        columns = {name: {"kind": kind} for name, kind in kinds.items()}
        return cls.model_validate({"format": 1, "target": target, "columns": columns})


def read_schema(path: str | Path) -> Schema:
    """Read a schema.toml.

    Raises:
        ConfigurationError: The file is missing or has a mistake; the error names key, value and what would be right.
        UnknownName: A key or a kind does not exist.
    """
    advice = "; `dpeer schema init FILE.csv` proposes one"
    return parsed(read_toml(Path(path).expanduser(), "schema", advice), str(path))


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
    mistake = Mistake(error)
    # A union names the kind that was tried after the column's name.
    keys = [part for number, part in enumerate(mistake.keys) if not (number == 2 and part in KINDS)]
    key, place = ".".join(keys), f"schema {path!r}"
    if mistake.kind == "union_tag_invalid":
        return UnknownName("kind", str(mistake.context["tag"]), KINDS, f"{key} of {path}")
    if mistake.kind == "union_tag_not_found":
        return ConfigurationError(f'{place}: {key} has no kind: write kind = "number" (or {", ".join([*KINDS][1:])})')
    known = _known(keys[:-1], content) if mistake.kind == "extra_forbidden" else ()
    expected = None if keys == ["format"] else _EXAMPLES.get(key.rpartition(".")[2])
    where = f"{'.'.join(keys[:-1]) or 'the top'} of {path}"
    return mistake.error(f"{place}{key and f': {key}'}", known, where, expected=expected)


def _known(keys: list[str], content: Mapping[str, Any]) -> list[str]:
    """The keys that a table of the file may have."""
    if keys in ([], ["target"]):
        return [*(Target if keys else Schema).model_fields]
    return [*KINDS[content["columns"][keys[1]]["kind"]].model_fields]
