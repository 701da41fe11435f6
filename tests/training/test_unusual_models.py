"""What users' models and data do that could silently spoil training."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dpeer.exceptions import TaskError
from dpeer.training import Hyperparameters, Task, TorchLearner, build_learner
from dpeer.training.objective import classification_metrics
from tests.training.small import floats, mix, small_task

H = Hyperparameters(body_epochs=1, batch_size=16)


def learner(task: Task, algorithm: str = "dfedmdc", h: Hyperparameters = H) -> TorchLearner:
    return build_learner(task, algorithm, h, rank=0, seed=0)


def vector_of(task: Task) -> Tensor:
    """All parameters, the body's first."""
    return torch.cat([p.detach().reshape(-1) for p in task.model.parameters()])


class Net(nn.Module):
    """Body `a`, head `fc`; `tamper` runs in every forward pass."""

    def __init__(self, tamper: Callable[["Net"], None] = lambda net: None) -> None:
        super().__init__()
        self.a = nn.Linear(6, 8)
        self.fc = nn.Linear(8, 3)
        self.tamper = tamper

    def forward(self, x: Tensor) -> Tensor:
        self.tamper(self)
        out: Tensor = self.fc(torch.relu(self.a(x)))
        return out


def renorm(net: Net) -> None:
    net.a.weight.data = torch.renorm(net.a.weight.data, 2, 0, 1.0)


@pytest.mark.parametrize("algorithm", ["dfedmdc", "dfedsmdc", "dfedavgm"])
@pytest.mark.parametrize("tamper", [renorm, lambda net: net.zero_grad()], ids=["max-norm", "zero_grad"])
def test_a_model_that_replaces_its_storage_still_trains_and_mixes(
    tamper: Callable[[Net], None], algorithm: str
) -> None:
    torch.manual_seed(1)
    task = small_task(model=Net(tamper))
    found = learner(task, algorithm)
    before = vector_of(task)
    found.train(0)
    released = floats(found.release(0))
    count = len(released)
    assert (vector_of(task) - before)[:56].abs().max() > 0.01
    found.evaluate()
    assert torch.equal(found.body, vector_of(task)[:count])
    mix(found, {1: [np.zeros(count, "<f4").tobytes()]}, {0: 0.5, 1: 0.5})
    np.testing.assert_allclose(vector_of(task)[:count].numpy(), released / 2, rtol=1e-6)


def test_a_users_default_dtype_does_not_reach_the_wire() -> None:
    task = small_task()
    torch.set_default_dtype(torch.float64)
    try:
        found = learner(task)
        assert found.body.dtype == torch.float32
        found.train(0)
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_model_that_comes_in_eval_mode_trains_in_train_mode() -> None:
    task = small_task(dropout=0.5)
    task.model.eval()
    modes = set()
    task.model.drop.register_forward_pre_hook(lambda module, args: modes.add(module.training))
    learner(task).train(0)
    assert modes == {True}


SCORES = torch.tensor([[2.0, 1.0], [2.0, 1.0], [1.0, 2.0], [2.0, 1.0]])


@pytest.mark.parametrize(
    ("scores", "labels", "expected"),
    [
        (torch.randn(4, 1), torch.tensor([0, 1, 1, 0]), {}),  # one score per sample
        (torch.randn(4, 5, 3), torch.randint(0, 3, (4, 6)), {}),
        (torch.randn(4, 3, 5), torch.randint(0, 3, (4, 6)), {}),  # other positions
        (torch.randn(4, 2), torch.tensor([0, 1, 2, 7]), {}),  # no such score
        (torch.randn(4, 2), torch.full((4,), -100), {}),
        (SCORES, torch.tensor([0, 1, -100, 0]), {"accuracy": pytest.approx(2 / 3), "balanced_accuracy": 0.5}),
    ],
)
def test_default_metrics_speak_of_classifiers_and_of_what_cross_entropy_does_not_ignore(
    scores: Tensor, labels: Tensor, expected: dict[str, Any]
) -> None:
    assert classification_metrics(scores, labels) == expected


def test_outputs_that_cannot_be_joined_need_metrics_only_when_the_user_has_some() -> None:
    class Both(Net):
        def forward(self, x: Tensor) -> Any:
            return super().forward(x), None

    def of(**metrics: Any) -> TorchLearner:
        loss = lambda outputs, targets: nn.functional.cross_entropy(outputs[0], targets)  # noqa: E731
        found = learner(small_task(model=Both(), loss=loss, **metrics))
        found.train(0)
        return found

    assert of().evaluate().metrics == {}
    with pytest.raises(TaskError):
        of(metrics=lambda outputs, targets: {"one": 1.0}).evaluate()


@pytest.mark.parametrize(
    "tensor",
    [torch.ones(2, 3, dtype=torch.complex64), torch.ones(3, dtype=torch.bfloat16), torch.empty(0, 4),
     torch.arange(6.0).view(2, 3).T],
    ids=["complex", "bfloat16", "empty", "transposed"],
)  # fmt: skip
def test_dense_tensors_of_any_type_are_trained_beside_and_saved(tmp_path: Path, tensor: Tensor) -> None:
    first, second = (learner(small_task(model=Net())) for _ in range(2))
    for one in (first, second):
        one.trainer.module.register_buffer("extra", tensor.clone())
    first.train(0)
    first.save(tmp_path)
    second.load(tmp_path)
    first.write_model(tmp_path / "model.safetensors")
    assert torch.equal(second.trainer.module.extra, tensor)
