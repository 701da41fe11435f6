"""Extras: vectors that travel and are mixed beside the body, such as control variates and moments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from dpeer.exceptions import AlgorithmError
from dpeer.training.flat import Flat


class Extras(Mapping[str, Tensor]):
    """Float32 vectors by name, views of one vector, which ``extras[name] += change`` and ``extras[name] = new`` change.

    Args:
        sizes: The number of values of each vector, by name.
        data: The vector that they are views of, shape (sum of sizes,).
    """

    def __init__(self, sizes: Mapping[str, int], data: Tensor) -> None:
        self.data, self.sizes = data, dict(sizes)
        vectors = torch.split(data, [*sizes.values()]) if sizes else ()
        self._views: dict[str, Tensor] = dict(zip(sizes, vectors, strict=True))

    def __getitem__(self, name: str) -> Tensor:
        return self._views[name]

    def __setitem__(self, name: str, values: Tensor) -> None:
        """Copy values into an existing vector.

        Raises:
            KeyError: No vector has this name.
            AlgorithmError: They are not as many as it has.
        """
        view = self._views[name]
        if values.shape != view.shape:
            raise AlgorithmError(
                f"extras {name!r} have shape {tuple(view.shape)}, and values of shape {tuple(values.shape)} were given"
            )
        with torch.no_grad():
            view.copy_(values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def state(self) -> Mapping[str, Tensor]:
        """The vectors that a resumed run needs; by name."""
        return self._views

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take up what `state` gave.

        Raises:
            KeyError, ValueError: It is of other extras.
        """
        for name, view in self._views.items():
            if state[name].shape != view.shape:
                raise ValueError(f"{name!r} of {state[name].numel()} values")
            view.copy_(state[name])


class Extended:
    """A body with extras before it, which travel and are mixed as one vector.

    Args:
        extras: The extras.
        body: The body.
        data: The vector that both are views of, shape (count,).
    """

    def __init__(self, extras: Extras, body: Flat, data: Tensor) -> None:
        self.data, self.count = data, data.numel()
        self._extras, self._body = extras, body

    @property
    def manifest(self) -> dict[str, Any]:
        """The content of the vector, in plain JSON values; offsets count elements."""
        found, skipped = self._body.manifest, self._extras.data.numel()
        found["parameters"] = [{**entry, "offset": entry["offset"] + skipped} for entry in found["parameters"]]
        return {**found, "count": self.count, "extras": self._extras.sizes}


def check_extras(sizes: Any, algorithm: str, *, shares: bool) -> dict[str, int]:
    """The sizes of an algorithm's extras.

    Args:
        sizes: What `Algorithm.extras` returned.
        algorithm: The algorithm's name, for messages.
        shares: Whether it shares anything.

    Raises:
        AlgorithmError: They are no positive numbers by name, or the algorithm shares nothing.
    """
    named = isinstance(sizes, Mapping) and all(isinstance(name, str) and name for name in sizes)
    if not named or not all(type(size) is int and size > 0 for size in sizes.values()):
        raise AlgorithmError(
            f"algorithm {algorithm}: its extras are {sizes!r}; they must be numbers of values, each 1 or more, by name"
        )
    if sizes and not shares:
        raise AlgorithmError(
            f"algorithm {algorithm} shares nothing, so that its extras ({', '.join(sizes)}) go nowhere"
        )
    return dict(sizes)
