"""Batch loader: deterministic sample order of an epoch, and gathering of minibatches by index onto the device."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.utils.rnn import PackedSequence
from torch.utils.data import Subset, TensorDataset, default_collate

from dpeer.exceptions import TaskError
from dpeer.training.device import HOST, Compute, mapped
from dpeer.training.errors import blame, described
from dpeer.training.flat import Phase
from dpeer.training.randomness import Purpose, stream
from dpeer.training.task import Collate, type_of

_PHASES: dict[Phase, int] = {"head": 0, "body": 1, "model": 2, "personal": 3, "screen": 5}
"""The numbers of built-in algorithms' phases; any other phase has its hash."""


def batch_order(count: int, seed: int, rank: int, number: int, phase: Phase, epoch: int) -> torch.Tensor:
    """A shuffle of 0 .. count - 1 that depends on its arguments alone, so resuming needs no generator state."""
    generator = stream(seed, Purpose.BATCHES, rank, number, _key(phase), epoch)
    return torch.from_numpy(generator.permutation(count))


def _key(phase: Phase) -> int:
    """A phase as a number in the key of a stream; the hash of a name has 64 bits, the first set, as no other has."""
    known = _PHASES.get(phase)
    if known is not None:
        return known
    return int.from_bytes(hashlib.sha256(phase.encode()).digest()[:8]) | 2**63


def augmenting(seed: int, rank: int, number: int, phase: Phase, epoch: int) -> np.random.Generator:
    """The generator that an epoch's minibatches are augmented with; arguments as in `batch_order`."""
    return stream(seed, Purpose.AUGMENT, rank, number, _key(phase), epoch)


class Batch(NamedTuple):
    """A minibatch of the peer's training data.

    Attributes:
        inputs: The model's inputs; None in a sampled batch of which nothing was drawn.
        targets: What the loss compares outputs with; None likewise.
        size: How many examples it has.
        units: In a sampled batch of groups, whose each example is: 0 for the first group's, then 1, ..., shape (size,),
            int64, on the host; None where each example is a unit.
    """

    inputs: Any
    targets: Any
    size: int
    units: torch.Tensor | None = None


