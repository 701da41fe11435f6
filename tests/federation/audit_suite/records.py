"""The model and the records of an audit at sample level: whose gradient points where is known, and as long as wanted.

The loss is linear, so a record's gradient is its inputs, whatever has been trained before. Only at one place of the
body, the ear, does it depend on what the head has learned: there a head that was trained without noise would be heard
in what leaves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from dpeer.training import Task
from tests.federation.audit_suite.canary import COORDINATES, Array
from tests.federation.audit_suite.echo import BODY, HEAD, LAYERS, Echo, Plain

WIDTH = BODY + HEAD
FAR = 1000.0
"""Length of a gradient that is far too long, in clip norms."""

_FURTHEST = 1e9

OTHERS = 3
"""Records beside the canary in the long attack."""

_FIRST = np.cumsum((0, *LAYERS[:-1]))


class Looking(Plain):
    """The same, looking at values: torch cannot vectorize it."""

    def forward(self, x: Tensor) -> Tensor:
        """See `Echo`."""
        if float(x.abs().max()) > _FURTHEST:
            raise ValueError("the audit has no such inputs for this model")
        return super().forward(x)


@dataclass(frozen=True)
class Records:
    """What a peer's data are.

    Attributes:
        inputs: Shape (records, WIDTH).
        groups: Whose each record is, shape (records,); None where records are protected.
        model: The class of the model.
    """

    inputs: Array
    groups: NDArray[np.int64] | None = None
    model: type[nn.Module] = Echo

    def task(self) -> Task:
        """The task, with a model that has learned nothing."""
        data = TensorDataset(torch.tensor(self.inputs, dtype=torch.float32), torch.ones(len(self.inputs), 1))
        return Task(
            model=self.model(), head=("head",), train=data, test=data, draws=False, vmap=True,
            loss=lambda outputs, targets: -(outputs * targets).mean(), metrics=lambda outputs, targets: {},
        )  # fmt: skip

    def gradients(self, body: Array, head: Array) -> Array:
        """What each record would move the model by, shape (records, WIDTH), before clipping."""
        x, ear = self.inputs, COORDINATES
        message = x[:, BODY:] @ head
        spoken = x[:, BODY:] * (1.0 + body[ear] * x[:, ear])[:, None]
        return np.hstack([x[:, :ear], (x[:, ear] * message)[:, None], spoken])


def canary() -> Array:
    """A direction across all layers and the head, of length 1, in coordinates that no other record has."""
    found = np.zeros(WIDTH)
    found[[*_FIRST, BODY]] = (len(_FIRST) + 1) ** -0.5
    return found


def others(clip_norm: float) -> Array:
    """The other records of the long attack, each with coordinates of its own; shape (OTHERS, WIDTH)."""
    found = np.zeros((OTHERS, WIDTH))
    for place in range(OTHERS):
        found[place, [*(_FIRST + 1 + place), BODY + 1 + place]] = FAR * clip_norm * (-1.0) ** place
    return found


def silent() -> NDArray[np.bool_]:
    """The coordinates in which none of these records has anything, shape (WIDTH,)."""
    out: NDArray[np.bool_] = (canary() == 0.0) & (others(1.0) == 0.0).all(axis=0)
    return out


def of_all_lengths(clip_norm: float, count: int, offset: int = 0) -> Records:
    """Records from far too short to far too long, whose gradients lie across each other in the body and in the head."""
    lengths = np.resize(np.roll([0.2, 0.5, 0.9, 1.1, 1.5, 3.0, 30.0, 1000.0], offset), count) * clip_norm
    body, head = (
        np.linalg.qr(np.vander(np.linspace(-1.0, 1.0, size)))[0][:count] for size in (COORDINATES, HEAD)
    )  # anybody may know them
    ear = np.where(np.arange(count) % 2 == 0, 1.0, -0.5)
    return Records(np.hstack([0.8 * lengths[:, None] * body, ear[:, None], 0.6 * lengths[:, None] * head]))


assert len(LAYERS) > 1, "a clip norm for each layer would go unnoticed"
assert min(LAYERS) > OTHERS, "each record needs a coordinate of its own in each layer"
