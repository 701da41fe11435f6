"""Preparation: the rows of a table become a model's inputs, by a schema and stored statistics; no torch.

Bits are those of scikit-learn's SimpleImputer, StandardScaler, MinMaxScaler, OneHotEncoder and HashingVectorizer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeer.exceptions import CheckpointError, ConfigurationError
from dpeer.training.data.tables.check import Checked
from dpeer.training.data.tables.decode import Verdict, filling_of, range_of, slots
from dpeer.training.data.tables.schema import Category, Column, Date, Number, PlainSchema, Schema, Text, YesNo

FORMAT = 3
"""Version of the JSON of `Preparation`."""

Array = NDArray[np.floating[Any]]
Statistics = Mapping[str, Mapping[str, float]]
"""By column of numbers or dates: what a gap is filled with ("filling"), and the "mean" and "scale" of the filled
training rows; without these two it is scaled by its range."""


def of_kind(schema: Schema, *kinds: type[Column]) -> dict[str, Any]:
    """The columns of these kinds, by name."""
    return {name: column for name, column in schema.inputs.items() if isinstance(column, kinds)}


def single_numbers(schema: Schema) -> dict[str, Any]:
    """The columns that have one number in a row as it is kept, by name, in their order."""
    return {**of_kind(schema, Number, Date), **of_kind(schema, YesNo), **of_kind(schema, Category)}


def input_names(schema: Schema) -> tuple[str, ...]:
    """What a model's inputs are called, in their order: ``age``, ``age is missing``, ``blood group = AB``, ..."""
    if schema.plain:
        return tuple(schema.inputs)
    singles = [*of_kind(schema, Number, Date), *of_kind(schema, YesNo)]
    found = [*singles, *(f"{name} is missing" for name in singles)]
    for name, column in of_kind(schema, Category).items():
        found += [f"{name} = {word}" for word in slots(column)] + [f"{name} is missing"]
    for name, column in of_kind(schema, Text).items():
        found += [f"{name} words {number}" for number in range(column.size)] + [f"{name} is missing"]
    return (*found, *(f"{name} is a bound" for name in schema.limited))


def raw_rows(table: Checked) -> Array:
    """Rows as they are kept until it is known which of them are for training, shape (rows, numbers).

    A row has one number a column for numbers and dates, yes-no and categories (`Decoded.values`), then for each column
    of text its hashed words and 1 where it is missing, then `Decoded.bounds` of each column with limits.
    """
    schema, columns = table.schema, table.columns
    single = single_numbers(schema)
    # Without a schema these are the inputs: records' keyed hashes are of their bytes.
    kind = np.float32 if schema.plain else np.float64
    blocks = [np.stack([columns[name].values for name in single], axis=1, dtype=kind)] if single else []
    for name, column in of_kind(schema, Text).items():
        gap = columns[name].verdicts == Verdict.GAP
        words = ["" if missing else cell for cell, missing in zip(table.sheet.cells[name], gap, strict=True)]
        blocks += [hashed(words, column.size), gap[:, None].astype(np.float64)]
    blocks += [bounds[:, None] for name in schema.limited if (bounds := columns[name].bounds) is not None]
    return np.concatenate(blocks, axis=1)


def hashed(texts: Sequence[str], size: int) -> NDArray[np.float64]:
    """The parts of each text's words, hashed to signed counts and scaled to length 1; shape (texts, size).

    Bit for bit as by scikit-learn's HashingVectorizer.
    """
    rows = np.zeros((len(texts), size))
    for row, text in zip(rows, texts, strict=True):
        for part in _parts(text.lower()):
            number = _murmur3(part)
            row[abs(number) % size] += 1 if number >= 0 else -1
    length = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    np.divide(rows, length, out=rows, where=length > 0)
    return rows


def _parts(text: str) -> Iterator[str]:
    """Parts of two to four letters of each word, which has a blank on both sides."""
    for word in (f" {word} " for word in text.split()):
        for size in range(2, min(4, len(word)) + 1):
            yield from (word[first : first + size] for first in range(len(word) - size + 1))


_MASK = 0xFFFFFFFF


