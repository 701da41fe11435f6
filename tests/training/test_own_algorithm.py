"""The algorithm that docs/algorithms.md writes, as it is printed there, against torch.optim in float64."""

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from dpeer.training import Hyperparameters, Task, build_learner, find_algorithm
from dpeer.training.algorithms.options import about_options
from dpeer.training.batch_loader import batch_order

Make = Callable[..., Task]
DOCS = Path(__file__).parents[2] / "docs" / "algorithms.md"
SIZE, SEED, ROUNDS = 3, 4, 2
H = Hyperparameters(
    body_lr=0.1, head_lr=0.2, momentum=0.9, lr_decay=0.9, body_epochs=3, head_epochs=2, batch_size=16, grad_clip=None
)


@pytest.fixture
def printed(tmp_path: Path) -> str:
    """What ``--algorithm`` takes for the code that is printed."""
    (code,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert len([line for line in code.partition('"""\n\nfrom')[2].splitlines() if line.strip()]) < 30
    path = tmp_path / "my_algorithm.py"
    path.write_text(code)
    return f"{path}:FedProx"


class Plain:
    """A peer in float64: two optimizers, and the penalty added to the loss."""

    def __init__(self, task: Task, rank: int, mu: float) -> None:
        self.rank, self.mu, self.model = rank, mu, copy.deepcopy(task.model).double()
        self.x, self.y = task.train.tensors[0].double(), task.train.tensors[1]

    def parameters(self, part: str) -> list[Tensor]:
        return [p for name, p in self.model.named_parameters() if name.startswith(part)]

    def run(self, phase: str, part: str, epochs: int, lr: float, number: int, mu: float) -> None:
        moving = self.parameters(part)
        began = [p.detach().clone() for p in moving]
        optimizer = torch.optim.SGD(moving, lr=lr * H.lr_decay**number, momentum=H.momentum)
        for epoch in range(epochs):
            for rows in batch_order(len(self.x), SEED, self.rank, number, phase, epoch).split(H.batch_size):
                penalty = sum(((p - q) ** 2).sum() for p, q in zip(moving, began, strict=True))
                optimizer.zero_grad()
                (cross_entropy(self.model(self.x[rows]), self.y[rows]) + mu / 2 * penalty).backward()
                optimizer.step()

    def train(self, number: int) -> None:
        self.run("head", "fc", H.head_epochs, H.head_lr, number, 0.0)
        self.run("body", "body", H.body_epochs, H.body_lr, number, self.mu)


@pytest.mark.parametrize("options", [{}, {"mu": 1.5}])
def test_it_is_fedprox_on_the_body(printed: str, options: dict[str, Any], make_task: Make, gossip: Any) -> None:
    tasks = [make_task(rank, samples=40) for rank in range(SIZE)]
    plains = [Plain(task, rank, options.get("mu", 0.1)) for rank, task in enumerate(tasks)]
    learners = [
        build_learner(task, printed, H, rank=rank, seed=SEED, options=options) for rank, task in enumerate(tasks)
    ]
    gossip(learners, ROUNDS)
    for number in range(ROUNDS):
        for plain in plains:
            plain.train(number)
        for parameters in zip(*(plain.parameters("body") for plain in plains), strict=True):
            mean = torch.stack([p.detach() for p in parameters]).mean(dim=0)
            for parameter in parameters:
                parameter.data.copy_(mean)
    for learner, plain in zip(learners, plains, strict=True):
        for name, value in plain.model.state_dict().items():
            torch.testing.assert_close(learner.trainer.module.state_dict()[name].double(), value, rtol=0, atol=2e-5)
    assert learners[0].head_parameters == 27


def test_without_a_pull_it_is_dfedmdc_to_the_bit(printed: str, make_task: Make, gossip: Any) -> None:
    def run(algorithm: str, options: dict[str, Any]) -> Tensor:
        learners = [
            build_learner(make_task(rank), algorithm, H, rank=rank, seed=SEED, options=options) for rank in range(SIZE)
        ]
        gossip(learners, ROUNDS)
        return torch.stack([learner.trainer.model.data for learner in learners])

    same, pulled = run(printed, {"mu": 0}), run(printed, {"mu": 1.0})
    assert torch.equal(same, run("dfedmdc", {}))
    assert not torch.equal(same, pulled)


def test_what_it_says_of_itself(printed: str) -> None:
    found = find_algorithm(printed)
    assert (found.name, found.shares, found.leaves) == ("FedProx", "body", "the body")
    assert found.summary == "First the head, then the body, which is pulled back; the body is shared."
    assert found.settings() == ("head_lr", "head_epochs")
    assert about_options(found)["mu"].words == "how strongly the body is pulled back"
