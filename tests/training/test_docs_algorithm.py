"""The algorithm that docs/algorithms.md writes, as it is printed there, against torch.optim in float64."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from dpeer.training import Hyperparameters, build_learner, find_algorithm
from dpeer.training.algorithms.options import about_options
from tests.training.reference_training import Plain
from tests.training.small import gossip, small_task

DOCS = Path(__file__).parents[2] / "docs" / "algorithms.md"
SIZE, SEED, ROUNDS, PASS = 3, 4, 2, 3
"""PASS: minibatches of 16 of 40 samples."""
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


def plain_round(plain: Plain, number: int, mu: float) -> None:
    """First the head; then the body, with the gradient of the penalty."""
    plain.run("head", 2 * PASS, H.head_lr, part="fc", number=number)
    moving = plain.parameters("body")
    began = [p.detach().clone() for p in moving]

    def pulled(rows: Tensor) -> list[Tensor]:
        found = zip(plain.gradient(rows, "body"), moving, began, strict=True)
        return [g + mu * (p.detach() - q) for g, p, q in found]

    plain.run("body", 3 * PASS, H.body_lr, part="body", number=number, gradient=pulled)


@pytest.mark.parametrize("options", [{}, {"mu": 1.5}])
def test_it_is_fedprox_on_the_body(printed: str, options: dict[str, Any]) -> None:
    tasks = [small_task(rank, samples=40) for rank in range(SIZE)]
    plains = [Plain(task, rank, SEED) for rank, task in enumerate(tasks)]
    learners = [
        build_learner(task, printed, H, rank=rank, seed=SEED, options=options) for rank, task in enumerate(tasks)
    ]
    gossip(learners, ROUNDS)
    for number in range(ROUNDS):
        for plain in plains:
            plain_round(plain, number, options.get("mu", 0.1))
        for parameters in zip(*(plain.parameters("body") for plain in plains), strict=True):
            mean = torch.stack([p.detach() for p in parameters]).mean(dim=0)
            for parameter in parameters:
                parameter.data.copy_(mean)
    for learner, plain in zip(learners, plains, strict=True):
        for name, value in plain.model.state_dict().items():
            torch.testing.assert_close(learner.trainer.module.state_dict()[name].double(), value, rtol=0, atol=2e-5)
    assert learners[0].about.head_parameters == 27


def test_what_it_says_of_itself(printed: str) -> None:
    found = find_algorithm(printed)
    assert (found.name, found.shares, found.leaves) == ("FedProx", "body", "the body")
    assert found.summary == "First the head, then the body, which is pulled back; the body is shared."
    assert found.uses == ("head_lr", "head_epochs")
    assert about_options(found)["mu"].words == "how strongly the body is pulled back"
