"""Tables with a schema as inputs of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpeer.exceptions import TaskError
from dpeer.training.data.tables.check import missing_columns, remarks, unreadable
from dpeer.training.data.tables.decode import Decoded, Verdict, decode
from dpeer.training.data.tables.inputs import FORMAT, Raw, TableInputs, as_targets
from dpeer.training.data.tables.prepare import Layout, Statistics, fit, transformer
from dpeer.training.data.tables.schema import Schema
from dpeer.training.data.tables.sheet import Sheet


@dataclass(frozen=True)
class UnfittedSchema:
    """A schema whose statistics are still to come.

    Attributes:
        schema: What the columns are.
        remarks: What was seen when the rows were read.
    """

    schema: Schema
    remarks: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """How many inputs a row will have."""
        return len(Layout.of(self.schema).names)

    @property
    def target_range(self) -> tuple[float, float] | None:
        """The range of the number to predict; None without one."""
        return self.schema.target.range

    def fit(self, raw: Tensor, *, own_statistics: bool) -> SchemaInputs:
        """The preparation, with the statistics of these rows if it may have any.

        Raises:
            ConfigurationError: It may not, and a number has no range.
        """
        statistics = fit(Layout.of(self.schema), raw.numpy(), own=own_statistics)
        return SchemaInputs(self.schema, statistics, self.remarks)


@dataclass(frozen=True)
class SchemaInputs(TableInputs):
    """Columns as a schema says, with the statistics of the training rows.

    Attributes:
        schema: What the columns are.
        statistics: As in `dpeer.training.data.tables.prepare`.
        remarks: What was seen when the training rows were read; not saved.
    """

    schema: Schema
    statistics: Statistics
    remarks: tuple[str, ...] = ()

    @property
    def target(self) -> str:  # type: ignore[override]
        """The column to predict."""
        return self.schema.target.column

    @property
    def classes(self) -> tuple[str, ...]:  # type: ignore[override]
        """The classes' names by number; () where the target is a number."""
        return self.schema.target.classes

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The columns that inputs are made of, sorted."""
        return tuple(self.schema.inputs)

    @property
    def group(self) -> str | None:  # type: ignore[override]
        """The column that says which rows belong together."""
        return self.schema.group

    @property
    def definitions(self) -> Mapping[str, str]:  # type: ignore[override]
        """By column, what all peers must define alike."""
        return self.schema.definitions()

    @property
    def scales(self) -> bool:  # type: ignore[override]
        """True: the model need not scale."""
        return True

    @property
    def names(self) -> tuple[str, ...]:
        """What each input is called."""
        return self._layout.names

    @cached_property
    def _layout(self) -> Layout:
        return Layout.of(self.schema)

    @cached_property
    def _transformer(self) -> Any:
        return transformer(self._layout, self.statistics)

    def prepare(self, raw: Tensor) -> Tensor:
        """Rows as `Layout.raw` gives them, filled, scaled and with an input for each category, float32."""
        if not len(raw):
            return torch.empty((0, len(self.names)))
        found: np.ndarray[Any, Any] = self._transformer.transform(raw.numpy())
        return torch.from_numpy(found.astype(np.float32))

    def raw(self, sheet: Sheet, *, labels: bool) -> Raw:
        """See `TableInputs.raw`; shape (rows, numbers), float64."""
        schema = self.schema
        if problem := missing_columns(schema, sheet, labels=labels):
            raise TaskError(f"{sheet.path!r} does not fit the schema: {problem}")
        raw, decoded = self._layout.raw(sheet.cells, sheet.decimal)
        found = None
        if labels:
            found = decoded[schema.target.column] = _target(schema, sheet)
        if problem := unreadable(schema, sheet, decoded):
            raise TaskError(problem)
        truth = None if found is None else _labels(schema, found)
        return Raw(torch.from_numpy(raw), truth, remarks(schema, sheet, decoded))

    def to_json(self) -> dict[str, Any]:
        """Everything that `restored` needs."""
        return {
            "format": FORMAT,
            "kind": "schema",
            "inputs": list(self.names),
            "schema": self.schema.model_dump(mode="json"),
            "statistics": {name: dict(found) for name, found in self.statistics.items()},
        }

    @classmethod
    def restored(cls, content: Mapping[str, Any]) -> SchemaInputs:
        """Undo `to_json`."""
        made = cls(Schema.model_validate(content["schema"]), content["statistics"])
        _ = made._transformer  # what is damaged shows now
        return made


def _target(schema: Schema, sheet: Sheet) -> Decoded:
    """The column to predict, in which a gap or an implausible value is an error."""
    found = decode(schema.target, sheet.cells[schema.target.column], schema.missing, decimal=sheet.decimal)
    found.verdicts[found.rows(Verdict.BEYOND, Verdict.GAP)] = Verdict.WRONG
    return found


def _labels(schema: Schema, found: Decoded) -> Tensor:
    if schema.target.classes:
        return torch.from_numpy(found.values.astype(np.int64))
    return as_targets(found.values, f"column {schema.target.column!r}")
