"""`Trainer.fit` against autograd and torch.optim in float64: gradients, optimizers, steps of a phase, and clipping."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from dpeer.training import (
    ALGORITHMS,
    Task,
    TorchLearner,
    Trainer,
    adamw,
    find_algorithm,
    momentum,
    plain,
    projected,
    proximal,
    sam,
)
from dpeer.training.algorithms.options import about_options
from dpeer.training.batch_loader import Batch
from dpeer.training.flat import Flat
from dpeer.training.gradients import climbed
from tests.thinning import every
from tests.training.algorithm_cases import made
from tests.training.reference_training import DECAY, Plain
from tests.training.small import mix, small_task

SEED, RANK, LR, PASS = 3, 2, 0.1, 4
"""PASS: minibatches of 16 of 50 samples."""


def learner(task: Task, algorithm: str = "dfedavgm", **changes: Any) -> TorchLearner:
    settings: dict[str, Any] = {
        "body_lr": LR, "head_lr": 0.2, "momentum": 0.9, "lr_decay": DECAY, "batch_size": 16, "grad_clip": None,
    }  # fmt: skip
    return made(task, algorithm, settings | changes, rank=RANK, seed=SEED)


@pytest.fixture
def pair() -> tuple[Trainer, Plain]:
    task = small_task(RANK)
    theirs = Plain(task, RANK, SEED)
    return learner(task).trainer, theirs


def assert_close(ours: Trainer, theirs: Plain, within: float = 1e-5) -> None:
    torch.testing.assert_close(ours.model.data.double(), theirs.vector, rtol=0, atol=within)


# Gradients and optimizers.


@pytest.mark.parametrize("inside", [True, False])
def test_gradients_are_put_into_each_other(pair: tuple[Trainer, Plain], inside: bool) -> None:
    """A pull within SAM's perturbation, and one beside it."""
    ours, theirs = pair
    towards = torch.randn(ours.model.count, generator=torch.Generator().manual_seed(1))
    moving = theirs.parameters()
    targets = [t.view_as(p) for t, p in zip(towards.double().split([p.numel() for p in moving]), moving, strict=True)]

    def pulled(gradient: Callable[[Tensor], Sequence[Tensor]], rows: Tensor) -> Sequence[Tensor]:
        return [g + 0.7 * (p.detach() - t) for g, p, t in zip(gradient(rows), moving, targets, strict=True)]

    if inside:
        ours.fit(ours.model, epochs=2, lr=LR, gradient=sam(0.3, gradient=proximal(0.7, towards)))
        gradient = lambda rows: theirs.sam(rows, 0.3, lambda rows: pulled(theirs.gradient, rows))  # noqa: E731
    else:
        ours.fit(ours.model, epochs=2, lr=LR, gradient=proximal(0.7, towards, gradient=sam(0.3)))
        gradient = lambda rows: pulled(lambda rows: theirs.sam(rows, 0.3, theirs.gradient), rows)  # noqa: E731
    theirs.run("model", 2 * PASS, gradient=gradient)
    assert_close(ours, theirs)
    assert ours.figures.gradients == 200


def test_a_sam_of_no_radius_is_what_it_would_perturb() -> None:
    assert sam(0.0) is plain
    other = proximal(1.0, torch.zeros(1))
    assert sam(0.0, other) is other


@pytest.mark.parametrize("size", [0.0, 1e-24, 1e-12, 1.0])
def test_sam_never_perturbs_by_more_than_rho(size: float) -> None:
    flat = Flat("body", [("w", nn.Parameter(torch.zeros(100)))])
    with climbed(flat, torch.full((100,), size), 0.05, torch.empty(100)):
        assert torch.linalg.vector_norm(flat.data) <= 0.05 * (1 + 1e-5)
    assert torch.equal(flat.data, torch.zeros(100))


def test_steps_of_ones_own(pair: tuple[Trainer, Plain]) -> None:
    ours, theirs = pair

    def shrink() -> None:
        for p in theirs.parameters():
            p.clamp_(-0.2, 0.2)

    ours.fit(ours.model, epochs=2, lr=LR, step=projected(momentum(0.5, 0.01), lambda w: w.clamp_(-0.2, 0.2)))
    theirs.run("model", 2 * PASS, after=shrink, momentum=0.5, weight_decay=0.01)
    assert_close(ours, theirs)
    assert ours.model.data.abs().max() <= 0.2


