"""On a full graph with uniform weights the algorithms of federated learning are those with a server."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from dpeer.training import Hyperparameters, Task, TorchLearner, build_learner, find_algorithm, options_among
from dpeer.training.batch_loader import batch_order

Make = Callable[..., Task]
Gossip = Callable[..., None]
CLIENTS, SEED = 4, 11
H = Hyperparameters(
    body_lr=0.08, head_lr=0.03, momentum=0.9, lr_decay=0.9, body_epochs=2, head_epochs=1, batch_size=16, grad_clip=None
)
FULL = np.full((CLIENTS, CLIENTS), 1 / CLIENTS)


def sizes(rank: int) -> int:
    return 30 + 7 * rank


@pytest.fixture
def peers(make_task: Make) -> Callable[..., list[TorchLearner]]:
    def make(algorithm: str, rho: float = 0.1) -> list[TorchLearner]:
        options = options_among(find_algorithm(algorithm), {"rho": rho})
        tasks = [make_task(rank, samples=sizes(rank)) for rank in range(CLIENTS)]
        return [
            build_learner(task, algorithm, H, rank=rank, seed=SEED, options=options) for rank, task in enumerate(tasks)
        ]

    return make


def server_loop(tasks: list[Task], rounds: int, base: Callable[[str], bool]) -> list[dict[str, Tensor]]:
    """Clients train what the server sent them; it averages their base parameters uniformly and sends them back."""
    clients = [copy.deepcopy(task.model).double() for task in tasks]
    server = {name: value.clone() for name, value in clients[0].state_dict().items() if base(name)}
    for number in range(rounds):
        returned = []
        for rank, (client, task) in enumerate(zip(clients, tasks, strict=True)):
            client.load_state_dict(server, strict=False)
            optimizer = torch.optim.SGD(client.parameters(), lr=H.body_lr * H.lr_decay**number, momentum=H.momentum)
            x, y = task.train.tensors
            for epoch in range(H.body_epochs):
                for rows in batch_order(len(x), SEED, rank, number, "model", epoch).split(H.batch_size):
                    optimizer.zero_grad()
                    cross_entropy(client(x[rows].double()), y[rows]).backward()
                    optimizer.step()
            returned.append({name: value.clone() for name, value in client.state_dict().items() if base(name)})
        server = {name: torch.stack([value[name] for value in returned]).mean(dim=0) for name in server}
    for client in clients:
        client.load_state_dict(server, strict=False)
    return [dict(client.state_dict()) for client in clients]


@pytest.mark.parametrize("algorithm", ["fedavg", "fedper"])
def test_full_graph_and_uniform_weights_are_the_servers_form(
    algorithm: str, make_task: Make, peers: Callable[..., list[TorchLearner]], gossip: Gossip
) -> None:
    tasks = [make_task(rank, samples=sizes(rank)) for rank in range(CLIENTS)]
    expected = server_loop(tasks, 2, lambda name: algorithm == "fedavg" or not name.startswith("fc."))
    learners = peers(algorithm)
    gossip(learners, 2, weights=FULL)
    for ours, state in zip(learners, expected, strict=True):
        for name, value in state.items():
            torch.testing.assert_close(ours.trainer.module.state_dict()[name].double(), value, rtol=0, atol=1e-5)
    heads = {tuple(ours.trainer.module.state_dict()["fc.bias"].tolist()) for ours in learners}
    assert len(heads) == (1 if algorithm == "fedavg" else CLIENTS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("one", "other", "changes"),
    [
        ("fedavg", "dfedavgm", {}),
        ("fedsam", "dfedsam", {}),
        ("fedrep", "dfedmdc", {}),
        ("dfedsmdc", "dfedmdc", {"rho": 0.0}),
        ("dfedsam", "dfedavgm", {"rho": 0.0}),
    ],
)
def test_the_same_rounds_by_another_name_to_the_bit(
    one: str, other: str, changes: dict[str, Any], peers: Callable[..., list[TorchLearner]], gossip: Gossip
) -> None:
    a, b = peers(one, **changes), peers(other, **changes)
    for learners in (a, b):
        gossip(learners, 3)
    for x, y in zip(a, b, strict=True):
        assert torch.equal(x.trainer.model.data, y.trainer.model.data)
        assert x.evaluate() == y.evaluate()