def _turned(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK


def _scrambled(block: bytes) -> int:
    return _turned(int.from_bytes(block, "little") * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK


@lru_cache(maxsize=1 << 16)
def _murmur3(text: str) -> int:
    """MurmurHash3 (x86, 32 bits, seed 0) of a text in UTF-8, as a signed number."""
    content, found = text.encode(), 0
    whole = len(content) // 4 * 4
    for first in range(0, whole, 4):
        found = _turned(found ^ _scrambled(content[first : first + 4]), 13) * 5 + 0xE6546B64 & _MASK
    found ^= _scrambled(content[whole:]) ^ len(content)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        found = (found ^ found >> shift) * factor & _MASK
    found ^= found >> 16
    return found - (1 << 32) if found >> 31 else found


def fit(schema: Schema, raw: Array, *, own: bool) -> Preparation:
    """The preparation, with the statistics of training rows.

    Args:
        schema: What the columns are.
        raw: As `raw_rows` gives them.
        own: Whether anything may be computed from the rows; else all follows from the schema.

    Raises:
        ConfigurationError: Nothing may be computed, and a column has no range.
    """
    columns = {} if schema.plain else of_kind(schema, Number, Date)
    fillings = {}  # what the schema says, else the middle of the range, else 0
    for name, column in columns.items():
        stated, (low, high) = filling_of(column), range_of(column) or (0.0, 0.0)
        fillings[name] = (low + high) / 2 if stated is None else stated
    if not own:
        if columns and (without := schema.without_range):
            raise ConfigurationError(
                f"the schema gives no range for {', '.join(map(repr, without))}: with --privacy or --no-standardize "
                "numbers are scaled by their ranges alone; add range = [LOW, HIGH] to each"
            )
        return Preparation(schema, {name: {"filling": filling} for name, filling in fillings.items()})
    if not columns:
        return Preparation(schema, {})
    values = raw[:, : len(columns)]
    gaps = np.isnan(values)
    for place, (name, column) in enumerate(columns.items()):
        if filling_of(column) is None and not gaps[:, place].all():
            fillings[name] = float(np.median(values[~gaps[:, place], place]))
    mean, scale = _scaling(np.where(gaps, [*fillings.values()], values))
    found = zip(fillings.items(), mean.tolist(), scale.tolist(), strict=True)
    return Preparation(schema, {name: {"filling": it, "mean": one, "scale": other} for (name, it), one, other in found})


def _scaling(values: Array) -> tuple[Array, Array]:
    """Mean and deviation of each column; 1 for the deviation of a constant, as far as rounding shows one."""
    count, mean = len(values), values.sum(axis=0) / len(values)
    apart = values - mean
    # In two passes (Chan, Golub, LeVeque: Algorithms for Computing the Sample Variance, 1983, equation 1.7).
    variance = ((apart**2).sum(axis=0) - apart.sum(axis=0) ** 2 / count) / count
    eps = np.finfo(np.float64).eps
    constant = variance <= count * eps * variance + (count * mean * eps) ** 2
    return mean, np.where(constant, 1.0, np.sqrt(variance))


@dataclass(frozen=True)
class Preparation:
    """How rows of a table become a model's inputs.

    It is made when a peer reads its training rows, saved beside the model as ``preparation.json``, and made again from
    that file without any data: then it gives the same bits as it gave for the training rows.
    """

    schema: Schema
    statistics: Statistics

    @property
    def names(self) -> tuple[str, ...]:
        """What each input is called; the model's inputs have shape (len(names),)."""
        return input_names(self.schema)

    @property
    def definitions(self) -> dict[str, str] | None:
        """By column, what all peers must define alike, as a text to compare; None where no schema says it."""
        return None if self.schema.plain else self.schema.definitions()

    @property
    def numbers(self) -> dict[str, Number | Date]:
        """The columns of numbers and dates."""
        return {} if self.schema.plain else of_kind(self.schema, Number, Date)

    @property
    def scaling(self) -> tuple[Array, tuple[Array, Array], bool]:
        """Of `numbers`: fillings, mean and scale, or scale and shift by the range; and which it is."""
        found = [self.statistics[name] for name in self.numbers]
        fillings = np.array([of["filling"] for of in found])
        if any("mean" in of for of in found):
            return fillings, (np.array([of["mean"] for of in found]), np.array([of["scale"] for of in found])), True
        low, high = np.array([range_of(column) for column in self.numbers.values()]).reshape(-1, 2).T
        scale = 2 / (high - low)
        return fillings, (scale, -1 - low * scale), False

    def to_json(self) -> dict[str, Any]:
        """Everything that `from_json` needs, as JSON values; floats keep every bit."""
        return {
            "format": FORMAT,
            "plain": self.schema.plain,
            "inputs": list(self.names),
            "schema": self.schema.model_dump(mode="json"),
            "statistics": {name: dict(found) for name, found in self.statistics.items()},
        }

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Preparation:
        """Undo `to_json`.

        Raises:
            CheckpointError: It is damaged, or of another version.
        """
        if content.get("format") != FORMAT:
            raise CheckpointError(
                f"the preparation has format {content.get('format')!r}, this dpeer reads {FORMAT}: use the version "
                "that wrote it"
            )
        try:
            kind = PlainSchema if content["plain"] else Schema
            made = Preparation(kind.model_validate(content["schema"]), content["statistics"])
            _ = made.scaling  # what is damaged shows now
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"the preparation is damaged: {error!r}") from error
        return made
