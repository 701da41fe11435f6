"""FedAvg, SAM and personalized-head methods and Ditto, against their papers' rules in numpy float64."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from dpeer.training import Hyperparameters, Task, TorchLearner, build_learner, find_algorithm
from dpeer.training.algorithms.options import about_options
from dpeer.training.batch_loader import batch_order
from tests.training.small import gossip

pytestmark = pytest.mark.slow

Vector = NDArray[np.float64]
SIZE, SAMPLES, WIDTH, ROUNDS, SEED = 4, 20, 5, 2, 7


class Linear(nn.Module):
    """x . u + x . v + b: the body and the head both act on the input, so each phase depends on the other's state."""

    def __init__(self) -> None:
        super().__init__()
        self.u = nn.Linear(WIDTH, 1, bias=False)
        self.v = nn.Linear(WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = (self.u(x) + self.v(x)).squeeze(1)
        return out


def half_square(outputs: Tensor, targets: Tensor) -> Tensor:
    return 0.5 * ((outputs - targets) ** 2).mean()


def data(rank: int) -> tuple[Vector, Vector]:
    rng = np.random.default_rng([rank, 1])
    x = rng.normal(size=(SAMPLES, WIDTH))
    return x, x @ rng.normal(size=WIDTH) + 0.5 * rank


def learner(rank: int, algorithm: str, settings: Mapping[str, Any] = MappingProxyType({})) -> TorchLearner:
    named = {name: value for name, value in settings.items() if name in Hyperparameters.model_fields}
    h = Hyperparameters(grad_clip=None).model_copy(update=named)  # epochs may be none
    options = {name: settings[name] for name in about_options(find_algorithm(algorithm)) if name in settings}
    return build_learner(task(rank, SIZE, SEED), algorithm, h, rank=rank, seed=SEED, options=options)


def task(rank: int, size: int, seed: int) -> Task:
    torch.manual_seed(seed)
    x, y = data(rank)
    dataset = TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32))
    return Task(model=Linear(), head=("v",), train=dataset, test=dataset, loss=half_square)


class Peer:
    """One peer of the recursion; its parameters are one vector [u, v, b].

    Attributes:
        w: Body and head as they are trained and shared.
        own: The vector that predicts, where an algorithm has one beside `w`.
    """

    def __init__(self, rank: int, start: Vector, settings: Mapping[str, Any]) -> None:
        self.rank, self.h, self.w = rank, SimpleNamespace(**settings), start.copy()
        self.own: Vector | None = None
        self.x, self.y = data(rank)
        self.x = np.hstack([self.x, self.x, np.ones((SAMPLES, 1))])

    def loss(self) -> float:
        w = self.w if self.own is None else self.own
        return float(0.5 * np.mean((self.x @ w - self.y) ** 2))

    def steps(
        self,
        w: Vector,
        number: int,
        phase: Any,
        part: slice,
        epochs: int,
        lr: float,
        rho: float = 0.0,
        pull: tuple[float, Vector] | None = None,
    ) -> Vector:
        w, velocity = w.copy(), np.zeros_like(w[part])
        for epoch in range(epochs):
            order = batch_order(SAMPLES, SEED, self.rank, number, phase, epoch).numpy()
            for first in range(0, SAMPLES, self.h.batch_size):
                rows = order[first : first + self.h.batch_size]

                def gradient(w: Vector, rows: Any = rows) -> Vector:
                    g: Vector = self.x[rows].T @ (self.x[rows] @ w - self.y[rows]) / len(rows)
                    return g[part]

                g = gradient(w)
                if rho:
                    climbed = w.copy()
                    climbed[part] += rho * g / np.linalg.norm(g)
                    g = gradient(climbed)
                if pull is not None:
                    g = g + pull[0] * (w - pull[1])
                velocity = self.h.momentum * velocity + g
                w[part] -= lr * self.h.lr_decay**number * velocity
        return w


BODY, HEAD, ALL = slice(0, WIDTH), slice(WIDTH, 2 * WIDTH + 1), slice(0, 2 * WIDTH + 1)

# The rounds of the papers, each until the message is sent.


def joint(peer: Peer, t: int, rho: float = 0.0) -> None:
    peer.w = peer.steps(peer.w, t, "model", ALL, peer.h.body_epochs, peer.h.body_lr, rho)


def joint_sam(peer: Peer, t: int) -> None:
    joint(peer, t, peer.h.rho)


def alternating(peer: Peer, t: int, *, head_rho: float = 0.0, body_rho: float = 0.0) -> None:
    peer.w = peer.steps(peer.w, t, "head", HEAD, peer.h.head_epochs, peer.h.head_lr, head_rho)
    peer.w = peer.steps(peer.w, t, "body", BODY, peer.h.body_epochs, peer.h.body_lr, body_rho)


