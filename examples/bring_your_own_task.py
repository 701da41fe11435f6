"""Your own model and your own data in dpeer: copy this file and change what is in it.

    dpeer cluster --size 4 --topology ring --task examples/bring_your_own_task.py:task

Four hospitals classify breast tumours from 30 measurements of a cell sample. They want to learn together what the
measurements mean (the body), but each sees other patients, so each keeps its own decision (the head).

Without data of your own, scikit-learn's Wisconsin data set is divided among the hospitals, unevenly. With a folder
of files hospital-0.csv, hospital-1.csv, ... (one row per patient: the measurements, then 0 or 1), each peer reads
only its own:

    dpeer cluster --size 4 --topology ring --task examples/bring_your_own_task.py:task --task-option data=my_folder
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from dpeer.training import Task, partition


class TumourNet(nn.Module):
    """Any PyTorch model will do, as long as its body has no BatchNorm (LayerNorm and GroupNorm are fine)."""

    def __init__(self, measurements: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(measurements, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU()
        )
        self.fc = nn.Linear(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Two scores per patient."""
        scores: Tensor = self.fc(self.body(x))
        return scores


def task(rank: int, size: int, seed: int, data: str | None = None) -> Task:
    """What hospital number `rank` of `size` trains with; `data` comes from ``--task-option data=...``."""
    table = read_own_file(Path(data), rank) if data else share_of_public_data(rank, size, seed)

    # torch was seeded with the same number on every rank, so all of them build the same model.
    model = TumourNet(measurements=table.shape[1] - 1)

    # A fifth of the own patients is for testing. The scale is taken from the training part alone.
    table = np.random.default_rng(seed).permutation(table)
    held_out = max(len(table) // 5, 2)
    test, train = table[:held_out], table[held_out:]
    mean, scale = train[:, :-1].mean(axis=0), train[:, :-1].std(axis=0) + 1e-6

    def dataset(rows: np.ndarray) -> TensorDataset:
        inputs = (rows[:, :-1] - mean) / scale
        return TensorDataset(torch.tensor(inputs, dtype=torch.float32), torch.tensor(rows[:, -1], dtype=torch.int64))

    # head=("fc",): the layer `fc` stays here; everything else is averaged with the neighbors.
    # Each patient has one row here. Where some have several, say whose each row of `train` is, groups=[...], so that
    # privacy can protect a patient and not only a row; and divide patients, not rows, into training and test.
    return Task(model=model, head=("fc",), train=dataset(train), test=dataset(test))


def read_own_file(folder: Path, rank: int) -> np.ndarray:
    """This hospital's patients; nobody else needs the file."""
    return np.loadtxt(folder / f"hospital-{rank}.csv", delimiter=",", ndmin=2)


def share_of_public_data(rank: int, size: int, seed: int) -> np.ndarray:
    """An uneven share: some hospitals see mostly benign cases, others mostly malignant ones."""
    from sklearn.datasets import load_breast_cancer

    inputs, labels = load_breast_cancer(return_X_y=True)
    mine = partition(labels, size, "dirichlet:0.5", seed, minimum=20)[rank]
    return np.column_stack([inputs[mine], labels[mine]])
