"""Examples of a minibatch: cutting it into single samples and chunks, joining them, and checking that they fit."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from dpeer.exceptions import TaskError
from dpeer.training.device import Compute, mapped, tensors_of
from dpeer.training.layouts import type_of

if TYPE_CHECKING:
    from dpeer.training.batch_loader import Batches


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
    """Some examples of a minibatch's inputs or targets, of any structure that `mapped` knows.

    They lie in fresh memory, which is always aligned alike: the last bits of a matrix product may depend on that.

    Args:
        values: Inputs or targets.
        index: The examples' places, shape (examples,).
    """
    return mapped(values, lambda tensor: tensor.index_select(0, index.to(tensor.device)))


def joined(examples: Sequence[Any], what: str) -> Any:
    """A minibatch of minibatches of one example each.

    Args:
        examples: Inputs or targets of one example each, of any structure that `mapped` knows; at least one.
        what: "inputs" or "targets", for messages.

    Raises:
        TaskError: Two of them differ in structure, shape or type: in one batch one would be padded or converted because
            of the other. Or one has something beside tensors, or is no batch of one.
    """
    for one in examples:
        check_examples(one, 1, what)
        if one is not examples[0]:
            check_alike(examples[0], one, what)
    columns = ([tensor.contiguous() for tensor in tensors_of(one)] for one in examples)
    together = iter([torch.cat(tensors) for tensors in zip(*columns, strict=True)])
    return mapped(examples[0], lambda _: next(together))


def copied(values: Any) -> Any:
    """The same inputs or targets in memory of their own; what is beside tensors stays as it is."""
    return mapped(values, torch.Tensor.clone)


def check_alike(one: Any, other: Any, what: str) -> None:
    """Refuse two examples that cannot be in one batch as they are.

    Args:
        one: A minibatch of one example: its inputs or its targets.
        other: Another one.
        what: "inputs" or "targets", for messages.

    Raises:
        TaskError: They differ in structure, shape or type.
    """
    if (first := described(one)) != (second := described(other)):
        raise TaskError(
            f"the task's training data give {what} {first} for one example and {second} for another, so that in a "
            "batch one would be changed because of the other: privacy at sample level needs all to have one shape and "
            "one type; pad to a fixed length, and convert all"
        )


def described(values: Any) -> str:
    """Of which structure, shapes and types inputs or targets are, in words to compare and to print."""
    return str(mapped(values, lambda tensor: _Word(f"{str(tensor.dtype).removeprefix('torch.')}{[*tensor.shape[1:]]}")))  # type: ignore[arg-type,return-value]


class _Word(str):
    """Text that is printed without quotes."""

    def __repr__(self) -> str:
        return str(self)


def take_pair(compute: Compute, inputs: Any, targets: Any, index: Tensor) -> tuple[Any, Any]:
    """Some examples of a minibatch as they are computed together.

    Args:
        compute: How inputs are to lie in memory.
        inputs: The minibatch's.
        targets: The minibatch's.
        index: The examples' places, shape (examples,).
    """
    return compute.lay_out(take(inputs, index)), take(targets, index)


def batch_of(data: Batches, index: Tensor) -> tuple[Any, Any]:
    """The minibatch of these samples, each collated by itself.

    Raises:
        TaskError: It cannot be cut into examples.
    """
    inputs, targets = data.each(data.located(index))
    check_examples(inputs, len(index), "inputs")
    check_examples(targets, len(index), "targets")
    return inputs, targets


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
        if (kind := type_of(tensor)) is not None:
            raise TaskError(f"the task's {what} are a {kind} tensor: privacy at sample level needs dense ones")
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

    _check_containers(values, what)
    mapped(values, check, refuse)


def _check_containers(values: Any, what: str) -> None:
    """Refuse what carries more than its items: of examples that are joined, the first one's would stand for all."""
    if isinstance(values, Mapping):
        own = {"data"} if isinstance(values, UserDict) else set()
        extra = sorted(set(getattr(values, "__dict__", {})) - own)
        if extra:
            raise TaskError(
                f"the task's {what} are a {type(values).__name__} with attributes beside its items ({', '.join(extra)})"
                ": privacy at sample level cuts batches into examples, so give a plain dict of tensors"
            )
    children = values.values() if isinstance(values, Mapping) else values if isinstance(values, tuple | list) else ()
    for child in children:
        _check_containers(child, what)