def sam_on_body(peer: Peer, t: int) -> None:
    alternating(peer, t, body_rho=peer.h.rho)


def sam_on_head(peer: Peer, t: int) -> None:
    alternating(peer, t, head_rho=peer.h.rho)


def sam_on_both(peer: Peer, t: int) -> None:
    alternating(peer, t, head_rho=peer.h.rho, body_rho=peer.h.rho)


def body_only(peer: Peer, t: int) -> None:
    peer.w = peer.steps(peer.w, t, "body", BODY, peer.h.body_epochs, peer.h.body_lr)


def ditto(peer: Peer, t: int) -> None:
    received = peer.w
    joint(peer, t)
    own = received if peer.own is None else peer.own  # both start alike, and in round 0 `received` is the start
    pull = peer.h.ditto_lambda, received
    peer.own = peer.steps(own, t, "personal", ALL, peer.h.body_epochs, peer.h.body_lr, pull=pull)


NOTHING = slice(0, 0)
CASES: dict[str, tuple[Callable[[Peer, int], None], slice, dict[str, Any]]] = {
    "local": (joint, NOTHING, {}),
    "dfedavgm": (joint, ALL, {}),
    "fedavg": (joint, ALL, {}),
    "dfedsam": (joint_sam, ALL, {}),
    "fedsam": (joint_sam, ALL, {}),
    "fedper": (joint, BODY, {}),
    "dfedmdc": (alternating, BODY, {}),
    "fedrep": (alternating, BODY, {}),
    "dfedsmdc": (sam_on_body, BODY, {}),
    "dfedsmdc head": (sam_on_head, BODY, {"sam": "head"}),
    "dfedsmdc both": (sam_on_both, BODY, {"sam": "both"}),
    "fedbabu": (body_only, BODY, {}),
    "ditto": (ditto, ALL, {"ditto_lambda": 0.6}),
}


def directed_ring() -> Vector:
    w = np.zeros((SIZE, SIZE))
    for i in range(SIZE):
        w[i, i], w[i, (i - 1) % SIZE] = 0.5, 0.5
    return w


def vector(tensors: Mapping[str, Tensor]) -> Vector:
    parts = [tensors[name].detach().numpy().reshape(-1) for name in ("u.weight", "v.weight", "v.bias")]
    found: Vector = np.concatenate(parts).astype(np.float64)
    return found


@pytest.mark.parametrize(
    ("weights", "batch_size"),
    [(directed_ring(), 6), (np.full((SIZE, SIZE), 1 / SIZE), 100)],
    ids=["directed-6", "full-100"],
)
@pytest.mark.parametrize("case", CASES)
def test_recursion(case: str, batch_size: int, weights: Vector, tmp_path: Path) -> None:
    local_round, shared, changes = CASES[case]
    h = {
        "body_lr": 0.04, "head_lr": 0.07, "momentum": 0.8, "lr_decay": 0.9, "body_epochs": 3, "head_epochs": 2,
        "batch_size": batch_size, "rho": 0.4, **changes,
    }  # fmt: skip
    learners = [learner(rank, case.split()[0], h) for rank in range(SIZE)]
    start = vector(learners[0].trainer.module.state_dict())
    peers = [Peer(rank, start, h) for rank in range(SIZE)]

    gossip(learners, ROUNDS, weights=weights)
    for number in range(ROUNDS):
        for peer in peers:
            local_round(peer, number)
        z = np.array([peer.w[shared] for peer in peers])
        for peer, mixed in zip(peers, weights @ z, strict=True):
            peer.w[shared] = mixed

    for ours, peer in zip(learners, peers, strict=True):
        # What goes on being trained and shared, what the file holds, and what is evaluated.
        np.testing.assert_allclose(vector(ours.trainer.module.state_dict()), peer.w, rtol=0, atol=2e-5)
        ours.write_model(tmp_path / "model")
        predicts = peer.w if peer.own is None else peer.own
        np.testing.assert_allclose(vector(load_file(tmp_path / "model")), predicts, rtol=0, atol=2e-5)
        assert ours.evaluate().test_loss == pytest.approx(peer.loss(), rel=1e-3)


def test_what_predicts_is_not_what_is_shared() -> None:
    """Else the test above would not tell them apart."""
    h = {"body_lr": 0.04, "batch_size": 6}
    ours = learner(0, "ditto", h)
    gossip([ours], 2, weights=np.eye(1))
    predictor = ours.algorithm.predictor(ours.trainer)
    assert predictor is not None
    assert (predictor - ours.trainer.model.data).abs().max() > 0.01


