"""Samples in memory, before they are divided among peers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpeer.training.data.holdout import Indices, digests
from dpeer.training.data.tables.prepare import input_names
from dpeer.training.data.tables.schema import Schema
from dpeer.training.data.text import TextColumns, Tokens

_AT_ONCE = 1024
"""How many samples are turned into what the model gets at a time, where only their names are wanted."""


@dataclass(frozen=True, eq=False)
class Pool:
    """Labelled samples.

    Attributes:
        inputs: Shape (samples, ...): float32 as the model gets them, or images as uint8 (samples, channels, height,
            width), which `rows` turns into -1..1, or token numbers as int32 (samples, length), of which it makes int64,
            or float64 where inputs are made of them by `Data.schema`.
        targets: Class numbers from 0, int64, shape (samples,); or float32 values, shape (samples, 1).
        groups: The group of each sample (its writer, person, ...), shape (samples,); None where it is unknown.
        stretches: Which samples must not be parted by holding some out (they overlap, or belong together), by a
            number each, shape (samples,); None where every sample stands alone.
        numbers: Each sample's place in the data set's own pool, shape (samples,); None where that is its place here.
        whole: How many samples the data set's own pool has; None where they are all here.
    """

    inputs: Tensor
    targets: Tensor
    groups: NDArray[np.generic] | None = None
    stretches: Indices | None = None
    numbers: Indices | None = None
    whole: int | None = None

    def __len__(self) -> int:
        return len(self.targets)

    def places(self, index: Indices) -> Indices:
        """The places of these samples in the data set's own pool."""
        return index if self.numbers is None else self.numbers[index]

    def rows(self, index: Indices) -> tuple[Tensor, Tensor]:
        """Inputs as the model gets them, and targets, of some samples; memory of their own."""
        rows = torch.from_numpy(index)
        inputs, targets = self.inputs.index_select(0, rows), self.targets.index_select(0, rows)
        if inputs.dtype == torch.uint8:
            # Constants, not the data's mean: a statistic of everybody's data would be one more thing to protect.
            inputs = inputs.float().div_(127.5).sub_(1.0)
        elif inputs.dtype == torch.int32:  # half the memory, while the data of all peers lie here
            inputs = inputs.long()
        return inputs, targets

    def digests(self, index: Indices) -> list[bytes]:
        """A digest of each of these samples' inputs, as they lie here: equal ones have the same."""
        return digests(self.inputs.numpy()[index])

    def names(self, index: Indices) -> list[bytes]:
        """A name for each of these samples that does not depend on others: its inputs, or its group.

        Where whole groups must not be parted (`Data.whole_groups`), it is the name of the group alone. Other
        stretches have no such names: their bounds and numbers depend on other samples.
        """
        if self.stretches is not None:
            assert self.groups is not None, "whole groups"
            return [name.encode() for name in self.groups[index].astype(str).tolist()]
        found: list[bytes] = []
        for start in range(0, len(index), _AT_ONCE):
            found += digests(self.rows(index[start : start + _AT_ONCE])[0].numpy())
        return found

    def labels(self) -> Indices:
        """The class numbers, by which strata and shares are made; zeros where targets are values."""
        if self.targets.dtype == torch.int64:
            return self.targets.numpy()
        return np.zeros(len(self), np.int64)


@dataclass(frozen=True, eq=False)
class Data:
    """A data set.

    Attributes:
        train: The training pool, or all samples.
        test: The test pool; None where peers hold out samples of their own.
        classes: Number of classes; None where targets are values.
        group: What `Pool.groups` are called: "writer", "subject", "group"; None without groups.
        same_groups: Whether the test pool is from the very groups of the training pool (each writer's samples were
            divided), so that a peer's groups bring their test samples with them.
        whole_groups: Whether the stretches of the pools (`Pool.stretches`) are their groups, by whatever numbers.
        pixels: Whether inputs are images of bytes, divided by 127.5, less 1. That is a fact of the format: it is in the
            model's card, and must not follow from the samples.
        mirrored: Whether a mirrored image still is one of its class; letters and digits are not.
        background: What is beyond the border of an image, as the model gets it; -1 is black, of bytes.
        names: What inputs and classes are called, where the user decides it: peers with files of their own
            must mean the same by them.
        found: Names, and facts of the shape of the model, that were found in the data, by the task option that
            would state them.
        tokens: Of which tokenizer the inputs are token numbers; None for other inputs.
        texts: The columns of a file of such texts; None for other inputs.
        remarks: Remarks for the user on how the data were read, a line each.
        schema: By which the model's inputs are made of a table's rows once it is known which of them are for training;
            None for other data.
    """

    train: Pool
    test: Pool | None
    classes: int | None
    group: str | None = None
    same_groups: bool = False
    whole_groups: bool = False
    pixels: bool = False
    mirrored: bool = True
    background: float = -1.0
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    found: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    schema: Schema | None = None
    tokens: Tokens | None = None
    texts: TextColumns | None = None
    remarks: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """One input's shape, as the model gets it."""
        if self.schema is not None:
            return (len(input_names(self.schema)),)
        return tuple(self.train.inputs.shape[1:])

    @property
    def groups(self) -> NDArray[np.generic] | None:
        """Both pools' groups, test after training; None where one does not know them."""
        if self.test is None or self.train.groups is None:
            return self.train.groups
        return None if self.test.groups is None else np.concatenate([self.train.groups, self.test.groups])

    @property
    def together(self) -> Pool:
        """Both pools as one, test after training; places count through both as the data set has them."""
        if self.test is None:
            return self.train
        a, b = self.train, self.test
        before = len(a) if a.whole is None else a.whole
        places = [pool.places(np.arange(len(pool), dtype=np.int64)) for pool in (a, b)]
        return Pool(
            torch.cat([a.inputs, b.inputs]),
            torch.cat([a.targets, b.targets]),
            self.groups,
            None if a.stretches is None or b.stretches is None else np.concatenate([a.stretches, b.stretches]),
            np.concatenate([places[0], before + places[1]]),
            before + (len(b) if b.whole is None else b.whole),
        )
