"""Tables of numbers without a schema, as inputs of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpeer.exceptions import UnknownName
from dpeer.training.data.tables.cells import Sheet, read_sheet
from dpeer.training.data.tables.columns import class_numbers, numbers
from dpeer.training.data.tables.inputs import FORMAT, Rows, TableInputs, as_targets, check_told_apart


@dataclass(frozen=True)
class PlainInputs(TableInputs):
    """Columns of numbers as they are; the model scales them itself where that is wanted.

    Attributes:
        target: The column to predict.
        classes: The classes by number; () where the target is a number.
        columns: The columns of inputs, sorted.
        group: The column that says which rows belong together; None without one.
    """

    target: str
    classes: tuple[str, ...]
    columns: tuple[str, ...]
    group: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What each input is called: as its column."""
        return self.columns

    @property
    def width(self) -> int:
        """How many inputs a row has."""
        return len(self.columns)

    @property
    def target_range(self) -> None:
        """No plausible range of the number to predict is known without a schema."""

    def fit(self, raw: Tensor, *, own_statistics: bool) -> PlainInputs:
        """Itself: nothing is computed from the rows."""
        return self

    def prepare(self, raw: Tensor) -> Tensor:
        """The inputs as they are."""
        return raw

    def read(self, path: str | Path, *, labels: bool = True) -> Rows:
        """Read rows by their columns' names; see `TableInputs.read`."""
        sheet = read_sheet(str(path))
        if missing := [name for name in self.columns if name not in sheet.cells]:
            raise UnknownName("column", ", ".join(missing), sheet.header, f"what the model needs; {sheet.path!r}")
        inputs = torch.from_numpy(table_of(sheet, self.columns))
        found = labels_of(sheet, self) if labels and self.target in sheet.header else None
        used = {*self.columns, self.target}
        others = {name: tuple(sheet.cells[name]) for name in sheet.header if name not in used}
        return Rows(inputs, found, self.names, others, tuple(sheet.places))

    def to_json(self) -> dict[str, Any]:
        """Everything that `restored` needs."""
        return {
            "format": FORMAT,
            "kind": "plain",
            "target": self.target,
            "classes": list(self.classes),
            "columns": list(self.columns),
            "group": self.group,
        }

    @classmethod
    def restored(cls, content: Mapping[str, Any]) -> PlainInputs:
        """Undo `to_json`."""
        return cls(content["target"], tuple(content["classes"]), tuple(content["columns"]), content["group"])


def table_of(
    sheet: Sheet, columns: tuple[str, ...], hint: str = "", *, learn: bool = False
) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Columns of numbers, shape (rows, columns), float32.

    Args:
        sheet: The table.
        columns: Which, in this order.
        hint: What the end of an error about a column says, in front of its name.
        learn: Whether a model is to learn from them: then float32 must tell them apart.

    Raises:
        TaskError: A cell is not a finite number, or a column's numbers are nearly one in float32.
    """
    features = np.empty((len(sheet), len(columns)), np.float32)
    for number, name in enumerate(columns):
        found = numbers(sheet, name, hint)
        if learn:
            check_told_apart(found, f"{sheet.path!r}, column {name!r}")
        features[:, number] = found
    return features


def labels_of(sheet: Sheet, inputs: TableInputs) -> Tensor:
    """Class numbers, shape (rows,), int64; or values, shape (rows, 1), float32.

    Raises:
        TaskError: A cell is none of the classes, or no number.
    """
    if inputs.classes:
        return torch.from_numpy(class_numbers(sheet, inputs.target, inputs.classes))
    return as_targets(numbers(sheet, inputs.target), f"column {inputs.target!r}")