class Batches:
    """A dataset that gives minibatches ``(inputs, targets)`` by index.

    A `TensorDataset` (or a `Subset` of one) without a collate function is gathered by index, which is many times
    faster than collating samples; on another device than the host, all of it lies there. Batches that are collated
    are moved one by one.

    Args:
        name: What the data is ("train", ...), for messages.
        dataset: A map-style dataset of ``(input, target)``.
        collate: Makes a batch of a list of samples; None for PyTorch's `default_collate`.
        compute: Where minibatches are needed, and how images are to lie in memory.
    """

    def __init__(self, name: str, dataset: Any, collate: Collate | None, compute: Compute = HOST) -> None:
        self.name, self.compute, self._dataset = name, compute, dataset
        self._collate: Collate = collate or default_collate
        self._tensors: tuple[torch.Tensor, ...] | None = None
        self._rows: torch.Tensor | None = None
        self._channels_last = False
        if collate is None:
            self._find_tensors(dataset)
            self._settle()

    def _find_tensors(self, dataset: Any) -> None:
        rows: torch.Tensor | None = None
        while type(dataset) is Subset:
            indices = torch.as_tensor(dataset.indices, dtype=torch.int64, device="cpu")
            indices = torch.where(indices < 0, indices + len(dataset.dataset), indices)  # type: ignore[arg-type]
            rows = indices if rows is None else indices[rows]
            dataset = dataset.dataset
        # Exactly this class: one derived from it may transform its items.
        if type(dataset) is TensorDataset and len(dataset.tensors) == 2:
            self._tensors, self._rows = dataset.tensors, rows

    def _settle(self) -> None:
        """Put the peer's rows onto its device; on the host nothing is copied, so that peers share the tensors."""
        if self._tensors is None or (self.compute.on_host and not self.compute.channels_last):
            return
        own = self._tensors if self._rows is None else tuple(tensor[self._rows] for tensor in self._tensors)
        inputs, targets = self.compute.place(own)
        if self.compute.channels_last and inputs.ndim == 4:
            # A gather of rows would put a tensor of that format back into the usual one.
            inputs, self._channels_last = inputs.permute(0, 2, 3, 1).contiguous(), True
        self._tensors, self._rows = (inputs, targets), None

    def located(self, index: torch.Tensor) -> torch.Tensor:
        """An index, moved to where `take` needs it, once for many minibatches."""
        return index if self._tensors is None else index.to(self.compute.device)

    def __len__(self) -> int:
        return len(self._dataset)

    def targets(self) -> torch.Tensor | None:
        """All targets at once, where they lie in one tensor; else None."""
        if self._tensors is None:
            return None
        return self._tensors[1] if self._rows is None else self._tensors[1][self._rows]

    def take(self, index: torch.Tensor) -> tuple[Any, Any]:
        """The minibatch of these samples.

        Args:
            index: Which samples, shape (batch,), int64; as `located` gives it.

        Raises:
            TaskError: The dataset or the collate function raised, or did not give a pair.
        """
        if self._tensors is not None:
            # Always a gather, never a slice: fresh memory is aligned alike in every process, and the last bits of
            # a matrix product may depend on the alignment of its input.
            rows = index if self._rows is None else self._rows[index]
            inputs, targets = self._tensors
            with blame(f"the task's {self.name} data cannot be read"):
                inputs, targets = inputs.index_select(0, rows), targets.index_select(0, rows)
            return (inputs.permute(0, 3, 1, 2) if self._channels_last else inputs), targets
        inputs, targets = self._pair(index.tolist())
        return self.compute.lay_out(self.compute.place(inputs)), self.compute.place(targets)

    def _pair(self, numbers: Sequence[int]) -> tuple[Any, Any]:
        """The minibatch of these samples where the collate function leaves it."""
        with blame(f"the task's {self.name} data cannot be read"):
            batch = self._collate([self._dataset[number] for number in numbers])
        if not isinstance(batch, tuple | list) or len(batch) != 2:
            raise TaskError(f"collating the task's {self.name} data must give a pair (inputs, targets)")
        return batch[0], batch[1]

    def each(self, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The minibatch of these samples, each of which was collated by itself, so that it depends on no other.

        Args:
            index: Which samples, shape (batch,), int64, at least one; as `located` gives it.

        Raises:
            TaskError: As in `take`, or a sample has other shapes than the first.
        """
        if self._tensors is not None:
            return self.take(index)
        # A function may give back the same memory each time, with the next sample's values.
        pairs = [mapped(self._pair([number]), torch.Tensor.clone) for number in index.tolist()]
        with blame(f"the task's {self.name} data are of several shapes"):
            inputs, targets = (torch.cat([one.contiguous() for one in side]) for side in zip(*pairs, strict=True))
        return self.compute.lay_out(self.compute.place(inputs)), self.compute.place(targets)

    def check_examples(self) -> None:
        """Refuse samples of which `each` cannot make a batch. Data in memory are alike; others are read once.

        Raises:
            TaskError: A sample is such.
        """
        kinds: dict[str, None] = {}
        for number in range(len(self) if self._tensors is None else 1):
            pair = self.take(self.located(torch.tensor([number], device="cpu")))
            kinds[described(inputs=pair[0], targets=pair[1])] = None
            if len(kinds) > 1 or not all(map(_is_row, pair)):
                raise TaskError(
                    f"the task's training examples are {' and '.join(kinds)}: privacy at sample level needs one dense "
                    "tensor for each example, all of one shape and type (pad to a fixed length, convert, call "
                    ".to_dense())"
                )

    def in_order(self, batch_size: int) -> Iterator[tuple[Any, Any, int]]:
        """All minibatches in the dataset's order, each with its number of samples."""
        for index in torch.split(self.located(torch.arange(len(self), device="cpu")), batch_size):
            yield *self.take(index), len(index)


def _is_row(example: Any) -> bool:
    """Whether this is a dense tensor of one row."""
    return isinstance(example, torch.Tensor) and type_of(example) is None and example.ndim > 0 and len(example) == 1


def predict(model: Callable[..., Any], inputs: Any) -> Any:
    """Call the model: a tuple or list of inputs fills its arguments, a mapping its keyword arguments."""
    if isinstance(inputs, tuple | list) and not isinstance(inputs, PackedSequence):
        return model(*inputs)
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(inputs)
