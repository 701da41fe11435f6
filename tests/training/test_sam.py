"""One SAM step of a phase against autograd: the gradient at w + rho g / ||g||, over that phase's parameters alone."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from dpeer.training import Hyperparameters, Task, TorchLearner, build_learner, find_algorithm, options_among

RHO, LR = 0.7, 1.0
Values = dict[str, Tensor]
NAMES = {
    "body": ("0.weight", "0.bias"),
    "head": ("2.weight", "2.bias"),
    "model": ("0.weight", "0.bias", "2.weight", "2.bias"),
}


def net() -> nn.Module:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    return model


def data() -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.randn(12, 5), torch.randint(0, 3, (12,))


def made(task: Task, algorithm: str, settings: dict[str, Any], **more: Any) -> TorchLearner:
    """A learner whose hyperparameters and options are among the settings; some epochs may be none."""
    h = Hyperparameters().model_copy(update={n: v for n, v in settings.items() if n in Hyperparameters.model_fields})
    return build_learner(task, algorithm, h, options=options_among(find_algorithm(algorithm), settings), **more)


def learner(algorithm: str, **changes: Any) -> TorchLearner:
    """One step a phase, without momentum and with learning rate 1: a step is the gradient."""
    settings = {"body_lr": LR, "head_lr": LR, "momentum": 0.0, "batch_size": 12, "rho": RHO, **changes}
    task = Task(net(), ("2",), TensorDataset(*data()), TensorDataset(*data()))
    return made(task, algorithm, settings, rank=0, seed=0)


def stepped(values: Values, phase: str, rho: float) -> Values:
    """The same step in float64, by autograd on ordinary tensors."""
    model, (x, y) = net().double(), data()

    def gradient(at: Values) -> Values:
        at = {name: value.clone().requires_grad_() for name, value in at.items()}
        loss = cross_entropy(functional_call(model, at, (x.double(),)), y)
        moving = NAMES[phase]
        return dict(zip(moving, torch.autograd.grad(loss, [at[name] for name in moving]), strict=True))

    g = gradient(values)
    length = torch.cat([value.reshape(-1) for value in g.values()]).norm()
    g = gradient(values | {name: values[name] + rho * g[name] / length for name in g})
    return values | {name: values[name] - LR * g[name] for name in g}


def doubled(tensors: Mapping[str, Tensor]) -> Values:
    return {name: value.detach().double().clone() for name, value in tensors.items()}


EPOCHS: dict[str, tuple[str, dict[str, Any], list[tuple[str, float]]]] = {
    "the model, decentralised": ("dfedsam", {"body_epochs": 1}, [("model", RHO)]),
    "the model": ("fedsam", {"body_epochs": 1}, [("model", RHO)]),
    "the body": ("dfedsmdc", {"body_epochs": 1, "head_epochs": 0}, [("body", RHO)]),
    "the head": ("dfedsmdc", {"body_epochs": 0, "head_epochs": 1, "sam": "head"}, [("head", RHO)]),
    "both": ("dfedsmdc", {"body_epochs": 1, "head_epochs": 1, "sam": "both"}, [("head", RHO), ("body", RHO)]),
    "the body after a plain head": ("dfedsmdc", {"body_epochs": 1}, [("head", 0.0), ("body", RHO)]),
    "the head before a plain body": ("dfedsmdc", {"body_epochs": 1, "sam": "head"}, [("head", RHO), ("body", 0.0)]),
}


@pytest.mark.parametrize("case", EPOCHS)
def test_a_sam_step_is_the_gradient_where_the_phases_own_gradient_leads(case: str) -> None:
    algorithm, changes, phases = EPOCHS[case]
    ours = learner(algorithm, **changes)
    expected = start = doubled(ours.trainer.module.state_dict())
    for phase, rho in phases:
        expected = stepped(expected, phase, rho)
    ours.train(0)
    found = ours.trainer.module.state_dict()
    for name, value in expected.items():
        torch.testing.assert_close(found[name].double(), value, rtol=0, atol=1e-6)
    # Each of these would be seen: a step without SAM, and a norm over all parameters.
    plain = start
    for phase, _ in phases:
        plain = stepped(plain, phase, 0.0)
    assert max((plain[name] - expected[name]).abs().max() for name in expected) > 1e-2


@pytest.mark.parametrize(("sam", "moves"), [("body", "body"), ("head", "head")])
def test_only_the_phases_parameters_are_perturbed_and_by_rho(sam: str, moves: str) -> None:
    epochs = {"body_epochs": 1, "head_epochs": 0} if sam == "body" else {"body_epochs": 0, "head_epochs": 1}
    ours = learner("dfedsmdc", sam=sam, **epochs)
    seen: list[Values] = []
    ours.trainer.module.register_forward_pre_hook(lambda *_: seen.append(doubled(ours.trainer.module.state_dict())))
    ours.train(0)
    at, above = seen
    distance = torch.cat([(above[name] - at[name]).reshape(-1) for name in NAMES[moves]]).norm()
    assert distance.item() == pytest.approx(RHO, rel=1e-5)
    assert all(torch.equal(above[name], at[name]) for name in at if name not in NAMES[moves])


def test_the_loss_told_is_the_unperturbed_one() -> None:
    model, (x, y) = net(), data()
    expected = cross_entropy(model(x), y).item()
    assert learner("dfedsam", body_epochs=1).train(0) == pytest.approx(expected, rel=1e-6)
