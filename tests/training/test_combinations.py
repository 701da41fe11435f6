"""Tasks and settings that do not go together with an algorithm, or with each other."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from dpeer.exceptions import ConfigurationError
from dpeer.training import Hyperparameters, build_learner
from tests.error_texts import refused
from tests.training.small import SmallNet, small_task


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
        ("dis-pfl", {"compress": "int8"}, "--compress int8 cannot be used with dis-pfl"),
        ("dis-pfl", {"robust": "median"}, "--robust median cannot be used with dis-pfl"),
        ("dis-pfl", {"max_norm": 2.0}, "--max-norm 2 cannot be used with dis-pfl"),
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
