"""The kinds of columns that a schema can have, with the keys of each."""

from __future__ import annotations

import datetime
import math
import unicodedata
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

OTHER = "other"
"""What a category is called that the schema does not list."""

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


def composed(text: str) -> str:
    """A text without blanks around it, its letters in composed form: macOS writes some as a letter and an accent."""
    return unicodedata.normalize("NFC", text.strip())


def _different(words: tuple[str, ...]) -> tuple[str, ...]:
    if twice := next((word for number, word in enumerate(words) if word in words[:number]), None):
        raise ValueError(f"{twice!r} stands there twice")
    return words


def _rising(ends: tuple[Any, Any]) -> tuple[Any, Any]:
    if not ends[0] < ends[1]:
        raise ValueError("the first must be below the second")
    return ends


def _finite(ends: tuple[float, float]) -> tuple[float, float]:
    if not all(math.isfinite(end) for end in ends):
        raise ValueError("both ends must be finite numbers")
    return ends


Words = Annotated[tuple[str, ...], BeforeValidator(_as_words), AfterValidator(_different)]
SomeWords = Annotated[Words, Field(min_length=1)]
Range = Annotated[tuple[float, float], AfterValidator(_finite), AfterValidator(_rising)]
Days = Annotated[tuple[datetime.date, datetime.date], AfterValidator(_rising)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Column(_Strict):
    """A column that inputs are made of.

    Attributes:
        missing: Words of this column that stand for a gap, besides those of the whole schema.
    """

    missing: Words = ()


T = TypeVar("T", bound=Any)


def _plausible(column: T) -> T:
    """The column, if a gap is filled with what its range allows."""
    if None not in (column.range, column.filling) and not column.range[0] <= column.filling <= column.range[1]:
        raise ValueError(f"filling = {column.filling} is outside range = [{column.range[0]}, {column.range[1]}]")
    return column


class Number(Column):
    """A number, scaled by the peer's own training rows or by its range.

    Attributes:
        unit: What it is measured in; peers compare it.
        range: The plausible values; None for any.
        filling: What a gap counts as; if None the median of the own training rows, or the middle of the range.
    """

    kind: Literal["number"]
    unit: str = ""
    range: Range | None = None
    filling: float | None = Field(None, allow_inf_nan=False)

    @model_validator(mode="after")
    def _fills(self) -> Number:
        return _plausible(self)


class Category(Column):
    """One of a few words; all others become `OTHER`.

    Attributes:
        values: The words, in any order.
    """

    kind: Literal["category"]
    values: SomeWords


class YesNo(Column):
    """Yes (1) or no (-1), however that is written; capitals do not matter.

    Attributes:
        yes: The words for yes.
        no: The words for no.
    """

    kind: Literal["yes-no"]
    yes: SomeWords
    no: SomeWords

    @model_validator(mode="after")
    def _apart(self) -> YesNo:
        both = {word.casefold() for word in self.yes} & {word.casefold() for word in self.no}
        if both:
            raise ValueError(f"{min(both)!r} is a word for yes and for no")
        return self


class Date(Column):
    """A day, or a day with a time, as a number of days since a stated one; scaled as a number is.

    Attributes:
        format: How it is written, in the signs of Python's `strptime`; the first format that fits counts.
        since: The day that is 0.
        range: The plausible days; None for any.
        filling: What a gap counts as; as in `Number`.
    """

    kind: Literal["date"]
    format: SomeWords
    since: datetime.date = SINCE
    range: Days | None = None
    filling: datetime.date | None = None

    @model_validator(mode="after")
    def _fills(self) -> Date:
        return _plausible(self)


class Text(Column):
    """A few words, as hashed parts of words.

    Attributes:
        size: Into how many inputs they are hashed.
    """

    kind: Literal["text"]
    size: int = Field(64, ge=8, le=4096)


class Group(_Strict):
    """Says which rows belong together, such as a patient's; it is no input, and a peer's own affair."""

    kind: Literal["group"]


class Ignore(_Strict):
    """Is left out, and a peer's own affair."""

    kind: Literal["ignore"]


AnyColumn = Annotated[
    Number | Category | YesNo | Date | Text | Group | Ignore,
    Field(discriminator="kind"),
]
KINDS: Mapping[str, type[BaseModel]] = {
    "number": Number,
    "category": Category,
    "yes-no": YesNo,
    "date": Date,
    "text": Text,
    "group": Group,
    "ignore": Ignore,
}
"""Every kind of column by its name."""


class Target(_Strict):
    """The column to predict.

    Attributes:
        column: Its name.
        kind: Whether a class or a number is predicted.
        classes: The classes, in the order of their numbers.
        unit: What the number is measured in.
        range: The plausible values of the number; None for any.
    """

    column: Annotated[str, AfterValidator(composed)] = Field(min_length=1)
    kind: Literal["classification", "regression"] = "classification"
    classes: Words = ()
    unit: str = ""
    range: Range | None = None

    @model_validator(mode="after")
    def _fits(self) -> Target:
        if self.kind == "classification" and len(self.classes) < 2:
            raise ValueError('a classification needs two classes or more, such as classes = ["no", "yes"]')
        if self.kind == "classification" and (self.range is not None or self.unit):
            raise ValueError('range and unit are for kind = "regression"')
        if self.kind == "regression" and self.classes:
            raise ValueError('classes are for kind = "classification"')
        return self
