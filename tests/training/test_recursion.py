"""Whole runs against the papers' recursion in numpy and float64: a linear model, a quadratic loss, full batches."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file

pytestmark = pytest.mark.slow

Array = NDArray[np.float64]

SIZE, SAMPLES, WIDTH, ROUNDS = 4, 12, 3, 5
BODY_LR, HEAD_LR, MOMENTUM, DECAY, BODY_EPOCHS, HEAD_EPOCHS, RHO = 0.06, 0.09, 0.8, 0.9, 3, 2, 0.3

# y ~ u.x + v.x + b: body u, head (v, b); both see the input, so each phase depends on what the other left.
TASK = f"""
import numpy as np
import torch
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.training import Task


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.u = nn.Linear({WIDTH}, 1, bias=False)
        self.v = nn.Linear({WIDTH}, 1)

    def forward(self, x):
        return (self.u(x) + self.v(x)).squeeze(1)


def task(rank, size, seed, data):
    model = Linear()
    with torch.no_grad():
        model.u.weight.copy_(torch.tensor([[0.5, -0.25, 0.125]]))
        model.v.weight.copy_(torch.tensor([[-1.0, 0.75, 0.5]]))
        model.v.bias.fill_(0.25)
    mine = np.load(data)[rank]
    x = torch.tensor(mine[:, :-1], dtype=torch.float32)
    y = torch.tensor(mine[:, -1], dtype=torch.float32)
    dataset = TensorDataset(x, y)
    return Task(
        model=model, head=("v",), train=dataset, test=dataset,
        loss=lambda out, y: ((out - y) ** 2).mean(),
        metrics=lambda out, y: {{"error": ((out - y) ** 2).mean().item()}},
    )
"""

THIRD = 1 / 3
WEIGHTS: dict[str, list[list[float]]] = {
    # every peer has two neighbors
    "ring": [[THIRD, THIRD, 0, THIRD], [THIRD, THIRD, THIRD, 0], [0, THIRD, THIRD, THIRD], [THIRD, 0, THIRD, THIRD]],
    "full": [[0.25] * 4] * 4,
    # 2 x 2: 0-1, 2-3, 0-2, 1-3
    "grid": [[THIRD, THIRD, THIRD, 0], [THIRD, THIRD, 0, THIRD], [THIRD, 0, THIRD, THIRD], [0, THIRD, THIRD, THIRD]],
    # i hears i-1 and i-2, weights 1 / (1 + ceil(log2 4))
    "exponential-directed": [
        [THIRD, 0, THIRD, THIRD],
        [THIRD, THIRD, 0, THIRD],
        [THIRD, THIRD, THIRD, 0],
        [0, THIRD, THIRD, THIRD],
    ],
    # 2 x 3: corners have two neighbors, the middle ones (1 and 4) three
    "grid of six": [
        [5 / 12, 1 / 4, 0, 1 / 3, 0, 0],
        [1 / 4, 1 / 4, 1 / 4, 0, 1 / 4, 0],
        [0, 1 / 4, 5 / 12, 0, 0, 1 / 3],
        [1 / 3, 0, 0, 5 / 12, 1 / 4, 0],
        [0, 1 / 4, 0, 1 / 4, 1 / 4, 1 / 4],
        [0, 0, 1 / 3, 0, 1 / 4, 5 / 12],
    ],
}


def data(size: int) -> Array:
    """Another linear law on each peer; (size, samples, inputs and target)."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(size, SAMPLES, WIDTH))
    law = rng.normal(size=(size, WIDTH))
    y = np.einsum("rsw,rw->rs", x, law) + np.arange(size)[:, None] * 0.4 + 0.1 * rng.normal(size=(size, SAMPLES))
    return np.concatenate([x, y[..., None]], axis=2)


