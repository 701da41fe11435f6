"""The worst case for a mechanism: a peer whose update is as long as wanted, where wanted, seen by its only neighbor.

A federation of two. Rank 0's data decide in which direction its update goes; rank 1 wants to know. It knows the common
start, what it sends and every message of rank 0, so also where each update of rank 0 began. What it sees of round t is
the clipped update plus noise; the sum over the rounds is all there is to know, with mu = sqrt(T) S / s.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from dpeer.privacy import ClientSession, Guarantee, Ledger, Sparsifier
from dpeer.training import Hyperparameters, Task, build_learner
from dpeer.training.mixing.weighted_sum import weighted_sum
from dpeer.training.payload import encode, views
from dpeer.training.randomness import Purpose, stream
from dpeer.training.settings import WireDtype
from tests.federation.audit_suite.echo import LAYERS

COORDINATES = sum(LAYERS)
ROW = {0: 0.5, 1: 0.5}
_SEED = 0
MEMORY = "/dev/shm"

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """The mechanism that is attacked.

    Attributes:
        guarantee: The guarantee that is claimed.
        sparsifier: What of an update is kept.
        dtype: The type as which values travel.
    """

    guarantee: Guarantee
    sparsifier: Sparsifier = field(default_factory=Sparsifier)
    dtype: WireDtype = "float32"

    def mask(self, number: int) -> NDArray[np.bool_]:
        """The coordinates that round `number` releases, which every peer knows."""
        found = self.sparsifier.mask(COORDINATES, stream(_SEED, Purpose.SPARSIFY, number))
        return np.ones(COORDINATES, dtype=np.bool_) if found is None else found

    def clipped(self, update: Array, number: int) -> Array:
        """The part of an update that a round may release, before noise."""
        kept = np.where(self.mask(number), update, 0.0)
        length = float(np.linalg.norm(kept))
        return kept * min(1.0, self.guarantee.clip_norm / length) if length else kept


@dataclass(frozen=True)
class View:
    """The messages of one run that the neighbor has, and the peer's own ledger.

    Attributes:
        moved: Each release less its base, shape (rounds, coordinates).
        released: The releases, of the same shape.
        strayed: The base of each update less the one that a neighbor computes, of the same shape.
        counted: The number of releases in the peer's ledger.
        epsilon: The epsilon that the peer says it has spent.
    """

    moved: Array
    released: Array
    strayed: Array
    counted: int
    epsilon: float


class Pointer(nn.Module):
    """A model whose gradient is its inputs, whatever its parameters are."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.ModuleList(nn.Linear(width, 1, bias=False) for width in LAYERS)
        self.head = nn.Linear(1, 1)
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        """The model's output, shape (batch, 1), for inputs of shape (batch, COORDINATES)."""
        parts = torch.split(x, list(LAYERS), dim=1)
        moved = torch.stack([layer(part) for layer, part in zip(self.body, parts, strict=True)]).sum(0)
        unused: Tensor = self.head(moved)
        return moved + 0 * unused


def task(update: Array) -> Task:
    """Data with which one round moves the body by this much; shape (COORDINATES,)."""
    data = TensorDataset(torch.tensor(np.tile(update, (2, 1)), dtype=torch.float32), torch.ones(2, 1))
    return Task(
        model=Pointer(), head=("head",), train=data, test=data, draws=False,
        loss=lambda outputs, targets: -(outputs * targets).mean(), metrics=lambda outputs, targets: {},
    )  # fmt: skip


def view(setting: Setting, rounds: int, update: Array) -> View:
    """Run the mechanism once, with noise of its own."""
    h = Hyperparameters(body_epochs=1, head_epochs=1, body_lr=1.0, momentum=0.0, lr_decay=1.0, compress=setting.dtype)
    moved, released, strayed = (np.empty((rounds, COORDINATES)) for _ in range(3))
    # Ledgers are flushed to disk; one in memory is as good here, and a hundred times faster.
    place = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="dpeer-audit-", dir=place) as folder:
        ledger = Ledger(Path(folder), {}, resume=False)
        session = ClientSession(setting.guarantee, ledger, sparsifier=setting.sparsifier)
        victim = build_learner(task(update), "dfedmdc", h, rank=0, seed=_SEED, session=session)
        base = torch.zeros(COORDINATES)
        for number in range(rounds):
            strayed[number] = (victim.body - base).double().numpy()
            victim.train(number)
            message, own = victim.release(number), [encode(base, setting.dtype)]
            assert message is not None
            heard, expected = (_values(payload, setting.dtype) for payload in (message, own))
            released[number] = heard.double().numpy()
            moved[number] = (heard.double() - base.double()).numpy()
            victim.mix({1: own}, ROW)
            base = torch.empty(COORDINATES)
            weighted_sum(base, [([heard], ROW[0]), ([expected], ROW[1])])
        spent = victim.privacy
        assert spent is not None
        return View(moved, released, strayed, int(spent["releases"]), float(spent["epsilon"]))


def _values(payload: object, dtype: WireDtype) -> Tensor:
    vectors = views(payload, COORDINATES, dtype)
    assert vectors is not None
    return torch.cat(vectors).float()
