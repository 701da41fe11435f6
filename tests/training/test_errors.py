"""What fails in training and evaluation of a task, and what does not go together; what the errors say."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from dpeer.exceptions import ConfigurationError, TaskError
from dpeer.training import Hyperparameters, build_learner
from dpeer.training.loading import with_validation
from dpeer.training.state.store import write_tensors
from tests.error_texts import refused
from tests.training.small import SmallNet, small_task


class Gives(nn.Module):
    """A model of which something is made that it gives."""

    def __init__(self, made: Callable[[Tensor], Any], extra: nn.Module | None = None) -> None:
        super().__init__()
        self.extra, self.body, self.fc, self.made = extra or nn.Identity(), nn.Linear(6, 4), nn.Linear(4, 3), made

    def forward(self, x: Tensor) -> Any:
        return self.made(self.fc(self.body(self.extra(x))))


def rows(inputs: Tensor, targets: Tensor) -> dict[str, Any]:
    return {"train": TensorDataset(inputs, targets)}


LEFT = {"model": Gives(nn.Identity(), nn.BatchNorm1d(6)), "head": ("extra", "fc"), "samples": 49}


@pytest.mark.parametrize(
    ("parts", "settings", "fragment"),
    [
        ({"loss": lambda o, t: o}, {}, "loss gave float32 (32, 3); it must give one number"),
        ({"loss": lambda o, t: torch.tensor(0.0)}, {}, "the task's loss cannot be differentiated: RuntimeError: "),
        ({"loss": lambda o, t: o.mean().item()}, {}, "loss gave float; it must give one number, as a tensor"),
        ({"loss": lambda o, t: 1 / 0}, {}, "failed on a training batch: ZeroDivisionError: division by zero (test_err"),
        (rows(torch.zeros(4, 6), torch.zeros(4, 2)), {"class_weights": "balanced"}, "--class-weights balanced counts"),
        ({"model": Gives(lambda o: {"logits": o})}, {}, "(outputs dict of 'logits': float32 (32, 3); targets int64 ("),
        ({"model": Gives(lambda o: (o, o))}, {}, "(outputs tuple of 2: float32 (32, 3); targets int64 (32,))"),
        ({"model": Gives(lambda o: None)}, {}, "(outputs NoneType; targets int64 (32,))"),
        ({"model": Gives(Tensor.to_sparse)}, {}, "(outputs float32 (32, 3) sparse_coo; targets int64 (32,))"),
        ({"model": Gives(Tensor.detach)}, {}, "the task's loss cannot be differentiated: RuntimeError: "),
        ({"collate": lambda batch: 1 / 0}, {}, "train data cannot be read: ZeroDivisionError"),
        ({"collate": lambda batch: 3}, {}, "collating the task's train data must give a pair"),
        (rows(torch.randn(8, 6).double(), torch.zeros(8).long()), {}, "(inputs float64 (8, 6))"),
        (rows(torch.randn(8, 6), torch.arange(8) % 3 + 1), {}, "IndexError: Target 3 is out of bounds. (outputs "),
        (rows(torch.randn(8, 6), torch.zeros(8, 4).long()), {}, "(outputs float32 (8, 3); targets int64 (8, 4))"),
        ({"train": [("a", 0), ("b", 1)]}, {}, "(inputs tuple of 2: str)"),
        ({"train": [(torch.zeros(6), "cat")] * 2}, {}, "(outputs float32 (2, 3); targets tuple of 2: str)"),
        (LEFT, {"batch_size": 16}, "Expected more than 1 value per channel when training"),
        ({"augment": lambda x, _: x[:, :4]}, {}, "augment turned float32 (32, 6) into float32 (32, 4)"),
        ({"augment": lambda x, _: None}, {}, "augment turned float32 (32, 6) into NoneType"),
    ],
)  # fmt: skip
def test_training_that_fails_says_why(parts: dict[str, Any], settings: dict[str, Any], fragment: str) -> None:
    with refused(TaskError, fragment):
        build_learner(small_task(**parts), "dfedmdc", Hyperparameters(**settings), rank=0, seed=0).train(0)


@pytest.mark.parametrize(
    ("parts", "fragment"),
    [
        ({"test": TensorDataset(torch.randn(8, 6), torch.arange(8) % 3 + 1)}, "on its test data: IndexError: "),
        ({"metrics": lambda o, t: 0.5}, "metrics gave a float"),
    ],
)
def test_evaluation_that_fails_says_why(parts: dict[str, Any], fragment: str) -> None:
    with refused(TaskError, fragment):
        build_learner(small_task(**parts), "local", rank=0, seed=0).evaluate()


def test_what_cannot_be_held_out_or_written(tmp_path: Path) -> None:
    alike = small_task(train=TensorDataset(torch.zeros(30, 6), torch.arange(30) % 2))
    with refused(TaskError, "--validation 0.2 would hold out 0 of the task's 30 training samples"):
        with_validation(alike, 0.2, 0, 0, only_if_enough=False)
    with refused(TaskError, "'wave' has type torch.complex128"):
        write_tensors({"wave": torch.zeros(2, dtype=torch.complex128)}, tmp_path / "file", {})


# Tasks and settings that do not go together with an algorithm, or with each other.


class Scaled(SmallNet):
    """Does something to what the head gives."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


