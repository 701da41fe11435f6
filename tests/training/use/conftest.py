"""Ranks' folders with a model and its card, as a learner leaves them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from dpeer.federation.build import build, task_of
from dpeer.federation.config import resolve
from dpeer.federation.settings import Settings
from dpeer.results.card import make_card
from dpeer.training import Task, TorchLearner


class Left(NamedTuple):
    """A learner, the folder that it has left, and its task, made once more."""

    learner: TorchLearner
    folder: Path
    task: Task

    def write(self) -> dict[str, Any]:
        """Write the model as it is now; its card."""
        self.learner.write_model(self.folder / "model.safetensors")
        return self.learner.card()

    def labelled(self) -> Path:
        """A file of the test data."""
        inputs, targets = self.task.test.tensors
        np.savez(self.folder / "test.npz", inputs=inputs.numpy(), targets=targets.numpy())
        return self.folder / "test.npz"


Leave = Callable[..., Left]

COLUMNS = ("weight", "age", "pulse", "length")


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def leave(tmp_path: Path) -> Leave:
    """Train a peer for a round, without neighbors, and write what it writes at its end."""

    def make(**values: Any) -> Left:
        settings = Settings(**{"size": 2, "out": tmp_path / "run", "algorithm": "local", "body_epochs": 1} | values)
        parts = build(resolve(settings, 0))
        left = Left(parts.learner, tmp_path / "run" / "rank-0", task_of(resolve(settings, 0)))
        left.folder.mkdir(parents=True, exist_ok=True)
        left.learner.train(0)
        results = {"rank": 0, "status": "done", "completed_rounds": 1, "kept_round": 0, "lost": {}, "privacy": None}
        card = make_card(parts.facts, left.write(), results)
        (left.folder / "model.json").write_text(json.dumps(card, allow_nan=False))
        return left

    return make


def write_csv(path: Path, header: tuple[str, ...], rows: list[list[Any]]) -> Path:
    path.write_text("\n".join([",".join(header), *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


@pytest.fixture
def visits(tmp_path: Path) -> Callable[..., Path]:
    """Write a table of numbers, an id, and what is to be predicted."""

    def write(name: str = "visits.csv", rows: int = 60, order: tuple[int, ...] = (0, 1, 2, 3, 4, 5)) -> Path:
        rng = np.random.default_rng(0)
        values = rng.normal(50, 20, (rows, 4)).round(3)
        header = ("weight", "age", "pulse", "length", "patient", "outcome")
        table = [[*v, f"p{n}", "yes" if sum(v) > 200 else "no"] for n, v in enumerate(values.tolist())]
        return write_csv(tmp_path / name, tuple(header[n] for n in order), [[row[n] for n in order] for row in table])

    return write


@pytest.fixture
def table_settings(visits: Callable[..., Path]) -> dict[str, Any]:
    options = {"path": str(visits()), "target": "outcome", "ignore": "patient"}
    return {"task": "csv", "task_options": options, "standardize": True, "partition": "iid"}
