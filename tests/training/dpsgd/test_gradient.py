"""The gradient rule: against plain steps, against numpy, empty batches, groups, values that are not finite."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dpeer.privacy.mechanism import GRADIENT_MARGIN, ClippedSum
from dpeer.training.batch_loader import Batch
from dpeer.training.dpsgd.gradient import GroupSums, PrivateGradient
from dpeer.training.dpsgd.gradient_factors import DenseGradients, ExampleGradients, SequenceGradients
from dpeer.training.models.networks import DigitsNet
from dpeer.training.trainer import Trainer

from .conftest import BACKENDS, by_a_loop

N = 23
Make = Callable[..., Trainer]


def digits(make: Make, **changes: object) -> tuple[Trainer, Tensor, Tensor]:
    torch.manual_seed(0)
    model, x, y = DigitsNet(), torch.rand(N, 1, 8, 8), torch.randint(10, (N,))
    return make(model, x, y, **changes), x, y


def small(make: Make) -> tuple[Trainer, Tensor, Tensor]:
    torch.manual_seed(0)
    model, x, y = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)), torch.randn(N, 4), torch.randint(3, (N,))
    x *= torch.linspace(0.1, 5, N)[:, None]
    return make(model, x, y), x, y


def made(peer: Trainer, rule: PrivateGradient, batch: Batch) -> tuple[np.ndarray, float]:
    with peer.training(peer.model):
        loss = rule(peer, peer.model, batch)
    return peer.model.grad.numpy().copy(), float(loss)


@pytest.mark.slow
@pytest.mark.parametrize("microbatch", [5, N, 100])
def test_without_noise_and_clipping_steps_are_those_of_plain_sgd(microbatch: int, make_trainer: Make) -> None:
    """Full batches, noise 0, clip norm infinite: by the rule, against `fit` as it is."""
    h = {"batch_size": N, "momentum": 0.9, "weight_decay": 0.01}
    (plain, _, _), (private, _, _) = digits(make_trainer, hyperparameters=h), digits(make_trainer, hyperparameters=h)
    plain.fit(plain.model, epochs=4, lr=0.1)
    start = private.model.data.clone()
    rule = PrivateGradient(ClippedSum(math.inf, 0.0, 1.0, N), microbatch)
    private.fit(private.model, epochs=4, lr=0.1, gradient=rule)
    assert (private.model.data - start).norm() > 0.05
    torch.testing.assert_close(private.model.data, plain.model.data, rtol=1e-4, atol=1e-6)
    assert private.figures.loss == pytest.approx(plain.figures.loss, rel=1e-5)
    assert rule.steps == 4
    assert private.figures.gradients == plain.figures.gradients == 4 * N


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("microbatch", [1, 7, N])
def test_clipped_sums_are_those_of_numpy(name: str, microbatch: int, make_trainer: Make) -> None:
    peer, x, y = small(make_trainer)
    clip, rate, nominal = 2.0, 0.25, 40
    rule = PrivateGradient(ClippedSum(clip, 0.0, rate, nominal), microbatch)
    rule.start(peer, peer.model)
    rule.backends["model"] = BACKENDS[name]
    gradients = by_a_loop(peer.module, x, y).numpy().astype(np.float64)
    norms = np.sqrt((gradients**2).sum(1))
    assert 0.2 < (norms > clip).mean() < 0.8
    limit = clip * GRADIENT_MARGIN
    expected = (gradients * np.minimum(1.0, limit / norms)[:, None]).sum(0) / (rate * nominal)
    found, loss = made(peer, rule, Batch(x, y, N))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    assert loss == pytest.approx(float(cross_entropy(peer.module(x), y).detach()), rel=1e-5)
    assert rule.met["units"] == N
    assert rule.met["clipped"] == (norms > clip).sum()


@pytest.mark.parametrize("microbatch", [1, 4, 7, N])
def test_groups_are_clipped_as_wholes(microbatch: int, make_trainer: Make) -> None:
    peer, x, y = small(make_trainer)
    units = torch.tensor([0] * 2 + [1] * 9 + [2] + [3] * 7 + [4] * 4)
    clip = 1.2
    rule = PrivateGradient(ClippedSum(clip, 0.0, 0.5, 8), microbatch)
    gradients = by_a_loop(peer.module, x, y).numpy().astype(np.float64)
    means = np.stack([gradients[units.numpy() == unit].mean(0) for unit in range(5)])
    norms = np.sqrt((means**2).sum(1))
    assert 0 < (norms > clip).sum() < 5
    expected = (means * np.minimum(1.0, clip * GRADIENT_MARGIN / norms)[:, None]).sum(0) / 4
    found, _ = made(peer, rule, Batch(x, y, N, units))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    assert (rule.met["units"], rule.met["clipped"]) == (5, (norms > clip).sum())


@pytest.mark.parametrize("units", [None, torch.arange(N) // 3])
@pytest.mark.parametrize("name", BACKENDS)
def test_an_example_that_is_not_finite_changes_nothing_else(
    name: str, units: Tensor | None, make_trainer: Make
) -> None:
    peer, x, y = small(make_trainer)
    rule = PrivateGradient(ClippedSum(1.0, 0.0, 0.5, N), 7)
    rule.start(peer, peer.model)
    rule.backends["model"] = BACKENDS[name]
    x[4] = math.nan
    found, _ = made(peer, rule, Batch(x, y, N, units))
    gradients = by_a_loop(peer.module, x, y).numpy().astype(np.float64)
    gradients[4] = 0
    if units is not None:
        gradients = np.stack([gradients[units.numpy() == unit].mean(0) for unit in range(8)])
    norms = np.maximum(np.sqrt((gradients**2).sum(1)), 1e-30)
    expected = (gradients * np.minimum(1.0, GRADIENT_MARGIN / norms)[:, None]).sum(0) / (0.5 * N)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    assert np.isfinite(found).all()


@pytest.mark.parametrize(("size", "shorter"), [(100.0, 1.0), (1e6, 1 / 1000)])
def test_a_group_that_cancels_is_clipped_by_the_length_of_its_examples(size: float, shorter: float) -> None:
    """Its gradient is one clip norm long, and what is left of two that are so many times as long."""
    total = torch.zeros(2, dtype=torch.float64)
    there_and_back = DenseGradients(torch.tensor([[size, 1.0], [-size, 1.0]]))
    mechanism = ClippedSum(1.0, 1.0, 0.5, 8)
    groups = GroupSums(torch.tensor([0, 0]), total)
    found = ExampleGradients(torch.zeros(2), [(slice(0, 2), there_and_back)], 2, 2)
    groups.add(found, 2, lambda lengths: torch.from_numpy(mechanism.factors(lengths.numpy())))
    assert total.tolist() == pytest.approx([0.0, shorter * GRADIENT_MARGIN], rel=1e-6)


def test_sums_are_added_up_in_float64() -> None:
    values = torch.tensor([[1e8], [1.0], [-1e8]])
    weights = torch.ones(1, 3, dtype=torch.float64)
    for part in (
        DenseGradients(values.expand(3, 20_000)),
        SequenceGradients(values[:, None], torch.ones(3, 1, 20_000)),
    ):
        assert torch.equal(part.sums(weights), torch.ones(1, 20_000, dtype=torch.float64))


@pytest.mark.parametrize(
    ("rate", "units", "microbatch", "rows"),
    [
        (0.1, 640, 64, 64), (0.1, 400, 64, 64), (0.1, 100, 64, 14), (0.5, 2000, 64, 64), (0.5, 2000, 150, 128),
        (0.5, 2000, 63, 63), (0.1, 640, 200, 128), (0.5, 2000, 5, 5), (1e-9, 7, 64, 1), (0.5, 9, 1, 1),
    ],
)  # fmt: skip
def test_how_many_are_computed_together_follows_from_public_numbers(
    rate: float, units: int, microbatch: int, rows: int
) -> None:
    """By hand: for 64, 40, 10, 1000 expected examples (with their square root more) in as few pieces as there can be.

    Either a multiple of 64, or so few that each is computed by itself.
    """
    assert PrivateGradient(ClippedSum(1.0, 1.0, rate, units), microbatch).rows == rows


@pytest.mark.parametrize("name", ["layers", "vectorized"])
def test_company_changes_the_last_bits_alone(name: str, make_trainer: Make) -> None:
    """What `GRADIENT_MARGIN` rests on: by how much a gradient depends on how many others are computed beside it."""
    peer, x, y = digits(make_trainer)
    with peer.training(peer.model):
        whole = BACKENDS[name](peer, peer.model, x, y, N).sums(torch.eye(N))
        for count in (1, 2, 3, 8, 16, N - 1):
            few = BACKENDS[name](peer, peer.model, x[:count], y[:count], count).sums(torch.eye(count))
            assert ((few - whole[:count]).norm(dim=1) / whole[:count].norm(dim=1)).max() < 1e-6


def test_an_empty_batch_is_noised_and_counted(make_trainer: Make) -> None:
    peer, _, _ = digits(make_trainer)
    rule = PrivateGradient(ClippedSum(0.5, 3.0, 0.1, 200))
    found, loss = made(peer, rule, Batch(None, None, 0))
    assert loss == 0.0
    assert rule.steps == 1
    assert rule.met["units"] == 0
    assert found.std() == pytest.approx(1.5 / 20, rel=5 / math.sqrt(2 * found.size))
    again, _ = made(peer, rule, Batch(None, None, 0))
    assert not np.array_equal(again, found)


def test_noise_does_not_depend_on_the_batch(make_trainer: Make) -> None:
    peer, x, y = digits(make_trainer)
    clear, _ = made(peer, PrivateGradient(ClippedSum(0.5, 0.0, 0.1, 200)), Batch(x, y, N))
    rule = PrivateGradient(ClippedSum(0.5, 3.0, 0.1, 200))
    noise = np.stack([made(peer, rule, Batch(x, y, N))[0] - clear for _ in range(4)]) / (1.5 / 20)
    assert noise.std() == pytest.approx(1.0, rel=5 / math.sqrt(2 * noise.size))
    assert abs(noise.mean()) < 5 / math.sqrt(noise.size)
    for a in range(4):
        for b in range(a):
            assert abs((noise[a] * noise[b]).mean()) < 5 / math.sqrt(noise[a].size)


def test_no_more_than_a_microbatch_at_a_time(make_trainer: Make) -> None:
    peer, x, y = digits(make_trainer)
    rule = PrivateGradient(ClippedSum(1.0, 1.0, 1.0, N), 5)
    seen: list[int] = []

    def watched(*arguments: object) -> object:
        seen.append(arguments[-1])
        return BACKENDS["layers"](*arguments)

    rule.start(peer, peer.model)
    rule.backends["model"] = watched
    made(peer, rule, Batch(x, y, N))
    assert seen == [5, 5, 5, 5, 5], "the last ones are filled up: other shapes have other last bits"
