from collections.abc import Callable

import pytest
import torch
from torch import nn

from dpeer.training import Hyperparameters, Task, build_learner
from dpeer.training.split import split


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


def test_the_heads_prefixes_are_told_whatever_is_shared() -> None:
    assert [split(Net(), ("fc",), shares).prefixes for shares in ("model", "body", "nothing")] == [("fc",)] * 3


def test_frozen_parameters_are_in_neither() -> None:
    net = Net()
    net.fc1.bias.requires_grad_(False)
    assert names(net, ("fc",)) == (["fc1.weight"], ["fc.weight", "fc.bias"])


def test_frozen_parameters_stay_as_they_are(make_task: Callable[..., Task]) -> None:
    task = make_task()
    frozen = task.model.body[0].bias.requires_grad_(False)
    before = frozen.clone()
    learner = build_learner(task, "dfedmdc", Hyperparameters(), rank=0, seed=0)
    learner.train(0)
    assert torch.equal(frozen, before)
    assert not frozen.requires_grad
    assert learner.body_parameters == 48


def tied_across() -> nn.Module:
    net = Net(nn.Linear(4, 3))
    net.extra.weight = net.fc.weight
    return net


def test_the_head_may_hold_what_the_body_may_not() -> None:
    assert names(Net(nn.BatchNorm1d(4)), ("fc", "extra"))[1] == [
        "extra.weight", "extra.bias", "fc.weight", "fc.bias",
    ]  # fmt: skip
    assert names(tied_across(), ("fc", "extra"))[0] == ["fc1.weight", "fc1.bias"]
    assert names(Net(nn.BatchNorm1d(4, affine=False, track_running_stats=False)), ("fc",))[1]


@pytest.mark.parametrize("algorithm", ["local", "dfedavgm", "dfedmdc"])
def test_counts(make_task: Callable[..., Task], algorithm: str) -> None:
    learner = build_learner(make_task(), algorithm, rank=0, seed=0)
    expected = {"local": (0, 83), "dfedavgm": (83, 0), "dfedmdc": (56, 27)}
    assert (learner.body_parameters, learner.head_parameters) == expected[algorithm]
    assert learner.payload_bytes == 4 * learner.body_parameters
    assert learner.manifest["count"] == learner.body_parameters
