"""Cutting minibatches into examples: single samples of the training data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from dpeer.exceptions import TaskError
from dpeer.training.device import Compute, mapped


def chunks(size: int, rows: int, device: torch.device) -> Iterator[tuple[Tensor, int]]:
    """A batch in pieces that all have the same number of rows; the first example of the last one fills it up.

    Matrix products of other shapes are other code, whose last bits differ; so all that are computed have one shape.

    Args:
        size: How many examples there are.
        rows: How many stand in each piece.
        device: Where the batch lies.

    Yields:
        The examples' places in the batch, shape (rows,), and how many of them, from the first on, count.
    """
    for start in range(0, size, rows):
        places = torch.arange(start, start + rows, device=device)
        yield places.where(places < size, start), min(rows, size - start)


def examples_of(values: Any, index: Tensor) -> Any:
    """Some examples of a minibatch's inputs or targets, of any structure that `mapped` knows.

    They lie in fresh memory, which is always aligned alike: the last bits of a matrix product may depend on that.

    Args:
        values: Inputs or targets.
        index: The examples' places, shape (examples,).
    """
    return mapped(values, lambda tensor: tensor.index_select(0, index.to(tensor.device)))


def piece_of(compute: Compute, inputs: Any, targets: Any, index: Tensor) -> tuple[Any, Any]:
    """Some examples of a minibatch as they are computed together.

    Args:
        compute: How inputs are to lie in memory.
        inputs: The minibatch's.
        targets: The minibatch's.
        index: The examples' places, shape (examples,).
    """
    return compute.lay_out(examples_of(inputs, index)), examples_of(targets, index)


def check_examples(values: Any, count: int, what: str) -> None:
    """Refuse minibatches that cannot be cut into examples.

    Raises:
        TaskError: Something is no tensor whose first dimension is the batch's.
    """
    if isinstance(values, PackedSequence):
        raise TaskError(
            f"the task's {what} are a PackedSequence, which cannot be cut into examples: privacy at sample level needs "
            "tensors whose first dimension is the batch's; give padded ones and a mask"
        )

    def check(tensor: Tensor) -> Tensor:
        if tensor.ndim == 0 or len(tensor) != count:
            raise TaskError(
                f"the task's {what} have a tensor of shape {tuple(tensor.shape)} in a batch of {count}: privacy at "
                "sample level needs tensors whose first dimension is the batch's"
            )
        return tensor

    def refuse(value: Any) -> Any:
        raise TaskError(
            f"the task's {what} have a {type(value).__name__} beside tensors: privacy at sample level cuts batches "
            "into examples, so give tensors whose first dimension is the batch's"
        )

    mapped(values, check, refuse)
