"""Examples of a minibatch: cutting it into pieces that all have one shape, in fresh memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from dpeer.training.device import Compute, mapped


def chunks(size: int, rows: int, device: torch.device) -> Iterator[tuple[Tensor, int]]:
    """A batch in pieces that all have the same number of rows; the first example of the last one fills it up.

    Matrix products of other shapes are other code, whose last bits differ; so all that are computed have one shape.

    Args:
        size: The number of examples.
        rows: How many stand in each piece.
        device: Where the batch lies.

    Yields:
        The examples' places in the batch, shape (rows,), and how many of them, from the first on, count.
    """
    for start in range(0, size, rows):
        places = torch.arange(start, start + rows, device=device)
        yield places.where(places < size, start), min(rows, size - start)


def take(values: Any, index: Tensor) -> Any:
    """Some examples of a minibatch's inputs or targets, or of a model's outputs of any structure that `mapped` knows.

    They lie in fresh memory, which is always aligned alike: the last bits of a matrix product may depend on that.

    Args:
        values: Their first dimension is the batch's.
        index: The examples' places, shape (examples,).
    """
    return mapped(values, lambda tensor: tensor.index_select(0, index.to(tensor.device)))


def take_pair(compute: Compute, inputs: Any, targets: Any, index: Tensor) -> tuple[Any, Any]:
    """Some examples of a minibatch as they are computed together.

    Args:
        compute: How inputs are to lie in memory.
        inputs: The minibatch's.
        targets: The minibatch's.
        index: The examples' places, shape (examples,).
    """
    return compute.lay_out(take(inputs, index)), take(targets, index)
