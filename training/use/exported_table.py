"""The columns of a table whose exported model takes a number for each: how they are described, and rows to try."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from dpeer.training.data.tables.decode import slots
from dpeer.training.data.tables.schema import Category, Date, Number, Schema, Text, YesNo


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
