"""What `Trainer.fit` is composed of, each piece and some together, against autograd and torch.optim in float64."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from dpeer.training import (
    Hyperparameters,
    Task,
    Trainer,
    build_learner,
    momentum,
    plain,
    projected,
    proximal,
    sam,
)
from dpeer.training.batch_loader import batch_order
from dpeer.training.flat import Flat
from dpeer.training.minibatches import Batch

Make = Callable[..., Task]
SEED, RANK, LR = 3, 2, 0.1
H = Hyperparameters(body_lr=LR, momentum=0.9, batch_size=16, grad_clip=None)
Gradient = Callable[[list[Tensor], Tensor], list[Tensor]]


@pytest.fixture
def pair(make_task: Make) -> tuple[Trainer, "Plain"]:
    task = make_task(RANK, samples=50)
    theirs = Plain(task)
    return build_learner(task, "dfedavgm", H, rank=RANK, seed=SEED).trainer, theirs


class Plain:
    """A copy of the task's model in float64."""

    def __init__(self, task: Task) -> None:
        self.model = copy.deepcopy(task.model).double()
        self.x, self.y = task.train.tensors[0].double(), task.train.tensors[1]
        self.all = list(self.model.parameters())

    def gradient(self, rows: Tensor) -> list[Tensor]:
        return list(torch.autograd.grad(cross_entropy(self.model(self.x[rows]), self.y[rows]), self.all))

    def sam(self, rows: Tensor, rho: float, gradient: Callable[[Tensor], list[Tensor]]) -> list[Tensor]:
        kept = [p.detach().clone() for p in self.all]
        first = gradient(rows)
        length = torch.cat([g.reshape(-1) for g in first]).norm()
        with torch.no_grad():
            for p, g in zip(self.all, first, strict=True):
                p.add_(rho * g / length)
        second = gradient(rows)
        with torch.no_grad():
            for p, value in zip(self.all, kept, strict=True):
                p.copy_(value)
        return second

    def run(
        self,
        gradient: Callable[[Tensor], list[Tensor]],
        after: Callable[[], None] = lambda: None,
        phase: str = "model",
        epochs: int = 2,
        **settings: float,
    ) -> None:
        optimizer = torch.optim.SGD(self.all, **{"lr": LR, "momentum": 0.9, **settings})
        for epoch in range(epochs):
            for rows in batch_order(len(self.x), SEED, RANK, 0, phase, epoch).split(H.batch_size):
                for p, g in zip(self.all, gradient(rows), strict=True):
                    p.grad = g
                optimizer.step()
                with torch.no_grad():
                    after()

    @property
    def vector(self) -> Tensor:
        return torch.cat([p.detach().reshape(-1) for p in self.all])


def assert_close(ours: Trainer, theirs: Plain) -> None:
    torch.testing.assert_close(ours.model.data.double(), theirs.vector, rtol=0, atol=1e-5)


def test_a_plain_gradient_and_momentum_by_default(pair: tuple[Trainer, Plain]) -> None:
    ours, theirs = pair
    ours.fit(ours.model, epochs=2, lr=LR)
    theirs.run(theirs.gradient)
    assert_close(ours, theirs)
    assert ours.gradients == 100


@pytest.mark.parametrize("inside", ["pull in the perturbation", "pull beside it"])
def test_gradients_are_put_into_each_other(pair: tuple[Trainer, Plain], inside: str) -> None:
    ours, theirs = pair
    towards = torch.randn(ours.model.count, generator=torch.Generator().manual_seed(1))
    shapes = [p.shape for p in theirs.all]
    targets = [t.view(s) for t, s in zip(towards.double().split([s.numel() for s in shapes]), shapes, strict=True)]

    def pulled(gradient: Callable[[Tensor], list[Tensor]], rows: Tensor) -> list[Tensor]:
        found = gradient(rows)
        return [g + 0.7 * (p.detach() - t) for g, p, t in zip(found, theirs.all, targets, strict=True)]

    if inside == "pull beside it":
        ours.fit(ours.model, epochs=2, lr=LR, gradient=proximal(0.7, towards, gradient=sam(0.3)))
        theirs.run(lambda rows: pulled(lambda rows: theirs.sam(rows, 0.3, theirs.gradient), rows))
    else:
        ours.fit(ours.model, epochs=2, lr=LR, gradient=sam(0.3, gradient=proximal(0.7, towards)))
        theirs.run(lambda rows: theirs.sam(rows, 0.3, lambda rows: pulled(theirs.gradient, rows)))
    assert_close(ours, theirs)
    assert ours.gradients == 200


def test_a_sam_of_no_radius_is_what_it_would_perturb() -> None:
    assert sam(0.0) is plain
    other = proximal(1.0, torch.zeros(1))
    assert sam(0.0, other) is other


def test_steps_of_ones_own(pair: tuple[Trainer, Plain]) -> None:
    ours, theirs = pair

    def shrink() -> None:
        for p in theirs.all:
            p.clamp_(-0.2, 0.2)

    ours.fit(ours.model, epochs=2, lr=LR, step=projected(momentum(0.5, 0.01), lambda w: w.clamp_(-0.2, 0.2)))
    theirs.run(theirs.gradient, shrink, momentum=0.5, weight_decay=0.01)
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
    theirs.run(theirs.gradient, phase="my own", momentum=0.0)
    assert_close(ours, theirs)


@pytest.mark.parametrize("clip", [None, 0.3])
def test_what_is_beside_is_stepped_along_with_its_own_rate_and_clipped_alone(make_task: Make, clip: Any) -> None:
    task = make_task(RANK, samples=50)
    theirs = Plain(task)
    h = H.model_copy(update={"grad_clip": clip, "lr_decay": 0.9})
    ours = build_learner(task, "dfedavgm", h, rank=RANK, seed=SEED).trainer
    other = torch.nn.Parameter(torch.zeros(3))
    beside = Flat("beside", [("w", other)])

    def both(peer: Trainer, part: Flat, batch: Batch) -> Tensor:
        loss = peer.gradient(part, batch)
        beside.grad.copy_(torch.tensor([1.0, 2.0, 2.0]))
        return loss

    ours.begin(2)
    ours.fit(ours.model, epochs=1, lr=LR, gradient=both, beside=[(beside, 0.5)])
    optimizer = torch.optim.SGD([twin := torch.nn.Parameter(torch.zeros(3).double())], lr=0.5 * 0.81, momentum=0.9)
    for _ in range(4):  # minibatches of 16 of 50
        twin.grad = torch.tensor([1.0, 2.0, 2.0]).double() * (1.0 if clip is None else clip / 3)
        optimizer.step()
    torch.testing.assert_close(other.detach().double(), twin.detach(), rtol=1e-4, atol=0)
    assert not torch.equal(ours.model.data.double(), theirs.vector)


def test_an_empty_part_takes_nothing(make_task: Make) -> None:
    ours = build_learner(make_task(), "dfedavgm", H, rank=RANK, seed=SEED).trainer
    ours.fit(ours.head, epochs=3, lr=LR, gradient=sam(0.3))
    assert (ours.gradients, ours.loss) == (0, None)
