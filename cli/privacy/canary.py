"""The worst case for a mechanism: a peer whose update always points one way, seen by its only neighbor.

A federation of two. Rank 0's data decide whether its update goes all the clip norm along a direction or all of it
against that (or, for zero-out, nowhere); rank 1 wants to know which. It knows the common start, what it sends and every
message of rank 0, so also where each update of rank 0 began. What it sees of round t is C, or -C, along the direction
plus noise; the sum over the rounds is all there is to know, with mu = sqrt(T) S / s.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from dpeer.privacy import Guarantee, Ledger, Protection
from dpeer.privacy.audit import along
from dpeer.training import Hyperparameters, Learner, Task

WIDTH = 16
ROW = {0: 0.5, 1: 0.5}


class Pointer(nn.Module):
    """Its gradient is what its inputs are, whatever its parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(WIDTH, 1, bias=False)
        self.head = nn.Linear(1, 1)
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        """What the body makes of inputs of shape (batch, WIDTH); shape (batch, 1)."""
        moved: Tensor = self.body(x)
        unused: Tensor = self.head(moved)
        return moved + 0 * unused


def task(sign: float) -> Task:
    """Data that push the body along (1, ..., 1), against it, or (0) nowhere."""
    inputs = torch.full((4, WIDTH), float(sign))
    data = TensorDataset(inputs, torch.ones(4, 1))
    return Task(
        model=Pointer(), head=("head",), train=data, test=data, draws=False,
        loss=lambda outputs, targets: -(outputs * targets).mean(), metrics=lambda outputs, targets: {},
    )  # fmt: skip


def views(guarantee: Guarantee, rounds: int, runs: int, sign: float, tell: Callable[[], None]) -> NDArray[np.float64]:
    """What the neighbor computes from its view of each run, shape (runs,).

    Args:
        guarantee: The mechanism that is run.
        rounds: T.
        runs: How often, with noise of its own each time.
        sign: Which data set.
        tell: Called after each run.
    """
    return np.array([_view(guarantee, rounds, sign, tell) for _ in range(runs)])


def _view(guarantee: Guarantee, rounds: int, sign: float, tell: Callable[[], None]) -> float:
    direction = np.full(WIDTH, WIDTH**-0.5)
    # Steps so long that every update is clipped.
    h = Hyperparameters(body_epochs=1, head_epochs=1, body_lr=1000.0 * guarantee.clip_norm, momentum=0.0, lr_decay=1.0)
    seen = 0.0
    with tempfile.TemporaryDirectory(prefix="dpeer-audit-") as folder:
        protection = Protection(guarantee, Ledger(Path(folder), {}, resume=False))
        victim = Learner(task(sign), "dfedmdc", h, rank=0, seed=0, protection=protection)
        neighbor = Learner(task(0.0), "dfedmdc", h, rank=1, seed=0)
        base = np.zeros(WIDTH, dtype=np.float32)
        for number in range(rounds):
            for learner in (victim, neighbor):
                learner.train(number)
            message, own = victim.release(number), neighbor.release(number)
            assert message is not None
            assert own is not None
            heard, said = (np.frombuffer(payload[0], dtype="<f4") for payload in (message, own))
            seen += along(heard - base, direction)
            base = (ROW[0] * heard + ROW[1] * said).astype(np.float32)
            victim.mix({1: own}, ROW)
            neighbor.mix({0: message}, ROW)
    tell()
    return seen
