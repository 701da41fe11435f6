"""Preparation of decoded columns as inputs: imputed, scaled and one-hot by scikit-learn, from stored statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeer.exceptions import ConfigurationError
from dpeer.training.data.tables.decode import Verdict, decode, filling_of, range_of, slots
from dpeer.training.data.tables.schema import Category, Date, Number, Schema, Text, YesNo

Array = NDArray[np.float64]
Statistics = Mapping[str, Mapping[str, float]]
"""By column of numbers or dates: what a gap is filled with ("filling"), and the "mean" and "scale" of the filled
training rows; without these two it is scaled by its range."""


@dataclass(frozen=True)
class Layout:
    """Which columns of a schema lie where, kind by kind.

    A row as it is kept until the training rows are known has one number a column for numbers and dates, yes-no and
    categories (`Decoded.values`), then for each column of text its hashed words and 1 where it is missing.
    """

    schema: Schema
    numbers: tuple[str, ...]
    yes_no: tuple[str, ...]
    categories: tuple[str, ...]
    texts: tuple[str, ...]

    @classmethod
    def of(cls, schema: Schema) -> Layout:
        """The layout of a schema, the same whatever the order of its columns."""

        def names(kind: Any) -> tuple[str, ...]:
            return tuple(name for name, column in schema.inputs.items() if isinstance(column, kind))

        return cls(schema, names(Number | Date), names(YesNo), names(Category), names(Text))

    @property
    def names(self) -> tuple[str, ...]:
        """What the inputs are called, in their order."""
        singles = (*self.numbers, *self.yes_no)
        found = [*singles, *(f"{name} is missing" for name in singles)]
        for name in self.categories:
            found += [f"{name} = {word}" for word in _slots(self, name)] + [f"{name} is missing"]
        for name in self.texts:
            found += [f"{name} words {number}" for number in range(_size(self, name))] + [f"{name} is missing"]
        return tuple(found)

    def raw(self, cells: Mapping[str, Sequence[str]], decimal: str) -> tuple[Array, dict[str, Any]]:
        """The rows as they are kept until they are prepared, shape (rows, numbers), and the decoded columns by name."""
        inputs = self.schema.inputs
        found = {
            name: decode(column, cells[name], self.schema.missing, decimal=decimal) for name, column in inputs.items()
        }
        single = [found[name].values for name in (*self.numbers, *self.yes_no, *self.categories)]
        blocks = [np.stack(single, axis=1)] if single else []
        for name in self.texts:
            column = inputs[name]
            assert isinstance(column, Text)
            gap = found[name].verdicts == Verdict.GAP
            blocks += [_hashed(column, cells[name], gap), gap[:, None].astype(np.float64)]
        return np.concatenate(blocks, axis=1), found


def _hashed(column: Text, cells: Sequence[str], gap: NDArray[np.bool_]) -> Array:
    """Parts of words of two to four letters, hashed to signed counts and scaled to length 1, shape (rows, size)."""
    from sklearn.feature_extraction.text import HashingVectorizer

    hashing = HashingVectorizer(n_features=column.size, analyzer="char_wb", ngram_range=(2, 4), norm="l2")
    words = ["" if missing else cell for cell, missing in zip(cells, gap, strict=True)]
    dense: Array = hashing.transform(words).toarray()
    return dense


def fit(layout: Layout, raw: Array, *, own: bool) -> dict[str, dict[str, float]]:
    """The statistics of training rows, by column of numbers or dates.

    Args:
        layout: Where the columns are.
        raw: The training rows as `Layout.raw` gives them.
        own: Whether anything may be computed from the rows; else all follows from the schema.

    Raises:
        ConfigurationError: Nothing may be computed, and a column has no range.
    """
    inputs, count = layout.schema.inputs, len(layout.numbers)
    if not own and (without := layout.schema.without_range):
        raise ConfigurationError(
            f"the schema gives no range for {', '.join(map(repr, without))}: with --privacy or --no-standardize "
            "numbers are scaled by their ranges alone; add range = [LOW, HIGH] to each"
        )
    if not count:
        return {}
    if not own:
        return {name: {"filling": _stated_filling(inputs[name])} for name in layout.numbers}
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import StandardScaler

    values = raw[:, :count]
    medians = SimpleImputer(strategy="median", keep_empty_features=True).fit(values).statistics_
    empty = np.atleast_1d(np.isnan(values).all(axis=0))
    fillings = np.array(
        [
            _stated_filling(inputs[name]) if empty[place] or filling_of(inputs[name]) is not None else medians[place]
            for place, name in enumerate(layout.numbers)
        ]
    )
    scaler = StandardScaler().fit(np.where(np.isnan(values), fillings, values))
    return {
        name: {"filling": float(filling), "mean": float(mean), "scale": float(scale)}
        for name, filling, mean, scale in zip(layout.numbers, fillings, scaler.mean_, scaler.scale_, strict=True)
    }


def _stated_filling(column: Any) -> float:
    """What the schema says a gap counts as, else the middle of the range, else 0."""
    stated, ends = filling_of(column), range_of(column)
    if stated is not None:
        return stated
    return 0.0 if ends is None else (ends[0] + ends[1]) / 2


def transformer(layout: Layout, statistics: Statistics) -> Any:
    """scikit-learn's transformer of rows as `Layout.raw` gives them; made of the statistics alone, without data.

    Raises:
        KeyError: The statistics lack a column.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import MissingIndicator, SimpleImputer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

    inputs = layout.schema.inputs
    own = any("mean" in of for of in statistics.values())
    numbers = Pipeline(
        [
            ("filled", SimpleImputer(strategy="median")),
            ("scaled", StandardScaler() if own else MinMaxScaler(feature_range=(-1, 1))),
        ]
    )
    words = [[*map(float, range(len(_slots(layout, name)))), np.nan] for name in layout.categories]
    widths = [len(part) for part in (layout.numbers, layout.yes_no, layout.categories)]
    ends = np.cumsum([0, *widths, sum(_size(layout, name) + 1 for name in layout.texts)]).tolist()
    singles, yes_no, categories, texts = (list(range(*pair)) for pair in pairwise(ends))
    steps = [
        ("numbers", numbers, singles),
        ("yes-no", SimpleImputer(strategy="constant", fill_value=0.0), yes_no),
        ("gaps", MissingIndicator(features="all"), singles + yes_no),
        ("categories", OneHotEncoder(categories=words, sparse_output=False), categories),
        ("words", "passthrough", texts),
    ]
    made = ColumnTransformer([step for step in steps if step[2]], sparse_threshold=0)
    # Two rows in place of data: the ends of the ranges, which scale where no statistics do.
    rows = np.zeros((2, ends[-1]))
    if not own:
        rows[:, : widths[0]] = np.array([range_of(inputs[name]) for name in layout.numbers]).reshape(-1, 2).T
    made.fit(rows)
    if singles:
        fitted = made.named_transformers_["numbers"]
        fitted["filled"].statistics_ = np.array([statistics[name]["filling"] for name in layout.numbers])
    if singles and own:
        fitted["scaled"].mean_ = np.array([statistics[name]["mean"] for name in layout.numbers])
        fitted["scaled"].scale_ = np.array([statistics[name]["scale"] for name in layout.numbers])
        fitted["scaled"].var_ = fitted["scaled"].scale_ ** 2
    return made


def _slots(layout: Layout, name: str) -> tuple[str, ...]:
    column = layout.schema.inputs[name]
    assert isinstance(column, Category)
    return slots(column)


def _size(layout: Layout, name: str) -> int:
    column = layout.schema.inputs[name]
    assert isinstance(column, Text)
    return column.size
