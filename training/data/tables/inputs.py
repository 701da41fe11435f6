"""TableInputs: turns rows of a table into model inputs and labels; saved with the model for new rows."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpeer.exceptions import CheckpointError, TaskError
from dpeer.training.data.tables.sheet import Sheet, read_sheet

FORMAT = 1
"""Version of the JSON of `TableInputs`."""

_ROUNDED = 0.01
"""The largest share of the deviation of numbers that their rounding to float32 may be."""


class Rows(NamedTuple):
    """The rows of a table, as a model gets them.

    Attributes:
        inputs: Shape (rows, width), float32.
        labels: Class numbers, shape (rows,), int64; or values, shape (rows, 1), float32. None where the file has no
            column to predict, or it was not asked for.
        columns: What each input is called, width names: ``age``, ``age is missing``, ``blood group = AB``, ...
        others: All columns of the file that are neither inputs nor labels (ids, groups, ...), as their text.
        places: Each row's number as a spreadsheet shows it (the header is row 1); from 1 in a parquet file.
        remarks: Sentences on cells that did not fit and were read all the same, such as categories not known.
    """

    inputs: Tensor
    labels: Tensor | None
    columns: tuple[str, ...]
    others: Mapping[str, tuple[str, ...]]
    places: tuple[int, ...]
    remarks: tuple[str, ...] = ()


class Raw(NamedTuple):
    """The rows of a table as a reader keeps them until the preparation is fitted.

    Attributes:
        rows: Shape (rows, numbers).
        labels: As in `Rows`.
        remarks: As in `Rows`.
    """

    rows: Tensor
    labels: Tensor | None
    remarks: tuple[str, ...] = ()


def as_targets(values: NDArray[np.float64], what: str) -> Tensor:
    """Numbers to predict, shape (rows, 1), float32.

    Args:
        values: Shape (rows,).
        what: Where they are from, for messages.

    Raises:
        TaskError: They differ by less than float32 resolves at their size: what is learned would be its rounding.
    """
    check_distinct(values, what)
    return torch.from_numpy(values.astype(np.float32)).unsqueeze(1)


def check_distinct(values: NDArray[np.float64], what: str) -> None:
    """Refuse numbers that are nearly one number in float32, as milliseconds since 1970 are.

    Args:
        values: Shape (rows,).
        what: Where they are from, for messages.

    Raises:
        TaskError: They differ by less than float32 resolves at their size.
    """
    if len(values) and np.abs(values.astype(np.float32) - values).max() > _ROUNDED * np.std(values) > 0:
        about, apart = np.mean(values), np.std(values)
        raise TaskError(
            f"{what}: its numbers are about {about:.3g} and differ by about {apart:.3g}, too little to "
            "tell them apart in 32 bits: subtract a constant from all of them, the same at every site"
        )


class TableInputs(ABC):
    """Reader of the rows of a table as inputs and labels of a model.

    It is made when a peer reads its training rows, saved beside the model as ``preparation.json``, and made again from
    that file without any data: then `raw` and `prepare` give the same bits as they gave for the training rows.

    Attributes:
        target: The column to predict.
        classes: The classes' names by number; () where the target is a number.
        columns: The columns of the file that inputs are made of, sorted.
        group: The column that says which rows belong together; None without one.
        definitions: By column (the target's included), what all peers must define alike, as a text to compare; None
            where no schema says it.
        scales: Whether `prepare` scales numbers, so that the model need not.
        remarks: Sentences on what was seen when the training rows were read; not saved.
    """

    target: str
    classes: tuple[str, ...]
    columns: tuple[str, ...]
    group: str | None
    definitions: Mapping[str, str] | None = None
    scales: bool = False
    remarks: tuple[str, ...] = ()

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """What each input is called, as in `Rows.columns`; the model's inputs have shape (len(names),)."""

    @abstractmethod
    def raw(self, sheet: Sheet, *, labels: bool) -> Raw:
        """The rows of a table before they are prepared.

        Args:
            sheet: The table.
            labels: Whether to read the column to predict; each of its cells must then fit.

        Raises:
            TaskError: A cell is not what it must be; the message names row and column.
            UnknownName: A column is missing.
        """

    @abstractmethod
    def prepare(self, raw: Tensor) -> Tensor:
        """Inputs of the model, shape (rows, width), float32, from `Raw.rows`."""

    def read(self, path: str | Path, *, labels: bool = True) -> Rows:
        """Read rows of a csv or parquet file by their columns' names, whatever their order in the file.

        Args:
            path: The file.
            labels: Whether to read the column to predict, where the file has it.

        Raises:
            TaskError, UnknownName: As in `raw`, or the file cannot be read.
            ConfigurationError: It is parquet, and pyarrow is not installed.
        """
        sheet = read_sheet(str(path))
        found = self.raw(sheet, labels=labels and self.target in sheet.header)
        used = {*self.columns, self.target}
        others = {name: tuple(sheet.cells[name]) for name in sheet.header if name not in used}
        inputs = self.prepare(found.rows)
        return Rows(inputs, found.labels, self.names, others, tuple(sheet.places), found.remarks)

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Everything that `from_json` needs, as JSON values; floats keep every bit."""

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> TableInputs:
        """Undo `to_json`.

        Raises:
            CheckpointError: It is damaged, or of a later version.
        """
        if content.get("format") != FORMAT:
            raise CheckpointError(
                f"the preparation has format {content.get('format')!r}, this dpeer reads {FORMAT}: use the version "
                "that wrote it"
            )
        try:
            if content["kind"] == "schema":
                from dpeer.training.data.tables.schema_inputs import SchemaInputs

                return SchemaInputs.restored(content)
            from dpeer.training.data.tables.plain import PlainInputs

            return PlainInputs.restored(content)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"the preparation is damaged: {error!r}") from error

    @staticmethod
    def load(path: Path) -> TableInputs:
        """Read a ``preparation.json``.

        Raises:
            CheckpointError: It is not there or damaged, or of a later version.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{str(path)!r} cannot be read: {error}") from error
        if not isinstance(content, dict):
            raise CheckpointError(f"{str(path)!r} is no preparation: it holds no JSON object")
        return TableInputs.from_json(content)


class Unfitted(Protocol):
    """Table inputs whose statistics of the training rows are still to come."""

    @property
    def width(self) -> int:
        """How many inputs a row will have; it follows from settings alone."""

    @property
    def target_range(self) -> tuple[float, float] | None:
        """The plausible range of the number to predict; None where no schema has it, or a class is predicted."""

    def fit(self, raw: Tensor, *, own_statistics: bool) -> TableInputs:
        """Make the preparation.

        Args:
            raw: The training rows: a part of `Raw.rows`.
            own_statistics: Whether it may compute anything from them.
        """
