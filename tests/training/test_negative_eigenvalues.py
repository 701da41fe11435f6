"""Disagreement of peers on graphs whose mixing matrix has eigenvalues far below zero: no algorithm may feed it."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.topology import build
from dpeer.training import Hyperparameters, Task, build_learner, find_algorithm
from dpeer.training.algorithms import ALGORITHMS
from tests.thinning import only
from tests.training.small import gossip

EXCHANGING = sorted(name for name in ALGORITHMS if find_algorithm(name).shares != "nothing" and name != "dis-pfl")
"""Masks of dis-pfl differ from peer to peer, and so do its bodies, whatever the graph."""
ADAMW = {"fedadamw", "localadamw", "fafed", "fedlada", "fedopt"}


def half_square(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return 0.5 * ((outputs.squeeze(1) - targets) ** 2).mean()


def task(rank: int, classes: bool) -> Task:
    """A problem whose best weights differ from peer to peer: a regression, or two classes."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2 if classes else 1))
    rng = np.random.default_rng([rank, 5])
    x = rng.normal(size=(16, 4)).astype(np.float32)
    y = (x @ rng.normal(size=4) + 0.1 * rng.normal(size=16)).astype(np.float32)
    data = TensorDataset(torch.from_numpy(x), torch.from_numpy((y > 0).astype(np.int64) if classes else y))
    return Task(model=model, head=("1",), train=data, test=data, loss=None if classes else half_square)


def disagreements(algorithm: str, graph: str, size: int, rounds: int) -> list[float]:
    """After each round, the root mean squared distance of the bodies from their mean."""
    weights = "best-constant" if graph == "ring" else None
    built = build(graph, size, **({} if weights is None else {"weights": weights}))
    matrix = np.zeros((size, size))
    for rank in range(size):
        for other, weight in built.at(0, rank).row.items():
            matrix[rank, other] = weight
    rate = 0.01 if algorithm in ADAMW else 0.05
    h = Hyperparameters(
        body_lr=rate, head_lr=rate, rounds=rounds, batch_size=16, body_epochs=2, head_epochs=1, momentum=0.9,
        lr_decay=1.0, weight_decay=0.0,
    )  # fmt: skip
    classes = algorithm == "fedrod"  # its loss is one of classes
    peers = [build_learner(task(r, classes), algorithm, h, rank=r, seed=1) for r in range(size)]
    found = []
    for number in range(rounds):
        gossip(peers, 1, start=number, weights=matrix)
        bodies = torch.stack([peer.trainer.body.data for peer in peers]).double()
        found.append(float((bodies - bodies.mean(0)).square().sum(1).mean().sqrt()))
    return found


def bounded(found: list[float]) -> bool:
    """Whether the last rounds' disagreement is not far above that of the first ones."""
    return bool(np.isfinite(found).all()) and max(found[-10:]) <= 2 * max(found[:15])


@pytest.mark.parametrize("algorithm", only(["scaffold", "ditto"], EXCHANGING))
def test_disagreement_stays_bounded_on_a_ring_with_the_best_constant_weights(algorithm: str) -> None:
    """The smallest eigenvalue is -0.745."""
    assert bounded(disagreements(algorithm, "ring", 8, 40))


@pytest.mark.parametrize("graph", only(["torus"], ["torus", "hypercube", "exponential"]))
def test_fedadamw_stays_bounded_over_sixty_rounds(graph: str) -> None:
    """The smallest eigenvalues are -0.6, -0.6 and -0.27; -1 / (1 + 2 gamma) is -0.5."""
    assert bounded(disagreements("fedadamw", graph, 16, 60))
