"""Flat vectors of parameters and extras, so that releasing, mixing and stepping are single operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, TypeAlias

import torch
from torch import Tensor

from dpeer.exceptions import AlgorithmError
from dpeer.training.device import CPU
from dpeer.training.split import Named

Phase = str
"""The part that is trained: "head", "body" or "model", or any other name for training once more in a round.
Each has random streams of its own."""


def new_vector(count: int, device: torch.device = CPU) -> Tensor:
    """A vector of zeros, float32 and on that device whatever a user's set_default_dtype or set_default_device says."""
    return torch.zeros(count, dtype=torch.float32, device=device)


class Flat:
    """Some of a model's parameters as one contiguous float32 vector, and their gradients as another.

    The model's parameters become views into `data`, in the order given, and their ``.grad`` views into
    `grad`, into which autograd adds: zero it before a backward pass.

    Args:
        phase: What these parameters are.
        named: The parameters with their names; all float32 and on one device.
        data: Where the values are to lie, shape (count,); new memory on the parameters' device if left out.
        grad: Where the gradients are to lie, shape (count,).

    Attributes:
        trackers: The parts that a peer keeps as they are where it takes others' values for its own.
        layout: Each parameter's name, the parameter, and where it lies in the vectors.
    """

    def __init__(self, phase: Phase, named: Named, data: Tensor | None = None, grad: Tensor | None = None) -> None:
        self.phase: Phase = phase
        self.trackers: Sequence[slice] = ()
        self.count = sum(parameter.numel() for _, parameter in named)
        device = named[0][1].device if named else CPU
        self._data = new_vector(self.count, device) if data is None else data
        self._grad = new_vector(self.count, device) if grad is None else grad
        self.layout: list[tuple[str, torch.nn.Parameter, slice]] = []
        self._views: list[tuple[Tensor, Tensor]] = []
        offset = 0
        for name, parameter in named:
            here = slice(offset, offset + parameter.numel())
            self.data[here].copy_(parameter.data.reshape(-1))
            self._views.append((self.data[here].view(parameter.shape), self.grad[here].view(parameter.shape)))
            parameter.data, parameter.grad = self._views[-1]
            self.layout.append((name, parameter, here))
            offset = here.stop

    @property
    def data(self) -> Tensor:
        """The values, shape (count,); others that are assigned are copied, or the model would be left behind."""
        return self._data

    @data.setter
    def data(self, values: Tensor) -> None:
        with torch.no_grad():
            self._data.copy_(values)

    @property
    def grad(self) -> Tensor:
        """The gradients, shape (count,); others that are assigned are copied."""
        return self._grad

    @grad.setter
    def grad(self, values: Tensor) -> None:
        with torch.no_grad():
            self._grad.copy_(values)

    def requires_grad(self, wanted: bool) -> None:
        """Have autograd compute these parameters' gradients, or leave them out and save that work."""
        for _, parameter, _ in self.layout:
            parameter.requires_grad_(wanted)

    def reattach(self) -> None:
        """Make the parameters views again where the task's code has given them other storage.

        Assigning ``weight.data`` (a max-norm constraint in forward, say) or dropping ``.grad`` (zero_grad) would leave
        the vectors behind, and with them training, sending and mixing. The new values are kept.
        """
        for (_, parameter, _), (data, grad) in zip(self.layout, self._views, strict=True):
            if parameter.data_ptr() != data.data_ptr():
                data.copy_(parameter.data)
                parameter.data = data
            if parameter.grad is None:
                grad.zero_()
            elif parameter.grad.data_ptr() != grad.data_ptr():
                grad.copy_(parameter.grad)
            else:
                continue
            parameter.grad = grad

    @property
    def manifest(self) -> dict[str, Any]:
        """The content of the vector, in plain JSON values; offsets count elements."""
        entries = [{"name": name, "shape": [*one.shape], "offset": here.start} for name, one, here in self.layout]
        return {"dtype": "float32", "count": self.count, "parameters": entries}


class Tracker(int):
    """The number of values of an extra whose sum over all peers has a meaning, which a copy would change.

    A peer that takes its neighbors' values for its own after it was away keeps its trackers as they are.
    """


class Extras(Mapping[str, Tensor]):
    """Float32 vectors by name, views of one vector, which ``extras[name] += change`` and ``extras[name] = new`` change.

    Args:
        sizes: The number of values of each vector, by name.
        data: The vector that they are views of, shape (sum of sizes,).

    Attributes:
        state: The vectors by name, for a checkpoint.
        trackers: Where those that are trackers lie in `data`.
    """

    def __init__(self, sizes: Mapping[str, int], data: Tensor) -> None:
        self.data, self.sizes = data, {name: int(size) for name, size in sizes.items()}
        vectors = torch.split(data, [*self.sizes.values()]) if sizes else ()
        self.state: dict[str, Tensor] = dict(zip(sizes, vectors, strict=True))
        ends = dict(zip(sizes, accumulate(self.sizes.values()), strict=True))
        tracked = [name for name, size in sizes.items() if isinstance(size, Tracker)]
        self.trackers = [slice(ends[name] - sizes[name], ends[name]) for name in tracked]

    def __getitem__(self, name: str) -> Tensor:
        return self.state[name]

    def __setitem__(self, name: str, values: Tensor) -> None:
        """Copy values into an existing vector.

        Raises:
            KeyError: No vector has this name.
            AlgorithmError: They are not as many as it has.
        """
        view = self.state[name]
        if values.shape != view.shape:
            raise AlgorithmError(
                f"extras {name!r} have shape {tuple(view.shape)}, and values of shape {tuple(values.shape)} were given"
            )
        with torch.no_grad():
            view.copy_(values)

    def __iter__(self) -> Iterator[str]:
        return iter(self.state)

    def __len__(self) -> int:
        return len(self.state)


class Extended:
    """A body with extras before it, which travel and are mixed as one vector."""

    def __init__(self, extras: Extras, body: Flat, data: Tensor) -> None:
        self.data, self.count = data, data.numel()
        self._extras, self._body = extras, body
        self.trackers: Sequence[slice] = extras.trackers

    @property
    def manifest(self) -> dict[str, Any]:
        """The content of the vector, in plain JSON values; offsets count elements."""
        found, skipped = self._body.manifest, self._extras.data.numel()
        found["parameters"] = [{**entry, "offset": entry["offset"] + skipped} for entry in found["parameters"]]
        return {**found, "count": self.count, "extras": self._extras.sizes}


Exchanged: TypeAlias = Flat | Extended
"""Values that peers exchange."""


def check_extras(sizes: Any, algorithm: str, *, shares: bool) -> dict[str, int]:
    """The sizes of an algorithm's extras.

    Raises:
        AlgorithmError: They are no positive numbers by name, or the algorithm shares nothing.
    """
    named = isinstance(sizes, Mapping) and all(isinstance(name, str) and name for name in sizes)
    if not named or not all(type(size) in (int, Tracker) and size > 0 for size in sizes.values()):
        raise AlgorithmError(
            f"algorithm {algorithm}: its extras are {sizes!r}; they must be numbers of values, each 1 or more, by name"
        )
    if sizes and not shares:
        raise AlgorithmError(
            f"algorithm {algorithm} shares nothing, so that its extras ({', '.join(sizes)}) go nowhere"
        )
    return dict(sizes)