DEEP = nn.Sequential(nn.Linear(6, 5), nn.Sequential(nn.Linear(5, 5), nn.Linear(5, 3)))
BEYOND = TensorDataset(torch.zeros(4, 6), torch.arange(4) + 4)
HYPERNETWORK = {"personal": "hypernetwork"}


def frozen() -> nn.Module:
    model = SmallNet()
    model.fc.bias.requires_grad_(False)
    return model


@pytest.mark.parametrize(
    ("algorithm", "parts", "fragment"),
    [
        ("fedrod", {"head": ("body", "fc")}, "fedrod needs a head that is one torch.nn.Linear module"),
        ("fedrod", {"head": ()}, "the task's head is empty"),
        ("fedrod", {"head": ("fc.weight",)}, "the task's head is 'fc.weight'"),
        ("fedrod", {"head": ("1",), "model": DEEP}, "the task's head is '1', a Sequential"),
        ("fedrod", {"model": frozen()}, "the task's head is 'fc', a Linear"),
        ("fedrod", {"model": Scaled()}, "fedrod needs a model that returns what its head 'fc' gives"),
        ("fedrod", {"loss": lambda o, t: cross_entropy(o, t)}, "--algorithm fedrod has a loss of its own"),
        ("fedrod", {"train": BEYOND}, "class 7 is among the targets, the model has 3 outputs"),
    ],
)
def test_a_task_that_an_algorithm_cannot_train(algorithm: str, parts: dict[str, Any], fragment: str) -> None:
    with refused(ConfigurationError, fragment):
        build_learner(small_task(**parts), algorithm, rank=0, seed=0).train(0)


@pytest.mark.parametrize(
    ("algorithm", "settings", "fragment"),
    [
        ("fedrod", {"class_weights": "balanced"}, "--class-weights balanced: fedrod has a loss that balances classes"),
        ("fedadamw", {"optimizer": "sgd"}, "--optimizer sgd: fedadamw takes steps of adamw"),
        ("dis-pfl", {"options": {"sparsity": 0.95}}, "option sparsity=0.95 leaves nothing of 'body.0.bias'"),
        ("dis-pfl", {"compress": "int8"}, "--compress int8, "),
        ("dis-pfl", {"robust": "median"}, "--robust median, "),
        ("dis-pfl", {"max_norm": 2.0}, "--max-norm 2.0: dis-pfl"),
        ("fedrod", {"options": HYPERNETWORK, "compress": "int8"}, "--compress int8 cannot be used with fedrod"),
        ("fedrod", {"options": HYPERNETWORK, "robust": "clip"}, "--robust clip cannot be used with fedrod"),
        ("dfedmdc", {"robust": "clip", "compress": "int8"}, "--robust clip cannot be used with --compress int8"),
    ],
)  # fmt: skip
def test_settings_that_do_not_go_together(algorithm: str, settings: dict[str, Any], fragment: str) -> None:
    given = {name: value for name, value in settings.items() if name != "options"}
    with refused(ConfigurationError, fragment):
        build_learner(
            small_task(), algorithm, Hyperparameters(**given), rank=0, seed=0, options=settings.get("options")
        ).train(0)


def test_a_loss_of_ones_own_takes_no_weights_of_classes() -> None:
    task = small_task(loss=lambda outputs, targets: cross_entropy(outputs, targets))
    with refused(ConfigurationError, "--class-weights balanced: it weights the classes of cross-entropy"):
        build_learner(task, "dfedmdc", Hyperparameters(class_weights="balanced"), rank=0, seed=0)


def test_a_finish_of_no_head() -> None:
    with refused(ConfigurationError, "--finish head:2: nothing of the task's head is trained"):
        build_learner(small_task(head=()), "dfedavgm", Hyperparameters(finish="head:2"), rank=0, seed=0)