def test_any_phase_any_optimizer_and_any_gradient(pair: tuple[Trainer, Plain]) -> None:
    class Signs:
        def __init__(self, flat: Flat) -> None:
            self.flat = flat

        def step(self, lr: float) -> None:
            self.flat.data.add_(self.flat.grad, alpha=-2 * lr)

    def halved(peer: Trainer, part: Flat, batch: Batch) -> Tensor:
        loss = peer.gradient(part, batch)
        part.grad.mul_(0.5)
        return loss

    ours, theirs = pair
    ours.fit(ours.model, epochs=2, lr=LR, gradient=halved, step=Signs, phase="my own")
    theirs.run("my own", 2 * PASS, momentum=0.0)
    assert_close(ours, theirs)


@pytest.mark.parametrize("how", ["by the setting", "by a step", "with SAM", "under a mask"])
def test_adamw_is_torchs(how: str) -> None:
    task = small_task(RANK)
    theirs = Plain(task, RANK, SEED)
    setting = {} if how == "by a step" else {"optimizer": "adamw", "weight_decay": 0.1}
    ours = learner(task, **setting).trainer
    held = torch.rand(ours.model.count, generator=torch.Generator().manual_seed(4)) < 0.5

    def masked() -> None:
        for p, mask in zip(moving, held.split([p.numel() for p in moving]), strict=True):
            p.mul_(mask.view_as(p))

    moving = theirs.parameters()
    more: dict[str, dict[str, Any]] = {
        "by a step": {"step": adamw(weight_decay=0.1)},
        "with SAM": {"gradient": sam(0.05)},
        "under a mask": {"step": projected(ours.optimizer, lambda weights: weights.mul_(held))},
    }
    its: dict[str, dict[str, Any]] = {
        "with SAM": {"gradient": lambda rows: theirs.sam(rows, 0.05, theirs.gradient)},
        "under a mask": {"after": masked},
    }
    ours.fit(ours.model, epochs=3, lr=0.02, **more.get(how, {}))
    theirs.run("model", 3 * PASS, 0.02, optimizer=torch.optim.AdamW, weight_decay=0.1, **its.get(how, {}))
    assert_close(ours, theirs, 2e-5)
    if how == "under a mask":
        assert not ours.model.data[~held].any()


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_what_is_beside_is_stepped_along_with_its_own_rate_and_clipped_alone(optimizer: str) -> None:
    ours = learner(small_task(RANK), optimizer=optimizer, grad_clip=0.3).trainer
    other = nn.Parameter(torch.zeros(3))
    beside = Flat("beside", [("w", other)])

    def both(peer: Trainer, part: Flat, batch: Batch) -> Tensor:
        loss = peer.gradient(part, batch)
        beside.grad.copy_(torch.tensor([1.0, 2.0, 2.0]))
        return loss

    ours.begin(2)
    ours.fit(ours.model, epochs=1, lr=ours.rates.body, gradient=both, beside=[(beside, 0.5 * ours.rates.factor)])
    twin, lr = nn.Parameter(torch.zeros(3).double()), 0.5 * DECAY**2
    theirs = (
        torch.optim.SGD([twin], lr=lr, momentum=0.9)
        if optimizer == "sgd"
        else torch.optim.AdamW([twin], lr=lr, weight_decay=0)
    )
    for _ in range(PASS):
        twin.grad = torch.tensor([1.0, 2.0, 2.0]).double() * 0.1
        theirs.step()
    torch.testing.assert_close(other.detach().double(), twin.detach(), rtol=1e-4, atol=0)


def test_what_is_assigned_to_a_vector_is_written_to_the_one_that_is_trained_and_sent(
    pair: tuple[Trainer, Plain],
) -> None:
    ours, theirs = pair

    def doubled(peer: Trainer, part: Flat, batch: Batch) -> Tensor:
        loss = peer.gradient(part, batch)
        part.grad = 2 * part.grad
        return loss

    ours.model.data = ours.model.data + 0.0
    ours.fit(ours.model, epochs=2, lr=LR / 2, gradient=doubled)
    theirs.run("model", 2 * PASS)
    assert_close(ours, theirs)


