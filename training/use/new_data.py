"""New data as they were read for a trained model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor


@dataclass(frozen=True, eq=False)
class NewData:
    """What was read.

    Attributes:
        inputs: As the model gets them, shape (rows, ...).
        labels: As a task's targets; None where there are none, or none were wanted.
        keys: By name, what tells the rows apart, as text: row numbers, files, and the columns that are no inputs.
        remarks: Sentences on what did not fit and was read all the same.
    """

    inputs: Tensor
    labels: Tensor | None
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.inputs)