def recursion(weights: Array, table: Array, sam: bool) -> tuple[Array, Array]:
    """The papers' Algorithm 1; returns bodies (size, WIDTH) and heads (size, WIDTH + 1)."""
    size = len(weights)
    u = np.tile([0.5, -0.25, 0.125], (size, 1))
    v = np.tile([-1.0, 0.75, 0.5, 0.25], (size, 1))
    for t in range(ROUNDS):
        z = np.empty_like(u)
        for i in range(size):
            x, y = table[i, :, :-1], table[i, :, -1]
            x1 = np.column_stack([x, np.ones(SAMPLES)])

            velocity = np.zeros(WIDTH + 1)
            for _ in range(HEAD_EPOCHS):
                gradient = 2 / SAMPLES * x1.T @ (x @ u[i] + x1 @ v[i] - y)
                velocity = MOMENTUM * velocity + gradient
                v[i] -= HEAD_LR * DECAY**t * velocity

            body = u[i].copy()
            velocity = np.zeros(WIDTH)
            for _ in range(BODY_EPOCHS):
                gradient = 2 / SAMPLES * x.T @ (x @ body + x1 @ v[i] - y)
                if sam:
                    climbed = body + RHO * gradient / np.sqrt(np.sum(gradient**2))
                    gradient = 2 / SAMPLES * x.T @ (x @ climbed + x1 @ v[i] - y)
                velocity = MOMENTUM * velocity + gradient
                body -= BODY_LR * DECAY**t * velocity
            z[i] = body
        u = weights @ z
    return u, v


@pytest.fixture
def options(tmp_path):
    def make(topology: str, algorithm: str) -> tuple[object, ...]:
        name, size = topology.split()[0], len(WEIGHTS[topology])
        (tmp_path / "linear.py").write_text(TASK)
        np.save(tmp_path / "data.npy", data(size))
        return (
            "--task", "linear.py:task", "--task-option", "data=data.npy", "--size", size, "--topology", name,
            "--algorithm", algorithm, "--rounds", ROUNDS, "--finish", "none", "--keep", "last", "--grad-clip", 0,
            "--body-lr", BODY_LR, "--head-lr", HEAD_LR,
            "--momentum", MOMENTUM, "--lr-decay", DECAY, "--body-epochs", BODY_EPOCHS, "--head-epochs", HEAD_EPOCHS,
            "--rho", RHO, "--batch-size", SAMPLES + 1, "--out", "run",
        )  # fmt: skip

    return make


def check(run: Path, topology: str, algorithm: str) -> None:
    weights = np.array(WEIGHTS[topology])
    size = len(weights)
    u, v = recursion(weights, data(size), sam=algorithm == "dfedsmdc")
    for rank in range(size):
        model = load_file(run / f"rank-{rank}" / "model.safetensors")
        assert set(model) == {"u.weight", "v.weight", "v.bias"}
        head = np.concatenate([model["v.weight"].ravel(), model["v.bias"]])
        np.testing.assert_allclose(model["u.weight"].ravel(), u[rank], rtol=0, atol=1e-4)
        np.testing.assert_allclose(head, v[rank], rtol=0, atol=1e-4)
    # What the run says of itself follows from the same models.
    summary = json.loads((run / "summary.json").read_text())
    distance = np.sqrt(np.mean(np.sum((u - u.mean(axis=0)) ** 2, axis=1)))
    assert summary["consensus_distance"] == pytest.approx(distance, abs=1e-4)
    for rank, table in enumerate(data(size)):
        lines = (run / f"rank-{rank}" / "metrics.jsonl").read_text().splitlines()
        outputs = table[:, :-1] @ (u[rank] + v[rank, :-1]) + v[rank, -1]
        error = np.mean((outputs - table[:, -1]) ** 2)
        assert json.loads(lines[-1])["test_loss"] == pytest.approx(error, abs=1e-3)
        assert json.loads(lines[-1])["metrics"]["error"] == pytest.approx(error, abs=1e-3)
        assert json.loads(lines[-1])["accuracy"] is None


@pytest.mark.parametrize("algorithm", ["dfedmdc", "dfedsmdc"])
@pytest.mark.parametrize("topology", WEIGHTS)
def test_a_simulation_follows_the_papers_recursion(topology, algorithm, options, simulate, tmp_path):
    simulate(*options(topology, algorithm))
    check(tmp_path / "run", topology, algorithm)


def test_the_recursions_of_the_algorithms_and_graphs_differ():
    """Otherwise the checks above could not tell them apart."""
    found = [
        recursion(np.array(WEIGHTS[topology]), data(SIZE), sam)[0]
        for topology in ("ring", "full", "grid", "exponential-directed")
        for sam in (False, True)
    ]
    for index, one in enumerate(found):
        for other in found[:index]:
            assert np.abs(one - other).max() > 1e-2
