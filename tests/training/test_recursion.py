"""The algorithms against the papers' recursions, written down once more in numpy and float64."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from dpeer.training import Hyperparameters, Learner, Task
from dpeer.training.batches import batch_order

Vector = NDArray[np.float64]
SIZE, SAMPLES, WIDTH, ROUNDS, SEED = 4, 20, 5, 4, 7


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


def learner(rank: int, algorithm: str, h: Hyperparameters) -> Learner:
    torch.manual_seed(SEED)
    x, y = data(rank)
    dataset = TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32))
    task = Task(model=Linear(), head=("v",), train=dataset, test=dataset, loss=half_square)
    return Learner(task, algorithm, h, rank=rank, seed=SEED)


class Peer:
    """One peer of the recursion; its parameters are one vector [u, v, b]."""

    def __init__(self, rank: int, start: Vector, h: Hyperparameters) -> None:
        self.rank, self.h, self.w = rank, h, start.copy()
        self.x, self.y = data(rank)
        self.x = np.hstack([self.x, self.x, np.ones((SAMPLES, 1))])

    def phase(self, number: int, phase: Any, part: slice, epochs: int, lr: float, rho: float = 0.0) -> None:
        velocity = np.zeros_like(self.w[part])
        for epoch in range(epochs):
            order = batch_order(SAMPLES, SEED, self.rank, number, phase, epoch).numpy()
            for first in range(0, SAMPLES, self.h.batch_size):
                rows = order[first : first + self.h.batch_size]

                def gradient(w: Vector, rows: Any = rows) -> Vector:
                    g: Vector = self.x[rows].T @ (self.x[rows] @ w - self.y[rows]) / len(rows)
                    return g[part]

                g = gradient(self.w)
                if rho:
                    climbed = self.w.copy()
                    climbed[part] += rho * g / np.linalg.norm(g)
                    g = gradient(climbed)
                velocity = self.h.momentum * velocity + g
                self.w[part] -= lr * self.h.lr_decay**number * velocity


BODY, HEAD, ALL = slice(0, WIDTH), slice(WIDTH, 2 * WIDTH + 1), slice(0, 2 * WIDTH + 1)


def directed_ring() -> Vector:
    w = np.zeros((SIZE, SIZE))
    for i in range(SIZE):
        w[i, i], w[i, (i - 1) % SIZE] = 0.5, 0.5
    return w


def ring() -> Vector:
    w = np.eye(SIZE) / 3
    for i in range(SIZE):
        w[i, (i - 1) % SIZE] = w[i, (i + 1) % SIZE] = 1 / 3
    return w


@pytest.mark.parametrize("batch_size", [SAMPLES, 100, 6])
@pytest.mark.parametrize("algorithm", ["dfedmdc", "dfedsmdc", "dfedavgm", "local"])
@pytest.mark.parametrize("weights", [ring(), directed_ring(), np.full((SIZE, SIZE), 1 / SIZE)])
def test_recursion(algorithm: str, batch_size: int, weights: Vector, gossip: Callable[..., None]) -> None:
    h = Hyperparameters(
        body_lr=0.04, head_lr=0.07, momentum=0.8, lr_decay=0.9, body_epochs=3, head_epochs=2,
        batch_size=batch_size, rho=0.4,
    )  # fmt: skip
    learners = [learner(rank, algorithm, h) for rank in range(SIZE)]
    start = np.concatenate([p.detach().double().numpy().reshape(-1) for p in learners[0]._model.parameters()])
    peers = [Peer(rank, start, h) for rank in range(SIZE)]
    shared = {"dfedavgm": ALL, "local": slice(0, 0)}.get(algorithm, BODY)

    gossip(learners, ROUNDS, weights=weights)
    for number in range(ROUNDS):
        for peer in peers:
            if algorithm in ("dfedavgm", "local"):
                peer.phase(number, "model", ALL, h.body_epochs, h.body_lr)
            else:
                peer.phase(number, "head", HEAD, h.head_epochs, h.head_lr)
                peer.phase(number, "body", BODY, h.body_epochs, h.body_lr, h.rho * (algorithm == "dfedsmdc"))
        z = np.array([peer.w[shared] for peer in peers])
        for peer, mixed in zip(peers, weights @ z, strict=True):
            peer.w[shared] = mixed

    for ours, peer in zip(learners, peers, strict=True):
        found = np.concatenate([p.detach().numpy().reshape(-1) for p in ours._model.parameters()])
        np.testing.assert_allclose(found, peer.w, rtol=0, atol=1e-4)


def test_train_loss_is_the_unperturbed_loss_of_the_last_epoch() -> None:
    """With a learning rate too small to matter, every minibatch loss is that of the start."""
    h = Hyperparameters(body_lr=1e-12, head_lr=1e-12, batch_size=6, rho=5.0)
    ours = learner(0, "dfedsmdc", h)
    x, y = data(0)
    w = np.concatenate([p.detach().double().numpy().reshape(-1) for p in ours._model.parameters()])
    expected = 0.5 * np.mean((np.hstack([x, x, np.ones((SAMPLES, 1))]) @ w - y) ** 2)
    assert ours.train(0) == pytest.approx(expected, rel=1e-5)


def test_head_trains_with_the_old_body_and_body_with_the_new_head() -> None:
    """Whichever phase is switched off shows whose state the other one used."""
    both = learner(0, "dfedmdc", Hyperparameters())
    head_only = learner(0, "dfedmdc", Hyperparameters(body_epochs=0))
    old_body = both.body
    both.train(0)
    head_only.train(0)
    assert torch.equal(both._trainer.head.data, head_only._trainer.head.data)
    assert torch.equal(head_only.body, old_body)

    from_new_head = learner(0, "dfedmdc", Hyperparameters(head_epochs=0))
    from_old_head = learner(0, "dfedmdc", Hyperparameters(head_epochs=0))
    from_new_head._trainer.head.data.copy_(both._trainer.head.data)
    from_new_head.train(0)
    from_old_head.train(0)
    assert torch.equal(from_new_head.body, both.body)
    assert not torch.equal(from_old_head.body, both.body)


def test_what_is_not_trained_gets_no_gradient() -> None:
    ours = learner(0, "dfedmdc", Hyperparameters())
    seen: list[tuple[bool, bool]] = []
    net = ours._model
    net.register_forward_hook(lambda *_: seen.append((net.u.weight.requires_grad, net.v.weight.requires_grad)))
    ours.train(0)
    assert seen == [(False, True)] + [(True, False)] * 5
