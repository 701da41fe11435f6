"""Personal heads that are trained beside a shared linear head: one of the peer's own, or one that a hypernetwork makes.

A hypernetwork is a small network whose outputs are the parameters of another one (Ha, Dai and Le, HyperNetworks, ICLR
2017). Here it has one hidden layer,

    H(a; nu) = V relu(U a + b) + c        with nu = (U, b, V, c)

and makes the weight of a linear head, row by row, and then its bias, of a vector a that says whose head it is to be.
Peers average nu. It travels as what it has changed by: as `Extras`, which start at zero, while what nu starts with
follows from the federation's seed and is known to all.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from dpeer.training.flat import Flat
from dpeer.training.randomness import Purpose, stream


class PersonalHead(Protocol):
    """A linear head of one peer.

    Attributes:
        trained: What is trained so that the head becomes a better one.
    """

    trained: Flat

    def made(self) -> Mapping[str, Tensor]:
        """The head's parameters by their names in a linear module; gradients flow back to what is trained."""

    def now(self) -> Mapping[str, Tensor]:
        """The head's parameters as they are after whatever has been mixed, without gradients."""

    def training(self) -> AbstractContextManager[None]:
        """Context in which `trained` may be stepped."""


class OwnHead:
    """A head whose parameters are the peer's own; it starts as a copy of the shared one.

    Args:
        shared: The shared head.
    """

    def __init__(self, shared: nn.Linear) -> None:
        self._named = dict(copy.deepcopy(shared).named_parameters())
        self.trained = Flat("head", list(self._named.items()))

    def made(self) -> Mapping[str, Tensor]:
        """See `PersonalHead`."""
        return self._named

    def now(self) -> Mapping[str, Tensor]:
        """See `PersonalHead`."""
        return {name: parameter.detach() for name, parameter in self._named.items()}

    def training(self) -> AbstractContextManager[None]:
        """See `PersonalHead`."""
        return nullcontext()


def hypernetwork_shapes(inputs: int, hidden: int, outputs: int) -> dict[str, tuple[int, ...]]:
    """The shapes of a hypernetwork's parameters by name, in the order in which they lie in nu.

    Args:
        inputs: The length of the vector that says whose head is to be made.
        hidden: The number of hidden units.
        outputs: The number of the head's parameters.
    """
    return {
        "hidden.weight": (hidden, inputs),
        "hidden.bias": (hidden,),
        "output.weight": (outputs, hidden),
        "output.bias": (outputs,),
    }


def hypernetwork_count(inputs: int, hidden: int, outputs: int) -> int:
    """The number of a hypernetwork's parameters; arguments as for `hypernetwork_shapes`."""
    return sum(math.prod(shape) for shape in hypernetwork_shapes(inputs, hidden, outputs).values())


class MadeHead:
    """A head that a hypernetwork makes; the hypernetwork is trained, and its change is mixed.

    Args:
        shared: The shared head, of whose shape the made one is.
        about: What says whose head it is, shape (inputs,), float32, on the head's device.
        hidden: The number of hidden units.
        change: What nu has changed by, shape (`hypernetwork_count`,): zero at first, then what mixing gives.
        seed: The federation's seed, which decides what nu starts with.
    """

    def __init__(self, shared: nn.Linear, about: Tensor, hidden: int, change: Tensor, seed: int) -> None:
        self._shapes = {name: parameter.shape for name, parameter in shared.named_parameters()}
        self._sizes = [shape.numel() for shape in self._shapes.values()]
        shapes = hypernetwork_shapes(len(about), hidden, sum(self._sizes))
        self._about, self._change = about, change
        self._start = _first(shapes, seed).to(change.device)
        parts = torch.split(self._start, [math.prod(shape) for shape in shapes.values()])
        named = [
            (name, nn.Parameter(part.reshape(shape))) for (name, shape), part in zip(shapes.items(), parts, strict=True)
        ]
        self._parameters = [parameter for _, parameter in named]
        self.trained = Flat("hypernetwork", named)

    def made(self) -> Mapping[str, Tensor]:
        """See `PersonalHead`."""
        u, b, v, c = self._parameters
        values = linear(linear(self._about, u, b).relu(), v, c)
        parts = zip(self._shapes.items(), torch.split(values, self._sizes), strict=True)
        return {name: part.view(shape) for (name, shape), part in parts}

    def now(self) -> Mapping[str, Tensor]:
        """See `PersonalHead`."""
        with torch.no_grad():
            self._take_up()
            return self.made()

    def _take_up(self) -> None:
        torch.add(self._start, self._change, out=self.trained.data)

    @contextmanager
    def training(self) -> Iterator[None]:
        """See `PersonalHead`."""
        # nu itself is stepped and not its change, so that weight decay is of nu.
        self._take_up()
        try:
            yield
        finally:  # after an interruption, too, as the model then is as it was trained so far
            torch.sub(self.trained.data, self._start, out=self._change)


def _first(shapes: Mapping[str, tuple[int, ...]], seed: int) -> Tensor:
    """The initial nu: the distribution of ``torch.nn.Linear``, uniform up to 1 / sqrt(inputs of the layer)."""
    random, drawn = stream(seed, Purpose.HYPERNETWORK), []
    for name, shape in shapes.items():
        layer = name.partition(".")[0]
        bound = 1 / math.sqrt(shapes[f"{layer}.weight"][1])
        drawn.append(random.uniform(-bound, bound, math.prod(shape)))
    return torch.from_numpy(np.concatenate(drawn).astype(np.float32))
