"""A table's preparation as a part of an exported model, whose input has a number for each of the table's columns."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dpeer.training.data.tables.decode import range_of, slots
from dpeer.training.data.tables.prepare import Preparation
from dpeer.training.data.tables.schema import Category, Date, Number, Schema, Text, YesNo


class OfColumns(nn.Module):
    """What is written of a table: its preparation, and the model behind it.

    Its input has a number for each column, float64, as `Decoded.values` (NaN is a gap), and behind these the
    `Decoded.bounds` of each column with limits.

    Args:
        whole: What takes prepared inputs.
        preparation: As the model has it; no column is text.
    """

    fillings: Tensor
    low: Tensor
    high: Tensor
    shift: Tensor
    scale: Tensor

    def __init__(self, whole: nn.Module, preparation: Preparation) -> None:
        super().__init__()
        self.whole, columns = whole, single_columns(preparation.schema)
        numbers = [name for name, column in columns.items() if isinstance(column, Number | Date)]
        found = [preparation.statistics[name] for name in numbers]
        ends = [range_of(columns[name]) or (-math.inf, math.inf) for name in numbers]
        # As `Preparation.prepare` has it: (x - mean) / scale by the own rows, else -1 to 1 by the range.
        self.own = any("mean" in of for of in found)
        by_range = [(2 / (high - low), -1 - low * (2 / (high - low))) for low, high in ends]
        scaling = [(of["mean"], of["scale"]) for of in found] if self.own else by_range
        for name, values in {
            "fillings": [of["filling"] for of in found],
            "low": [low for low, _ in ends],
            "high": [high for _, high in ends],
            "shift": [one[0] for one in scaling],
            "scale": [one[1] for one in scaling],
        }.items():
            self.register_buffer(name, torch.tensor(values, dtype=torch.float64))
        self.numbers = len(numbers)
        self.single = self.numbers + sum(isinstance(column, YesNo) for column in columns.values())
        self.columns = len(columns)
        self.slots = [len(slots(column)) for column in columns.values() if isinstance(column, Category)]

    def forward(self, inputs: Tensor) -> Tensor:
        """What `whole` gives for the prepared rows."""
        gaps = torch.isnan(inputs[:, : self.columns])
        numbers = torch.where(gaps[:, : self.numbers], self.fillings, inputs[:, : self.numbers])
        numbers = torch.minimum(torch.maximum(numbers, self.low), self.high)
        numbers = (numbers - self.shift) / self.scale if self.own else numbers * self.shift + self.scale
        rest = slice(self.numbers, self.single)
        blocks = [numbers, torch.where(gaps[:, rest], 0.0, inputs[:, rest]), gaps[:, : self.single]]
        for place, count in enumerate(self.slots, start=self.single):
            blocks += [inputs[:, place, None] == torch.arange(count, dtype=torch.float64), gaps[:, place, None]]
        blocks.append(inputs[:, self.columns :])
        found: Tensor = self.whole(torch.cat([block.float() for block in blocks], dim=1))
        return found


def single_columns(schema: Schema) -> dict[str, Any]:
    """The columns that have one number each, in the order in which rows have them; empty where one is text."""
    if schema.plain or any(isinstance(column, Text) for column in schema.inputs.values()):
        return {}
    order = (Number | Date, YesNo, Category)
    return {name: one for kind in order for name, one in schema.inputs.items() if isinstance(one, kind)}


def describe_columns(schema: Schema) -> list[dict[str, Any]]:
    """How the cells of each column become numbers, as JSON values; docs/models.md has a reader. Empty with text."""
    found = [_describe(name, column, schema.missing) for name, column in single_columns(schema).items()]
    return found and found + [{"name": name, "missing": [], "kind": "bound"} for name in schema.limited]


def _describe(name: str, column: Any, missing: Sequence[str]) -> dict[str, Any]:
    told: dict[str, Any] = {"name": name, "missing": ["", *missing, *column.missing], "kind": column.kind}
    if isinstance(column, Number) and column.limits:
        told["kind"] = "number or bound"
    elif isinstance(column, Date):
        told |= {"format": list(column.format), "since": column.since.isoformat()}
    elif isinstance(column, YesNo):
        words = dict.fromkeys(column.yes, 1.0) | dict.fromkeys(column.no, -1.0)
        told |= {"words": {word.casefold(): value for word, value in words.items()} | words}
    elif isinstance(column, Category):
        words = {word: float(place) for place, word in enumerate(slots(column))}
        folded = Counter(word.casefold() for word in words)
        alike = {word.casefold(): value for word, value in words.items() if folded[word.casefold()] == 1}
        told |= {"words": alike | words, "other": float(len(words) - 1)}
    return told


def sample_rows(rows: int, schema: Schema) -> Tensor:
    """A table's numbers to try a model with, and some gaps."""
    generator = torch.Generator().manual_seed(rows)
    made = []
    for column in single_columns(schema).values():
        count = len(slots(column)) if isinstance(column, Category) else 2
        drawn = torch.randint(count, (rows,), generator=generator).double()
        made.append(2 * drawn - 1 if isinstance(column, YesNo) else drawn)
    found = torch.stack(made, dim=1)
    bounds = torch.randint(-1, 2, (rows, len(schema.limited)), generator=generator)
    return torch.cat(
        [found.where(torch.rand(found.shape, generator=generator) < 0.8, math.nan), bounds.double()], dim=1
    )
