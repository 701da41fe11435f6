"""A model's inputs from the rows of a table, as a module: training, predictions and exports all use this one."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from dpeer.training.data.tables.decode import range_of, slots
from dpeer.training.data.tables.prepare import Preparation, of_kind
from dpeer.training.data.tables.schema import Category, YesNo


class TableInputs(nn.Module):
    """Prepares rows: fills gaps, scales numbers, and spreads categories."""

    fillings: Tensor
    low: Tensor
    high: Tensor
    first: Tensor
    second: Tensor

    def __init__(self, preparation: Preparation) -> None:
        super().__init__()
        self.plain = preparation.schema.plain
        if self.plain:
            return
        columns, categories = preparation.numbers, of_kind(preparation.schema, Category)
        fillings, scaling, self.own = preparation.scaling
        ends = [range_of(column) or (-math.inf, math.inf) for column in columns.values()]
        for name, values in {
            "fillings": fillings, "low": [low for low, _ in ends], "high": [high for _, high in ends],
            "first": scaling[0], "second": scaling[1],
        }.items():  # fmt: skip
            self.register_buffer(name, torch.tensor(values, dtype=torch.float64), persistent=False)
        self.numbers = len(columns)
        self.single = self.numbers + len(of_kind(preparation.schema, YesNo))
        self.slots = [len(slots(column)) for column in categories.values()]

    def forward(self, raw: Tensor) -> Tensor:
        """Inputs of the model, shape (rows, inputs), float32, of rows as `raw_rows` gives them.

        Numbers outside a range count as its nearer end.
        """
        if self.plain:
            return raw.float()
        gaps = torch.isnan(raw[:, : self.single])
        numbers = torch.minimum(torch.maximum(raw[:, : self.numbers], self.low), self.high)
        numbers = torch.where(gaps[:, : self.numbers], self.fillings, numbers)
        numbers = (numbers - self.first) / self.second if self.own else numbers * self.first + self.second
        blocks = [numbers, torch.where(gaps[:, self.numbers :], 0.0, raw[:, self.numbers : self.single]), gaps]
        for place, count in enumerate(self.slots, start=self.single):
            found = raw[:, place, None]
            blocks += [found == torch.arange(count, dtype=torch.float64), torch.isnan(found)]
        blocks.append(raw[:, self.single + len(self.slots) :])
        return torch.cat([block.float() for block in blocks], dim=1)