# local_steps.


@pytest.mark.parametrize(("samples", "steps"), [(5, 3), (16, 1), (50, 7)])
def test_local_steps_are_so_many_minibatches_whatever_the_data(samples: int, steps: int) -> None:
    task = small_task(RANK, samples=samples)
    theirs, ours = Plain(task, RANK, SEED), learner(task, body_epochs=5, local_steps=steps)
    calls: list[int] = []
    task.model.register_forward_hook(lambda _, given, __: calls.append(len(given[0])))
    for number in range(2):
        calls.clear()
        ours.train(number)
        assert calls == [len(rows) for rows in theirs.batches("model", steps)]
        assert len(calls) == steps
        theirs.run("model", steps, number=number)
        assert_close(ours.trainer, theirs)


@pytest.mark.parametrize("algorithm", ["dfedavgm", "dfedsam"])
def test_a_minibatch_without_a_target_is_left_out_of_the_loss(algorithm: str) -> None:
    """Cross-entropy ignores -100: of a minibatch of them the mean is 0 / 0, and nothing is learned of it."""
    inputs, targets = small_task(samples=300).train.tensors
    some = TensorDataset(inputs[:8], targets[:8].where(torch.arange(8) < 3, -100))
    task = small_task(train=some, test=TensorDataset(inputs[:300], targets[:300].where(torch.arange(300) < 10, -100)))
    trained = learner(task, algorithm, batch_size=1)
    assert math.isfinite(trained.train(0) or 0.0)
    assert trained.finite
    assert math.isfinite(trained.evaluate().test_loss)
    none = TensorDataset(inputs[:8], torch.full((8,), -100))
    assert learner(small_task(train=none), algorithm).train(0) is None


def test_a_loss_that_is_not_finite_shows_in_parameters_and_mean() -> None:
    def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return cross_entropy(outputs, targets) * (math.nan if (targets == 0).any() else 1.0)

    trained = learner(small_task(loss=loss), batch_size=8)
    assert math.isnan(trained.train(0) or 0.0)
    assert not trained.finite


# What it costs, and what matters.


@pytest.mark.parametrize(
    ("algorithm", "changes"),
    [(name, {}) for name in ALGORITHMS] + [("dfedsmdc", {"sam": sam}) for sam in ("head", "both")],
)
def test_gradients_are_counted_as_foretold(algorithm: str, changes: dict[str, Any]) -> None:
    """As many gradients as samples went forward through the model, and as `Algorithm.gradients` says."""
    task = small_task(RANK)
    ours = learner(task, algorithm, body_epochs=3, head_epochs=2, **changes)
    forward: list[int] = []
    task.model.register_forward_hook(lambda _, given, __: forward.append(len(given[0])))
    foretold = ours.algorithm.gradients(ours.trainer.hyperparameters) * 50
    assert ours.figures.gradients == 0
    for number in range(2):
        ours.train(number)
        # dis-pfl looks at a minibatch more to choose its mask.
        extra = 16 if algorithm == "dis-pfl" else 0
        assert ours.figures.gradients == sum(forward) == (number + 1) * (foretold + extra)


OPTIONS: dict[str, Any] = {
    "head_lr": 0.01, "head_epochs": 3, "rho": 0.4, "sam": "both", "ditto_lambda": 3.0,
    "sparsity": 0.3, "prune_rate": 0.1,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", every(2, ALGORITHMS))
def test_its_settings_are_those_that_matter_to_an_algorithm(algorithm: str) -> None:
    def outcome(**changes: Any) -> tuple[Tensor, float]:
        ours = learner(small_task(RANK, samples=30), algorithm, body_epochs=1, **changes)
        ours.train(0)
        ours.release(0)
        mix(ours, {}, {RANK: 1.0}) if ours.about.shares else None
        return ours.trainer.model.data.clone(), ours.evaluate().test_loss

    model, loss = outcome()
    matter = set()
    for name, value in OPTIONS.items():
        other, other_loss = outcome(**{name: value})
        if not torch.equal(other, model) or other_loss != loss:
            matter.add(name)
    found = find_algorithm(algorithm)
    assert matter == {*found.uses, *({*about_options(found)} & {*OPTIONS})}
