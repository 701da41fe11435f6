"""Survival: Cox' partial likelihood and the concordance index, on tables with a time and an event.

    dpeer simulate --size 3 --topology full --task examples/survival.py:task --rounds 60 --batch-size 256 --keep last
    dpeer simulate ... --algorithm local --out alone        # the same, each hospital by itself

Three hospitals want to know who is at risk of what happens early: a relapse, a failure of an implant. Each has a few
hundred patients, of whom many were seen for some time without the event (censored). The body learns what the
measurements mean for the risk; the last layer, each hospital's own weights of that, stays.

Without data of your own the hospitals draw patients whose risk depends on five measurements, not linearly: the mean
concordance is 0.75 together and 0.70 alone. With a folder of files hospital-0.csv, hospital-1.csv, ... (a header;
measurements, then columns `time` and `event`, 1 where it has happened and 0 where the patient was last seen without
it) each peer reads only its own:

    dpeer start --rank 0 --size 3 --task examples/survival.py:task --task-option data=my_folder

The loss compares each patient with those of the minibatch who were at risk at the time of the event (Cox, 1972, with
Breslow's way of ties): a larger --batch-size has larger risk sets. It is no mean of the patients' own losses, so
--privacy sample refuses it; --privacy client takes it.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from dpeer.training import Task


class RiskNet(nn.Module):
    """The logarithm of a patient's hazard, up to a constant that cancels."""

    def __init__(self, measurements: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(measurements, 32), nn.LayerNorm(32), nn.Tanh(), nn.Linear(32, 8), nn.Tanh())
        self.fc = nn.Linear(8, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """A score for each patient, shape (patients, 1)."""
        scores: Tensor = self.fc(self.body(x))
        return scores


def cox_loss(scores: Tensor, targets: Tensor) -> Tensor:
    """The negative logarithm of Cox' partial likelihood, a mean over the events.

    Args:
        scores: Logarithms of hazards, shape (patients, 1).
        targets: Time, and 1 for an event or 0 for none, shape (patients, 2).
    """
    score, time, event = scores[:, 0], targets[:, 0], targets[:, 1]
    at_risk = time[None, :] >= time[:, None]  # row i: who was still there at the time of patient i
    of_all = torch.logsumexp(score[None, :].expand_as(at_risk).masked_fill(~at_risk, -torch.inf), dim=1)
    return ((of_all - score) * event).sum() / event.sum().clamp(min=1)


def concordance(scores: Tensor, targets: Tensor) -> dict[str, float]:
    """The share of pairs in the right order (Harrell): who had the event earlier has the higher risk; ties are half."""
    score, time, event = scores[:, 0].double(), targets[:, 0], targets[:, 1]
    first = (time[:, None] < time[None, :]) & (event[:, None] == 1)  # i had it while j was still there
    if not first.any():
        return {}
    right = (score[:, None] > score[None, :]).double() + 0.5 * (score[:, None] == score[None, :]).double()
    return {"concordance": right[first].mean().item()}


def task(rank: int, size: int, seed: int, data: str | None = None) -> Task:
    """What hospital number `rank` trains with; `data` comes from ``--task-option data=...``."""
    inputs, targets = read_own_file(Path(data), rank) if data else drawn_patients(rank, seed)
    model = RiskNet(inputs.shape[1])  # torch was seeded with the same number on every rank

    order = np.random.default_rng(seed).permutation(len(inputs))
    test, train = order[: len(order) // 3], order[len(order) // 3 :]
    mean, scale = inputs[train].mean(axis=0), inputs[train].std(axis=0) + 1e-6

    def dataset(rows: np.ndarray) -> TensorDataset:
        prepared = (inputs[rows] - mean) / scale
        return TensorDataset(
            torch.tensor(prepared, dtype=torch.float32), torch.tensor(targets[rows], dtype=torch.float32)
        )

    return Task(model=model, head=("fc",), train=dataset(train), test=dataset(test), loss=cox_loss, metrics=concordance)


def read_own_file(folder: Path, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """This hospital's measurements and its (time, event) of each patient; nobody else needs the file."""
    with (folder / f"hospital-{rank}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    inputs = [[float(value) for name, value in row.items() if name not in ("time", "event")] for row in rows]
    return np.array(inputs), np.array([[float(row["time"]), float(row["event"])] for row in rows])


def drawn_patients(rank: int, seed: int, patients: int = 150) -> tuple[np.ndarray, np.ndarray]:
    """Patients with a Weibull hazard whose logarithm has products of measurements; about half are censored."""
    generator = np.random.default_rng([seed, rank])
    x = generator.normal(0.3 * rank, 1.0, (patients, 5))
    risk = 1.2 * x[:, 0] * x[:, 1] + np.abs(x[:, 2]) - 0.8 * x[:, 3]
    event = (generator.exponential(1.0, patients) * np.exp(-risk)) ** (1 / 1.5)
    seen = generator.exponential(1.5, patients)
    return x, np.column_stack([np.minimum(event, seen), event <= seen])
