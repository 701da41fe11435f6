from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dpeer.training.flat import Flat
from dpeer.training.sgd import Momentum, sam_gradient


def net() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))


def flatten(model: nn.Module) -> Flat:
    return Flat("model", list(model.named_parameters()))


def gradient_of(model: nn.Module, flat: Flat, x: Tensor, y: Tensor) -> Callable[[], Tensor]:
    def gradient() -> Tensor:
        flat.grad.zero_()
        with torch.enable_grad():
            loss = cross_entropy(model(x), y)
            loss.backward()
        return loss.detach()

    return gradient


@pytest.fixture
def data() -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.randn(12, 5), torch.randint(0, 3, (12,))


@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.9, 0.0), (0.9, 0.01), (0.0, 0.01)])
def test_momentum_is_pytorchs(data: tuple[Tensor, Tensor], momentum: float, decay: float) -> None:
    ours, theirs = net(), net()
    flat = flatten(ours)
    gradient = gradient_of(ours, flat, *data)
    optimizer = Momentum(flat, momentum, decay)
    reference = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=momentum, weight_decay=decay)
    for _ in range(10):
        gradient()
        with torch.no_grad():
            optimizer.step(0.1)
        reference.zero_grad()
        cross_entropy(theirs(data[0]), data[1]).backward()
        reference.step()
    expected = torch.cat([p.detach().reshape(-1) for p in theirs.parameters()])
    torch.testing.assert_close(flat.data, expected, rtol=0, atol=1e-6)


def test_sam_gradient_against_a_few_lines(data: tuple[Tensor, Tensor]) -> None:
    ours, theirs = net(), net()
    flat = flatten(ours)
    before = flat.data.clone()
    with torch.no_grad():
        loss = sam_gradient(flat, gradient_of(ours, flat, *data), 0.3, torch.empty_like(flat.data))
    assert torch.equal(flat.data, before)

    parameters = list(theirs.parameters())
    unperturbed = cross_entropy(theirs(data[0]), data[1])
    g = torch.autograd.grad(unperturbed, parameters)
    length = sum((x**2).sum() for x in g) ** 0.5
    climbed = {name: p + 0.3 * x / length for (name, p), x in zip(theirs.named_parameters(), g, strict=True)}
    there = cross_entropy(torch.func.functional_call(theirs, climbed, (data[0],)), data[1])
    expected = torch.cat([x.reshape(-1) for x in torch.autograd.grad(there, parameters)])
    torch.testing.assert_close(flat.grad, expected, rtol=0, atol=1e-6)
    assert loss.item() == pytest.approx(unperturbed.item(), abs=1e-7)


def test_sam_survives_a_zero_gradient() -> None:
    model = net()
    flat = flatten(model)

    def gradient() -> Tensor:
        flat.grad.zero_()
        return torch.tensor(0.0)

    sam_gradient(flat, gradient, 0.7, torch.empty_like(flat.data))
    assert torch.isfinite(flat.data).all()
    assert not flat.grad.any()


def test_flat_views_are_the_models_own_parameters() -> None:
    model = net()
    expected = torch.cat([p.detach().clone().reshape(-1) for p in model.parameters()])
    flat = flatten(model)
    assert torch.equal(flat.data, expected)
    flat.data.fill_(2.0)
    assert all((p == 2).all() for p in model.parameters())
    model(torch.ones(1, 5)).sum().backward()
    assert torch.equal(flat.grad, torch.cat([p.grad.reshape(-1) for p in model.parameters() if p.grad is not None]))
    offsets = [entry["offset"] for entry in flat.manifest["parameters"]]
    assert offsets == [0, 35, 42, 63]
    assert flat.manifest["count"] == flat.count == 66


@pytest.mark.parametrize("size", [0.0, 1e-24, 1e-12, 1.0])
def test_sam_never_perturbs_by_more_than_rho(size: float) -> None:
    parameter = nn.Parameter(torch.zeros(100))
    flat = Flat("body", [("w", parameter)])
    seen = []

    def gradient() -> Tensor:
        seen.append(flat.data.clone())
        flat.grad.fill_(size)
        return torch.zeros(())

    sam_gradient(flat, gradient, 0.05, torch.empty(100))
    assert torch.linalg.vector_norm(seen[1]) <= 0.05 * (1 + 1e-5)
    assert torch.equal(flat.data, torch.zeros(100))
