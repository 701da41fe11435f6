"""Split into body and head by prefixes, frozen parameters, and the digest of the start."""

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from dpeer.exceptions import TaskError
from dpeer.training import Hyperparameters, Task, build_learner
from dpeer.training.split import split
from tests.error_texts import refused
from tests.training.small import small_task


class Net(nn.Module):
    def __init__(self, extra: nn.Module | None = None) -> None:
        super().__init__()
        self.fc1 = nn.Linear(6, 4)
        self.extra = extra or nn.Identity()
        self.fc = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.extra(self.fc1(x)))


def names(model: nn.Module, head: tuple[str, ...], shares: str = "body") -> tuple[list[str], list[str]]:
    found = split(model, head, shares)
    return [name for name, _ in found.body], [name for name, _ in found.head]


def test_prefixes_match_whole_components() -> None:
    assert names(Net(), ("fc",)) == (["fc1.weight", "fc1.bias"], ["fc.weight", "fc.bias"])
    assert names(Net(), ("fc.bias",))[1] == ["fc.bias"]
    assert [split(Net(), ("fc",), shares).prefixes for shares in ("model", "body", "nothing")] == [("fc",)] * 3


def test_frozen_parameters_are_in_neither_and_stay_as_they_are() -> None:
    task = small_task()
    frozen = task.model.body[0].bias.requires_grad_(False)
    before = frozen.clone()
    assert names(task.model, ("fc",)) == (["body.0.weight"], ["fc.weight", "fc.bias"])
    learner = build_learner(task, "dfedmdc", Hyperparameters(), rank=0, seed=0)
    learner.train(0)
    assert torch.equal(frozen, before)
    assert not frozen.requires_grad
    assert learner.about.body_parameters == 48


class Still(nn.BatchNorm1d):
    """Its statistics are of data that all peers' models have seen before."""

    def train(self, mode: bool = True) -> "Still":
        return super().train(False)


def test_batch_norm_is_not_shared_wherever_it_stands_unless_it_stays_in_evaluation() -> None:
    net = Net(nn.BatchNorm1d(4, affine=False))
    net.norm = net.extra
    with refused(TaskError, "BatchNorm1d 'norm' cannot be shared"):
        split(net, ("extra", "fc"), "body")
    net = Net(Still(4))
    assert names(net, ("fc",))[0][2:] == ["extra.weight", "extra.bias"]
    net.extra = nn.BatchNorm1d(4).eval().requires_grad_(False)
    with refused(TaskError, "BatchNorm1d 'extra' cannot be shared"):
        split(net, ("fc",), "body")


class FrozenBatchNorm2d(nn.Module):
    """As torchvision's: four buffers, and no layer of torch's own."""

    def __init__(self, features: int) -> None:
        super().__init__()
        for name, value in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)):
            self.register_buffer(name, torch.full((features,), value))


@pytest.mark.parametrize("kind", [Still, FrozenBatchNorm2d])
def test_statistics_that_never_change_are_part_of_the_start(kind: type[nn.Module]) -> None:
    data = small_task()

    def digest(mean: float, head: tuple[str, ...]) -> str:
        torch.manual_seed(0)
        net = Net(kind(4))
        net.extra.running_mean.fill_(mean)
        return build_learner(Task(net, head, data.train, data.test), "dfedmdc", rank=0, seed=0).about.digest

    assert digest(0.0, ("fc",)) != digest(1.0, ("fc",))
    assert digest(0.0, ("extra", "fc")) == digest(1.0, ("extra", "fc"))


# What two peers must have in common before the first round, as their digests see it.


class NetAlike(nn.Module):
    """A body on frozen features, and a head with a frozen part and batch statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(6, 8).requires_grad_(False)
        self.body = nn.Linear(8, 4)
        self.norm = nn.BatchNorm1d(4)
        self.fc = nn.Linear(4, 3)
        self.fc.bias.requires_grad_(False)
        self.register_buffer("scale", torch.ones(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.fc(self.norm(self.body(self.frozen(x * self.scale))))
        return found


def digest(change: Callable[[Any], object] = lambda net: None, algorithm: str = "dfedmdc") -> str:
    data = small_task()
    torch.manual_seed(0)
    net = NetAlike()
    with torch.no_grad():
        change(net)
    return build_learner(Task(net, ("norm", "fc"), data.train, data.test), algorithm, rank=0, seed=0).about.digest


def more(name: str) -> Callable[[Any], object]:
    return lambda net: net.register_parameter(name, nn.Parameter(torch.zeros(3), requires_grad=False))


@pytest.mark.parametrize(
    "change",
    [
        lambda net: net.frozen.weight[7, 5].add_(1e-6),
        lambda net: net.frozen.bias.neg_(),
        lambda net: net.frozen.half(),
        more("one"),
        lambda net: net.body.bias.add_(1),
    ],
)
def test_other_frozen_weights_are_another_start(change: Any) -> None:
    assert digest(change) != digest() == digest()
    assert digest(more("one")) != digest(more("other")), "names count"
    assert digest(algorithm="local") == hashlib.sha256(b"").hexdigest(), "who shares nothing needs no common start"


@pytest.mark.parametrize("part", ["fc.weight", "fc.bias", "norm.running_mean", "scale"])
def test_what_is_a_peers_own_does_not_count(part: str) -> None:
    """The head, frozen or not, and buffers: with differential privacy nothing here may depend on data."""
    assert digest(lambda net: net.state_dict()[part].add_(1)) == digest()


def tied(*, storage: bool) -> Net:
    """Two layers with one weight, or two weights in one memory."""
    net = Net(nn.Linear(4, 4))
    net.other = nn.Linear(4, 4)
    net.other.weight = nn.Parameter(net.extra.weight.data) if storage else net.extra.weight
    return net


@pytest.mark.parametrize(
    ("model", "head", "fragment"),
    [
        (lambda: tied(storage=False), ("fc",), "'extra.weight' and 'other.weight' are one tied tensor in the body"),
        (lambda: tied(storage=True), ("fc",), "'extra.weight' and 'other.weight' are two over one tied tensor"),
        (lambda: Net(nn.Linear(4, 4).double()), ("fc",), "parameter 'extra.weight' is float64"),
        (lambda: Net(nn.LazyLinear(4)), ("fc",), "parameter 'extra.weight' is not initialised yet"),
        (Net, ("fc", "fc1"), "covers every trainable parameter, so dfedmdc has no body to share"),
        (lambda: Net().requires_grad_(False), ("fc",), "no trainable parameters: all have requires_grad=False"),
    ],
)
def test_a_model_that_cannot_be_divided(model: Callable[[], nn.Module], head: Any, fragment: str) -> None:
    with refused(TaskError, fragment):
        split(model(), head, "body", "dfedmdc")


def test_one_model_is_trained_by_one_rank() -> None:
    first = small_task()
    build_learner(first, "dfedmdc", rank=0, seed=0)
    with refused(TaskError, "part ('0') that another peer of this process trains already"):
        build_learner(small_task(1, model=nn.Sequential(first.model.body), head=()), "dfedmdc", rank=1, seed=0)
