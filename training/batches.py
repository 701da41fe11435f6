"""Minibatches: in which order, and how they are fetched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils.data import Subset, TensorDataset, default_collate

from dpeer.exceptions import TaskError
from dpeer.training.errors import blame
from dpeer.training.flat import Phase
from dpeer.training.randomness import Purpose, stream
from dpeer.training.task import Collate

_PHASES: dict[Phase, int] = {"head": 0, "body": 1, "model": 2}


def batch_order(count: int, seed: int, rank: int, number: int, phase: Phase, epoch: int) -> torch.Tensor:
    """A shuffle of 0 .. count - 1 that depends on its arguments alone, so resuming needs no generator state.

    Args:
        count: How many samples there are.
        seed: The federation's seed.
        rank: The peer.
        number: The round, from 0.
        phase: What is trained.
        epoch: The pass over the data within the phase, from 0.
    """
    generator = stream(seed, Purpose.BATCHES, rank, number, _PHASES[phase], epoch)
    return torch.from_numpy(generator.permutation(count))


class Batches:
    """A dataset that gives minibatches ``(inputs, targets)`` by index.

    A `TensorDataset` (or a `Subset` of one) without a collate function is gathered by index, which is many times
    faster than collating samples.

    Args:
        name: What the data is ("train", ...), for messages.
        dataset: A map-style dataset of ``(input, target)``.
        collate: Makes a batch of a list of samples; None for PyTorch's `default_collate`.
    """

    def __init__(self, name: str, dataset: Any, collate: Collate | None) -> None:
        self.name, self._dataset = name, dataset
        self._collate: Collate = collate or default_collate
        self._tensors: tuple[torch.Tensor, ...] | None = None
        self._rows: torch.Tensor | None = None
        if collate is None:
            self._find_tensors(dataset)

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

    def __len__(self) -> int:
        return len(self._dataset)

    def take(self, index: torch.Tensor) -> tuple[Any, Any]:
        """The minibatch of these samples.

        Args:
            index: Which samples, shape (batch,), int64.

        Raises:
            TaskError: The dataset or the collate function raised, or did not give a pair.
        """
        if self._tensors is not None:
            # Always a gather, never a slice: fresh memory is aligned alike in every process, and the last bits of
            # a matrix product may depend on the alignment of its input.
            rows = index if self._rows is None else self._rows[index]
            inputs, targets = self._tensors
            with blame(f"the task's {self.name} data cannot be read"):
                return inputs.index_select(0, rows), targets.index_select(0, rows)
        with blame(f"the task's {self.name} data cannot be read"):
            batch = self._collate([self._dataset[i] for i in index.tolist()])
        if not isinstance(batch, tuple | list) or len(batch) != 2:
            raise TaskError(f"collating the task's {self.name} data must give a pair (inputs, targets)")
        return batch[0], batch[1]

    def in_order(self, batch_size: int) -> Iterator[tuple[Any, Any, int]]:
        """All minibatches in the dataset's order, each with its number of samples."""
        for index in torch.split(torch.arange(len(self), device="cpu"), batch_size):
            yield *self.take(index), len(index)


def predict(model: nn.Module, inputs: Any) -> Any:
    """Call the model: a tuple or list of inputs fills its arguments, a mapping its keyword arguments."""
    if isinstance(inputs, tuple | list) and not isinstance(inputs, PackedSequence):
        return model(*inputs)
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(inputs)
