"""Cutting minibatches into examples: single samples of the training data."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from dpeer.exceptions import TaskError
from dpeer.training.device import mapped


def examples_of(values: Any, here: slice) -> Any:
    """Some examples of a minibatch's inputs or targets, of any structure that `mapped` knows."""
    return mapped(values, lambda tensor: tensor[here])


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
