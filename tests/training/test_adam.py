"""AdamW against torch's own: alone, clipped, with SAM, under a mask, and beside another part."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dpeer.training import Hyperparameters, Task, Trainer, adamw, build_learner, projected, sam
from dpeer.training.adam import AdamW
from dpeer.training.algorithms import Algorithm
from dpeer.training.batch_loader import batch_order
from dpeer.training.flat import Flat

Make = Callable[..., Task]
RATE, DECAY, SEED, RANK = 0.02, 0.1, 3, 2
H = Hyperparameters(optimizer="adamw", body_lr=RATE, weight_decay=DECAY, batch_size=16, grad_clip=None)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "decay"), [(0.9, 0.0), (0.9, 0.1), (0.5, 0.01), (0.0, 0.1)])
def test_its_steps_are_pytorchs_to_the_last_bits(first: float, decay: float) -> None:
    torch.manual_seed(1)
    ours, x, y = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)), torch.randn(12, 5), torch.arange(12) % 3
    theirs = copy.deepcopy(ours)
    flat = Flat("model", list(ours.named_parameters()))
    optimizer = AdamW(flat, first, decay)
    reference = torch.optim.AdamW(theirs.parameters(), lr=RATE, betas=(first, 0.999), weight_decay=decay)
    for step in range(200):
        for group in reference.param_groups:
            group["lr"] = RATE * 0.99**step
        flat.grad.zero_()
        cross_entropy(ours(x), y).backward()
        with torch.no_grad():
            optimizer.step(RATE * 0.99**step)
        reference.zero_grad()
        cross_entropy(theirs(x), y).backward()
        reference.step()
        expected = torch.cat([p.detach().reshape(-1) for p in theirs.parameters()])
        torch.testing.assert_close(flat.data, expected, rtol=0, atol=1e-6)


class Plain:
    """A copy of the task's model in float64, stepped by torch's AdamW over the same minibatches."""

    def __init__(self, task: Task) -> None:
        self.model = copy.deepcopy(task.model).double()
        self.x, self.y = task.train.tensors[0].double(), task.train.tensors[1]
        self.all = list(self.model.parameters())

    def gradient(self, rows: Tensor) -> list[Tensor]:
        return list(torch.autograd.grad(cross_entropy(self.model(self.x[rows]), self.y[rows]), self.all))

    def sam(self, rows: Tensor, rho: float) -> list[Tensor]:
        kept, first = [p.detach().clone() for p in self.all], self.gradient(rows)
        length = torch.cat([g.reshape(-1) for g in first]).norm()
        with torch.no_grad():
            for p, g in zip(self.all, first, strict=True):
                p.add_(rho * g / length)
        second = self.gradient(rows)
        with torch.no_grad():
            for p, value in zip(self.all, kept, strict=True):
                p.copy_(value)
        return second

    def run(self, gradient: Callable[[Tensor], list[Tensor]], after: Callable[[], None] = lambda: None) -> Tensor:
        optimizer = torch.optim.AdamW(self.all, lr=RATE, weight_decay=DECAY)
        for epoch in range(3):
            for rows in batch_order(len(self.x), SEED, RANK, 0, "model", epoch).split(H.batch_size):
                for p, g in zip(self.all, gradient(rows), strict=True):
                    p.grad = g
                optimizer.step()
                with torch.no_grad():
                    after()
        return torch.cat([p.detach().reshape(-1) for p in self.all])


@pytest.fixture
def pair(make_task: Make) -> tuple[Trainer, Plain]:
    task = make_task(RANK, samples=50)
    theirs = Plain(task)
    return build_learner(task, "dfedavgm", H, rank=RANK, seed=SEED).trainer, theirs


def assert_close(ours: Trainer, expected: Tensor) -> None:
    torch.testing.assert_close(ours.model.data.double(), expected, rtol=0, atol=2e-5)


def test_a_setting_chooses_it_for_every_phase(pair: tuple[Trainer, Plain]) -> None:
    ours, theirs = pair
    ours.fit(ours.model, epochs=3, lr=RATE)
    assert_close(ours, theirs.run(theirs.gradient))


def test_a_step_of_its_own_whatever_the_setting(make_task: Make) -> None:
    task = make_task(RANK, samples=50)
    theirs = Plain(task)
    plain = build_learner(
        task, "dfedavgm", Hyperparameters(batch_size=16, grad_clip=None), rank=RANK, seed=SEED
    ).trainer
    plain.fit(plain.model, epochs=3, lr=RATE, step=adamw(weight_decay=DECAY))
    assert_close(plain, theirs.run(theirs.gradient))


def test_with_sams_gradient(pair: tuple[Trainer, Plain]) -> None:
    ours, theirs = pair
    ours.fit(ours.model, epochs=3, lr=RATE, gradient=sam(0.05))
    assert_close(ours, theirs.run(lambda rows: theirs.sam(rows, 0.05)))


def test_under_a_mask(pair: tuple[Trainer, Plain]) -> None:
    """As dis-pfl has it: values that are not held stay zero, though their means go on."""
    ours, theirs = pair
    held = torch.rand(ours.model.count, generator=torch.Generator().manual_seed(4)) < 0.5
    ours.fit(ours.model, epochs=3, lr=RATE, step=projected(ours.optimizer, lambda weights: weights.mul_(held)))

    def after() -> None:
        offset = 0
        for p in theirs.all:
            p.mul_(held[offset : offset + p.numel()].view(p.shape))
            offset += p.numel()

    expected = theirs.run(theirs.gradient, after)
    assert_close(ours, expected)
    assert not ours.model.data[~held].any()
    assert ours.model.data[held].all()


def test_dis_pfl_keeps_its_zeros(make_task: Make) -> None:
    ours = build_learner(make_task(samples=40), "dis-pfl", H, rank=0, seed=0, options={"sparsity": 0.7})
    ours.train(0)
    held = ours.algorithm._codec.held
    assert not ours.trainer.model.data[~held].any()


def test_every_phase_starts_from_zero(make_task: Make) -> None:
    """So that nothing but the model has to be kept for a resumed run, and none of an old body's steps move a new one.

    In a first step every value moves by the rate, whatever its gradient: so it does in the first of each round.
    """
    h = Hyperparameters(optimizer="adamw", body_lr=RATE, batch_size=1000, body_epochs=1, lr_decay=1.0)
    ours = build_learner(make_task(), "dfedavgm", h, rank=0, seed=0)
    for number in range(3):
        before = ours.body.clone()
        ours.train(number)
        moved = (ours.body - before).abs()
        assert moved.max() == pytest.approx(RATE, rel=1e-3)
        assert moved.median() == pytest.approx(RATE, rel=1e-3)


def test_beside_another_part(make_task: Make) -> None:
    class Both(Algorithm):
        shares = "body"
        draws = False

        def train(self, peer: Trainer) -> None:
            def gradient(peer: Trainer, part: Flat, batch: object) -> Tensor:
                peer.body.grad.fill_(2.0)
                peer.head.grad.fill_(-3.0)
                return torch.zeros(())

            peer.fit(peer.body, epochs=1, lr=RATE, gradient=gradient, beside=[(peer.head, 2 * RATE)])

    h = H.model_copy(update={"weight_decay": 0.0, "batch_size": 1000})
    ours = build_learner(make_task(), Both, h, rank=0, seed=0)
    body, head = ours.trainer.body.data.clone(), ours.trainer.head.data.clone()
    ours.train(0)
    torch.testing.assert_close(ours.trainer.body.data, body - RATE)
    torch.testing.assert_close(ours.trainer.head.data, head + 2 * RATE)


def test_there_is_no_third() -> None:
    with pytest.raises(ValueError, match="optimizer"):
        Hyperparameters(optimizer="adam")