def test_what_is_not_trained_gets_no_gradient() -> None:
    ours = learner(0, "dfedmdc")
    seen: list[tuple[bool, bool]] = []
    net = ours.trainer.module
    net.register_forward_hook(lambda *_: seen.append((net.u.weight.requires_grad, net.v.weight.requires_grad)))
    ours.train(0)
    assert seen == [(False, True)] + [(True, False)] * 5


# Whole runs on graphs whose weights are written down here.

GRAPHS: dict[str, list[list[float]]] = {
    # i hears i-1 and i-2, weights 1 / (1 + ceil(log2 4))
    "exponential-directed": [[1 / 3, 0, 1 / 3, 1 / 3], [1 / 3, 1 / 3, 0, 1 / 3], [1 / 3, 1 / 3, 1 / 3, 0],
                             [0, 1 / 3, 1 / 3, 1 / 3]],
    # 2 x 3: corners have two neighbors, the middle ones (1 and 4) three
    "grid": [
        [5 / 12, 1 / 4, 0, 1 / 3, 0, 0],
        [1 / 4, 1 / 4, 1 / 4, 0, 1 / 4, 0],
        [0, 1 / 4, 5 / 12, 0, 0, 1 / 3],
        [1 / 3, 0, 0, 5 / 12, 1 / 4, 0],
        [0, 1 / 4, 0, 1 / 4, 1 / 4, 1 / 4],
        [0, 0, 1 / 3, 0, 1 / 4, 5 / 12],
    ],
}  # fmt: skip


BROUGHT = (400.0, 20.0, 30.5, 7.0, 90.0, 3.0)
"""What the six peers of the grid declare."""


def declared(graph: str) -> Vector:
    """W_ij = min(1 / d_i, (p_j / p_i) / d_j) on the edges of a graph, d its neighbors and oneself; the rest at home."""
    edges = np.array(GRAPHS[graph]) > 0
    d, p, size = edges.sum(axis=1), np.array(BROUGHT) / sum(BROUGHT), len(edges)
    w = np.zeros(edges.shape)
    for i, j in zip(*np.nonzero(edges & ~np.eye(size, dtype=bool)), strict=True):
        w[i, j] = min(1 / d[i], p[j] / p[i] / d[j])
    return w + np.diag(1 - w.sum(axis=1))


RUNS = {
    "exponential-directed": ("dfedsmdc", sam_on_body, np.array(GRAPHS["exponential-directed"]), 1e-4),
    "grid": ("dfedsmdc", sam_on_body, np.array(GRAPHS["grid"]), 1e-4),
    "grid, declared": ("dfedmdc", alternating, declared("grid"), 1e-5),
}


@pytest.mark.parametrize("run", RUNS)
def test_a_simulation_follows_the_papers_recursion(run: str, simulate: Any, tmp_path: Path) -> None:
    """And what the run says of itself follows from the same models."""
    algorithm, local_round, weights, atol = RUNS[run]
    graph, _, with_weights = run.partition(", ")
    tables = "".join(f"[rank.{rank}]\nweight = {brought}\n" for rank, brought in enumerate(BROUGHT))
    (tmp_path / "dpeer.toml").write_text(f'size = 6\nweights = "declared"\n{tables}' if with_weights else "")
    (tmp_path / "mine.py").write_text(f"from {__name__} import task\n")
    h = {"body_lr": 0.04, "head_lr": 0.07, "momentum": 0.8, "lr_decay": 0.9, "body_epochs": 3, "head_epochs": 2,
         "batch_size": 6, "rho": 0.4}  # fmt: skip
    settings = [word for name, value in h.items() for word in (f"--{name.replace('_', '-')}", value)]
    simulate(
        "--task", "mine.py:task", "--size", len(weights), "--topology", graph, "--algorithm", algorithm,
        "--seed", SEED, "--rounds", ROUNDS, "--finish", "none", "--keep", "last", "--grad-clip", 0,
        "--out", "run", *settings,
    )  # fmt: skip
    start = vector(task(0, SIZE, SEED).model.state_dict())
    peers = [Peer(rank, start, h) for rank in range(len(weights))]
    for number in range(ROUNDS):
        for peer in peers:
            local_round(peer, number)
        for peer, mixed in zip(peers, weights @ np.array([peer.w[BODY] for peer in peers]), strict=True):
            peer.w[BODY] = mixed
    bodies = np.array([peer.w[BODY] for peer in peers])
    distance = np.sqrt(np.mean(np.sum((bodies - bodies.mean(axis=0)) ** 2, axis=1)))
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["consensus_distance"] == pytest.approx(distance, abs=1e-4)
    for peer in peers:
        folder = tmp_path / "run" / f"rank-{peer.rank}"
        np.testing.assert_allclose(vector(load_file(folder / "model.safetensors")), peer.w, rtol=0, atol=atol)
        last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
        assert (last["test_loss"], last["accuracy"]) == (pytest.approx(peer.loss(), abs=1e-3), None)
