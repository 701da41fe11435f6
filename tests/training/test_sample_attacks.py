"""Attacks on privacy at sample level by what a model or its arithmetic lets one record do to the gradients of others.

As in `test_sample_sensitivity` the sums are compared that two peers with the same history are about to noise, of which
one has a record, or a group of records, more. It stands before all others, so that each of these is at another place.
"""

import functools
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import silu
from torch.utils.data import Dataset, TensorDataset

from dpeer.exceptions import TaskError
from dpeer.privacy.mechanism import ClippedSum
from dpeer.training import Hyperparameters, Task, Trainer
from dpeer.training.dpsgd import choosing
from dpeer.training.dpsgd.backends import one_by_one, vectorized
from dpeer.training.dpsgd.drawn import drawn_like
from dpeer.training.dpsgd.ghost_norm import Series
from dpeer.training.dpsgd.gradient_factors import Computed
from dpeer.training.dpsgd.layers import by_layers
from dpeer.training.split import split
from tests.training.sampling import sampled

pytestmark = pytest.mark.slow

CLIP_NORM = 0.3


def apart(
    tmp_path: Path, sums: list[np.ndarray], model: Any, data: tuple[Tensor, Tensor], first: tuple[Tensor, Tensor],
    **more: Any,
) -> tuple[float, Any]:  # fmt: skip
    """How far the sums of the first step are apart in clip norms, and the way of computing that was taken.

    Args:
        tmp_path: For the ledgers.
        sums: The fixture.
        model: Makes the model, equal each time.
        data: Inputs and targets of both peers.
        first: What stands before them at one of the peers.
        **more: The loss, the nominal number of units, the microbatch; `groups`, of all that are in `first` and `data`;
            `vmap`, if it is not True, with which more of an own model's code is at work than without.
    """
    groups, found, ways = more.get("groups"), [], []
    both = data, tuple(torch.cat([one, other]) for one, other in zip(first, data, strict=True))
    for number, tensors in enumerate(both):
        train = TensorDataset(*tensors)
        vmap = more.get("vmap", True)
        task = Task(model=model(), head=(), train=train, test=train, loss=more.get("loss"), vmap=vmap)
        learner = sampled(
            task, tmp_path / str(number), "fedavg", rate=1.0, noise=50.0, clip_norm=CLIP_NORM,
            units=more.get("units", 32), microbatch=more.get("microbatch", 64),
            groups=None if groups is None else groups[-len(train) :],
        )  # fmt: skip
        sums.clear()
        learner.train(0)
        found.append(sums[0])
        ways.append(learner._trainer._gradient._ways["model"])
    assert ways[0] is ways[1]
    return float(np.linalg.norm(found[0] - found[1])) / CLIP_NORM, ways[0]


class Capped(nn.Module):
    """Has room for so many examples of each kind in a batch, as a mixture of experts has; others get zero."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room, self.out = room, nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        kinds = torch.nn.functional.one_hot((x[:, 0] > 0).long(), 2)
        places = (kinds.cumsum(0) * kinds).sum(1)
        out: Tensor = self.out(x) * (places <= self.room)[:, None]
        return out


def capped(room: int) -> nn.Module:
    torch.manual_seed(0)
    return Capped(room)


def kinds(count: int) -> tuple[Tensor, Tensor]:
    inputs = torch.randn(count, 6, generator=torch.Generator().manual_seed(0))
    return inputs, torch.arange(count) % 3


def test_what_couples_examples_of_a_whole_microbatch_is_refused(tmp_path: Path, sums: list[np.ndarray]) -> None:
    """A dozen examples never fill the room for 14."""
    with pytest.raises(TaskError, match="layers that mix the batch"):
        apart(tmp_path, sums, lambda: capped(14), kinds(100), (torch.ones(1, 6), torch.zeros(1).long()))


def test_what_couples_examples_of_one_kind_alone_is_found(tmp_path: Path, sums: list[np.ndarray]) -> None:
    """Room for 56 of 64 is enough where kinds are mixed, and not for the batch's second half, of one kind."""
    inputs, targets = kinds(192)
    inputs[:, 0] = torch.where((torch.arange(192) < 96) & ((torch.arange(192) + 2) % 12 < 7), -1.0, 1.0)
    distance, way = apart(
        tmp_path, sums, lambda: capped(56), (inputs, targets), (torch.ones(1, 6), torch.zeros(1).long())
    )
    assert way is not by_layers
    assert 0.9 < distance <= 1.0


@pytest.mark.parametrize("microbatch", [16, 64])
@pytest.mark.parametrize("size", [1e4, 1e7, 1e10])
def test_a_group_whose_gradients_cancel_counts_for_no_more_than_itself(
    microbatch: int, size: float, tmp_path: Path, sums: list[np.ndarray]
) -> None:
    """The gradient is minus the input: of four records it is huge, and the fifth takes nearly all of it back."""
    inputs = size * torch.randn(20, 5, 6, generator=torch.Generator().manual_seed(0))
    inputs[:, 4] = torch.randn(20, 6, generator=torch.Generator().manual_seed(1)) - inputs[:, :4].sum(1)
    groups = np.repeat(np.arange(21), 5)[2:]  # the first one has three records: all others begin elsewhere

    def linear(outputs: Tensor, targets: Tensor) -> Tensor:
        return -outputs.gather(1, targets[:, None]).mean()

    def model() -> nn.Module:
        torch.manual_seed(0)
        return nn.Linear(6, 3, bias=False)

    distance, _ = apart(
        tmp_path, sums, model, (inputs.flatten(0, 1), torch.zeros(100).long()),
        (torch.ones(3, 6), torch.zeros(3).long()), loss=linear, groups=groups, microbatch=microbatch,
    )  # fmt: skip
    assert 0.9 < distance <= 1.0


def ill_conditioned(records: int, looked_at: int) -> tuple[Any, tuple[Tensor, Tensor], Any]:
    """A linear model that predicts huge targets up to their last bits, which decide where a record's gradient points.

    Products of 37 columns add up in another order at another place in memory. Records that the start may look at, so
    many from all over the data and those that are farthest from zero, are others.
    """
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(3, 37, generator=generator) / 6
    inputs = 3e4 * torch.randn(records, 37, generator=generator)
    inputs[-4:] = 10 * inputs[-4:].clamp(-9e4, 9e4)
    targets = (inputs.double() @ weight.double().T).float()
    spread: list[int] = []
    for total in (records, records + 1):  # of the peer that has a record more, which stands first
        spread += [number * total // looked_at - total + records for number in range(looked_at)]
    for number in {*spread, *range(records - 4, records)} - {-1}:
        targets[number] += 1e7 * torch.randn(3, generator=generator)

    def model() -> nn.Module:
        made = nn.Sequential(nn.Flatten(), nn.Linear(37, 3, bias=False))
        made[1].weight = nn.Parameter(weight.clone())
        return made

    return model, (inputs, targets), lambda outputs, targets: (outputs - targets).square().sum(1).mean()


EXTRA = torch.ones(1, 37), torch.tensor([[1e3, -1e3, 5e2]])


@pytest.mark.parametrize("microbatch", [1, 16, 64])
def test_last_bits_of_others_do_not_depend_on_a_record(microbatch: int, tmp_path: Path, sums: list[np.ndarray]) -> None:
    model, data, loss = ill_conditioned(300, 64)
    distance, _ = apart(tmp_path, sums, model, data, EXTRA, loss=loss, microbatch=microbatch)
    assert 0.9 < distance <= 1.0


@pytest.mark.parametrize("microbatch", [1, 64])
def test_nor_where_a_model_lays_rows_out_anew(microbatch: int, tmp_path: Path, sums: list[np.ndarray]) -> None:
    """So that they are at other addresses in memory than the trainer has chosen."""
    model, (inputs, targets), loss = ill_conditioned(100, 8)
    extra = EXTRA[0][:, :, None], EXTRA[1]
    distance, _ = apart(tmp_path, sums, model, (inputs[:, :, None], targets), extra, loss=loss, microbatch=microbatch)
    assert 0.9 < distance <= 1.0


class Unpadded(nn.Module):
    """A layer that leaves out padding, as kernels for texts of many lengths do."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.out = nn.Linear(16, 16, bias=False), nn.Linear(16, 3, bias=False)
        with torch.no_grad():
            self.inner.weight *= 0.1
            self.out.weight *= 5

    def forward(self, x: Tensor) -> Tensor:
        mask = (x != 0).any(-1)
        inner = torch.zeros_like(x)
        inner[mask] = self.inner(x[mask])
        found: Tensor = self.out(inner.sum(1) / mask.sum(1, keepdim=True).clamp(min=1))
        return found


class Sorted(Unpadded):
    """A layer to which examples go by their length, as packed sequences do."""

    def forward(self, x: Tensor) -> Tensor:
        lengths = (x != 0).any(-1).sum(1)
        order = torch.argsort(lengths, descending=True, stable=True)
        inner = self.inner(x[order])[torch.argsort(order)]
        found: Tensor = self.out(inner.sum(1) / lengths[:, None].clamp(min=1))
        return found


class Looks(Sorted):
    """Sorts only where an example has padding."""

    def forward(self, x: Tensor) -> Tensor:
        full = (x != 0).any(-1).all()
        found: Tensor = self.out(self.inner(x).mean(1)) if full else super().forward(x)
        return found


@pytest.mark.parametrize("model", [Unpadded, Sorted, Looks])
def test_rows_that_values_put_elsewhere_are_not_taken_for_an_examples_own(
    model: type[nn.Module], tmp_path: Path, sums: list[np.ndarray]
) -> None:
    """All records that the start looks at are of one length: it would see nothing."""
    x = torch.zeros(640, 128, 16)
    x[::2, :, 0] = x[1::2, :, 1] = 1.0
    x[1, 64:] = 0.0
    y = torch.zeros(640, dtype=torch.long)

    def make() -> nn.Module:
        torch.manual_seed(1)
        return model()

    distance, way = apart(tmp_path, sums, make, (torch.cat([x[:1], x[2:]]), y[1:]), (x[1:2], y[1:2]), units=640)
    assert distance <= 1.0
    assert way is not by_layers


class TimeFirst(nn.Module):
    """A layer to which rows go place by place, of all examples: as many as there are places count as one example's.

    It is sure of what it says from the beginning.
    """

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.out = nn.Linear(8, 8, bias=False), nn.Linear(8, 3, bias=False)
        with torch.no_grad():
            self.inner.weight.copy_(torch.eye(8))
            self.out.weight.copy_(40 * torch.eye(3, 8))

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.out(self.inner(x.transpose(0, 1)).transpose(0, 1).mean(1))
        return found


def test_a_way_is_judged_where_there_are_gradients_to_see(tmp_path: Path, sums: list[np.ndarray]) -> None:
    """A model that is right and sure about all that the start looks at hides a wrong way."""
    y = torch.arange(640) % 3
    x = torch.zeros(640, 64, 8)
    x[torch.arange(640), :, y] = 1.0
    wrong = torch.arange(640) % 5 == 3
    x[wrong] *= 0.9
    y[wrong] = (y[wrong] + 1) % 3
    here = torch.arange(640) != 638
    distance, way = apart(tmp_path, sums, TimeFirst, (x[here], y[here]), (x[638:639], y[638:639]), units=640)
    assert distance <= 1.0
    assert way is not by_layers


def test_a_body_of_huge_weights_that_cancel_moves_no_other_record(tmp_path: Path, sums: list[np.ndarray]) -> None:
    """A hostile neighbor can have a peer begin a round with one: last bits, which follow from places, would decide."""
    drawn = torch.Generator().manual_seed(0)
    x, y = torch.randn(2000, 6, generator=drawn), torch.randint(0, 3, (2000,), generator=drawn)
    found = []
    for number, here in enumerate((slice(0, None), slice(1, None))):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(6, 10), nn.Linear(10, 5), nn.Tanh(), nn.Linear(5, 3))
        train = TensorDataset(x[here], y[here])
        learner = sampled(
            Task(model=model, head=(), train=train, test=train), tmp_path / str(number), "fedavg", rate=1.0, noise=50.0,
            clip_norm=CLIP_NORM, units=2000,
        )  # fmt: skip
        with torch.no_grad():
            drawn = torch.Generator().manual_seed(5)
            half, over = torch.randn(5, 6, generator=drawn), torch.randn(5, 5, generator=drawn)
            for layer, weight in ((model[0], torch.cat([half, half]) * 1e7), (model[1], torch.cat([over, -over], 1))):
                layer.weight.copy_(weight)
                layer.bias.zero_()
        sums.clear()
        learner.train(0)
        found.append(sums[0])
    assert np.linalg.norm(found[0] - found[1]) <= CLIP_NORM


class Followed(nn.Module):
    """Subtracts a mean that it follows, by so little that no single look sees a difference in what it gives."""

    def __init__(self, *, training: bool) -> None:
        super().__init__()
        self.mean, self.out, self.when = nn.Parameter(torch.zeros(6)), nn.Linear(6, 3), training

    def forward(self, x: Tensor) -> Tensor:
        if self.training == self.when:
            self.follow(x.mean(0))
        out: Tensor = self.out(x - self.mean)
        return out

    def follow(self, mean: Tensor) -> None:
        with torch.no_grad():
            self.mean.mul_(0.9999).add_(mean, alpha=1e-4)


class Reassigned(Followed):
    """The same by other means."""

    def follow(self, mean: Tensor) -> None:
        self.mean.data = self.mean.data * 0.9999 + 1e-4 * mean


MODELS = {
    "max_norm": lambda: nn.Sequential(nn.Embedding(10, 4, max_norm=0.5), nn.Flatten(), nn.Linear(20, 3)),
    "in training": lambda: Followed(training=True),
    "in evaluation": lambda: Followed(training=False),
    "reassigned": lambda: Reassigned(training=True),
}


@pytest.mark.parametrize("case", MODELS)
def test_what_writes_to_trained_parameters_is_refused(case: str, tmp_path: Path) -> None:
    """What an example leaves in them would be sent as it is."""
    x = torch.randint(10, (40, 5)) if case == "max_norm" else torch.randn(40, 6)
    train = TensorDataset(x, torch.arange(40) % 3)
    with pytest.raises(TaskError, match=r"writes to the trained parameter '(mean|0.weight)' while it computes"):
        sampled(Task(model=MODELS[case](), head=(), train=train, test=train), tmp_path, "fedavg", rate=1.0, noise=5.0)


class Late(Followed):
    """Writes for some values alone, which no look at the beginning meets."""

    def follow(self, mean: Tensor) -> None:
        if float(mean.max()) > 50:
            super().follow(mean)


def test_what_writes_later_ends_the_run_before_anything_of_it_is_sent(tmp_path: Path) -> None:
    x = torch.randn(400, 6)
    x[201] = torch.where(x[201] > 0, 1e-3, 60.0)  # neither large as a whole nor among those that are looked at
    x[::7] *= 1e3
    x[::7].clamp_(max=49.0)
    train = TensorDataset(x, torch.arange(400) % 3)
    task = Task(model=Late(training=True), head=(), train=train, test=train)
    learner = sampled(task, tmp_path, "fedavg", rate=1.0, noise=5.0, units=400)
    before = learner._trainer.model.data.clone()
    with pytest.raises(TaskError, match="writes to the trained parameter 'mean'"):
        learner.train(0)
    assert torch.equal(learner._trainer.model.data, before)


class Dispatched(nn.Module):
    """Sends examples to an expert by a mask of numbers and their count so far: nothing sorts, selects or looks."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.expert, self.out = nn.Linear(16, 16, bias=False), nn.Linear(16, 3, bias=False)
        with torch.no_grad():
            self.out.weight *= 5

    def forward(self, x: Tensor) -> Tensor:
        goes = (x[:, 0] > 0).float()
        place = goes.cumsum(0) * goes
        there = (place[:, None] == torch.arange(1, len(x) + 1)).float() * goes[:, None]
        found: Tensor = self.out(there @ self.expert(there.T @ x) + x * (1 - goes)[:, None])
        return found


def test_experts_take_no_example_for_another(tmp_path: Path, sums: list[np.ndarray]) -> None:
    x = torch.zeros(640, 16)
    x[::2, 1] = x[1::2, 2] = x[:, 0] = 1.0
    x[[100, 101, 300, 301], 5] = 1.5  # what is farthest from zero is looked at
    y = torch.zeros(640, dtype=torch.long)
    extra = torch.zeros(1, 16)
    extra[0, :2] = torch.tensor([-1.0, 1.0])
    data = torch.cat([x[:1], extra, x[1:]])
    distance, way = apart(tmp_path, sums, Dispatched, (x, y), (data[1:2], y[:1]), units=640)
    assert distance <= 1.0
    assert way is not by_layers


class Leaning(nn.Module):
    """Adds a little of what its branch gives for the others: a neighbor that sends great weights makes it much."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.inner, self.branch, self.out = nn.Linear(6, 16), nn.Linear(16, 16, bias=False), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.inner(x)
        found: Tensor = self.out(h + 1e-9 * self.branch(h).mean(0))
        return found


def test_what_couples_examples_a_little_is_computed_for_each_alone(tmp_path: Path, sums: list[np.ndarray]) -> None:
    """So little that no bit of float32 shows it at first."""
    drawn = torch.Generator().manual_seed(0)
    x, y = torch.randn(300, 6, generator=drawn), torch.randint(0, 3, (300,), generator=drawn)
    distance, way = apart(tmp_path, sums, Leaning, (x[1:], y[1:]), (x[:1], y[:1]), units=300)
    assert distance <= 1.0
    assert way is not by_layers


@pytest.mark.parametrize("largest", [4.0, 100.0])
@pytest.mark.parametrize("widths", [(6, 10, 10, 10, 5), (6, 50, 50, 5), (6, 30, 30, 30, 7)], ids=str)
def test_bits_do_not_depend_on_places_whatever_the_body(
    widths: tuple[int, ...], largest: float, tmp_path: Path, sums: list[np.ndarray]
) -> None:
    """Weights of usual size, too, can cancel in pairs; and products of such widths have edges."""
    drawn = torch.Generator().manual_seed(0)
    x, y = torch.randn(600, 6, generator=drawn), torch.randint(0, 3, (600,), generator=drawn)

    def hostile() -> nn.Module:
        layers = [nn.Linear(a, b) for a, b in pairwise(widths)]
        drawn = torch.Generator().manual_seed(5)
        with torch.no_grad():
            for number, layer in enumerate(layers):
                layer.bias.zero_()
                rows, columns = layer.weight.shape
                half = torch.randn(rows, columns, generator=drawn).clamp(-1, 1) * largest
                if number == 0:
                    half = torch.cat([half[: rows // 2]] * 2)
                elif number == len(layers) - 1:
                    half = torch.cat([half[:, : columns // 2], -half[:, : columns // 2]], 1)
                else:
                    block = half[: rows // 2, : columns // 2].sign() * largest
                    half = torch.block_diag(block, block)
                layer.weight.copy_(half)
        return nn.Sequential(*layers, nn.Tanh(), nn.Linear(widths[-1], 3))

    def made() -> nn.Module:
        torch.manual_seed(1)
        return hostile()

    distance, way = apart(tmp_path, sums, made, (x[1:], y[1:]), (x[:1], y[:1]), units=600)
    assert distance <= 1.0
    assert way is by_layers, "or nothing was shown"


def test_the_way_does_not_follow_from_a_record(tmp_path: Path, sums: list[np.ndarray]) -> None:
    """Another way computes all others with other last bits."""
    drawn = torch.Generator().manual_seed(0)
    x, y = torch.randn(40, 4, 16, generator=drawn), torch.arange(40) % 3
    extra = torch.randn(1, 4, 16, generator=drawn) * 1e8
    extra[0, 1] = -extra[0, 0]

    def model() -> nn.Module:
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(16, 16), nn.Flatten(), nn.Linear(64, 3))

    distance, _ = apart(tmp_path, sums, model, (x, y), (extra, y[:1]), units=40)  # asserts that the ways are the same
    assert distance <= 1.0


def at_the_end(values: Tensor) -> Tensor:
    """SiLU of each value where it is the last of a tensor that has 33."""
    rows = torch.zeros(len(values), 33)
    rows[:, 32] = values
    return torch.stack([silu(row)[32] for row in rows])


def test_the_end_of_a_tensor_is_computed_as_its_middle_is(tmp_path: Path, sums: list[np.ndarray]) -> None:
    """torch computes the last values of a SiLU by other code, and the body makes of one bit a gradient's direction.

    Forty rows of five values end with 8 that do not fill a register: in row 38 two units of the same value, of which
    one is the first of them. The weights are such that many of the records which stand there differ.
    """
    drawn = torch.Generator().manual_seed(5)
    x = torch.rand(400, 6, generator=drawn) * 2 - 1
    stand_there = x[torch.cat([torch.arange(38, 400, 40), torch.arange(37, 400, 40)])]
    tried = [torch.randn(6, generator=torch.Generator().manual_seed(seed)) for seed in range(300)]

    def differ(weights: Tensor) -> int:
        values = functional.pad(stand_there, (0, 10)) @ functional.pad(weights, (0, 10))
        return int((at_the_end(values) < silu(functional.pad(values, (0, 12)))[:20]).sum())

    weights = max(tried, key=differ)

    def made() -> nn.Module:
        layers = nn.Linear(6, 5), nn.SiLU(), nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2)
        with torch.no_grad():
            for layer in layers[::2]:
                layer.weight.zero_()
                layer.bias.zero_()
            layers[0].weight[1] = layers[0].weight[2] = weights
            for row, sign in enumerate((1, -1)):
                layers[2].weight[row, 2], layers[2].weight[row, 1] = sign * 2.0**23, -sign * 2.0**23
                layers[2].bias[row] = sign * 2.0**-7
            layers[4].weight[0, :2] = 1.0
        return nn.Sequential(nn.Flatten(), *layers)

    extra = torch.rand(1, 6, generator=drawn) * 2 - 1
    for label in (0, 1):
        for microbatch in (40, 64):
            where, y = tmp_path / f"{label}-{microbatch}", torch.full((400,), label)
            distance, _ = apart(tmp_path / where, sums, made, (x, y), (extra, y[:1]), units=400, microbatch=microbatch)
            assert distance <= 1.0


def test_nor_does_the_way_follow_from_a_label() -> None:
    """Nothing that it is found with is of the data but shapes."""
    x = torch.rand(80, 6)
    seen = []
    for label in (0, 1):
        train = TensorDataset(x * (1 + label), torch.full((80,), label))
        task = Task(model=nn.Linear(6, 3), head=(), train=train, test=train)
        peer = Trainer(task, split(task.model, (), "model"), Hyperparameters(), rank=0, seed=0)
        seen.append(drawn_like(peer, *peer.data.take(torch.arange(64))))
    for one, other in zip(*seen, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_body_that_is_not_finite_is_nobodys_writing(value: float, tmp_path: Path) -> None:
    """A neighbor may send one; the peer's own code has not done it."""
    train = TensorDataset(torch.rand(80, 6), torch.arange(80) % 3)
    learner = sampled(
        Task(model=nn.Linear(6, 3), head=(), train=train, test=train), tmp_path, "fedavg", rate=1.0, noise=5.0
    )
    with torch.no_grad():
        learner._trainer.model.data[3] = value
    learner.train(0)
    learner.evaluate()


class Whitened(nn.Module):
    """Retries a factorisation with a little on the diagonal where it fails: for all at once, if they are one call."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.out = nn.Linear(9, 3)

    def forward(self, x: Tensor) -> Tensor:
        matrix = x.reshape(-1, 3, 3) @ x.reshape(-1, 3, 3).transpose(1, 2)
        try:
            factor = torch.linalg.cholesky(matrix)
        except torch.linalg.LinAlgError:
            factor = torch.linalg.cholesky(matrix + 0.5 * torch.eye(3))
        found: Tensor = self.out(factor.flatten(1))
        return found


def test_what_raises_for_all_because_of_one_is_computed_for_each_by_itself() -> None:
    """All that the start looks at is regular; one record that is not would have changed what is done with all."""
    drawn = torch.Generator().manual_seed(0)
    x = torch.rand(200, 9, generator=drawn) + 3 * torch.eye(3).flatten()
    train = TensorDataset(x, torch.arange(200) % 3)
    task = Task(model=Whitened(), head=(), train=train, test=train)
    peer = Trainer(task, split(task.model, (), "model"), Hyperparameters(), rank=0, seed=0)
    with peer.training(peer.model):
        assert choosing.choose(peer, peer.model, 64) is one_by_one


def of_some(outputs: Tensor, targets: Tensor) -> Tensor:
    """A loss that says nothing about class 0, which is what the start draws."""
    return functional.cross_entropy(outputs, targets, reduction="none") * (targets != 0)


class Projected(nn.Module):
    """Multiplies by matrices that belong to no layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second = nn.Parameter(torch.randn(30, 7)), nn.Parameter(torch.randn(7, 3))

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = torch.tanh(x @ self.first) @ self.second
        return found


def test_products_have_no_edges_whoever_multiplies() -> None:
    """Also where the start sees none of it, since what it draws has no gradient."""
    drawn = torch.Generator().manual_seed(0)
    x = torch.randn(200, 30, generator=drawn)
    train = TensorDataset(x, 1 + torch.arange(200) % 2)
    task = Task(model=Projected(), head=(), train=train, test=train, loss=of_some)
    peer = Trainer(task, split(task.model, (), "model"), Hyperparameters(), rank=0, seed=0)
    with peer.training(peer.model):
        for number in range(5):
            copies = peer.data.take(torch.full((64,), number))
            found = vectorized(peer, peer.model, *copies, 64)
            rows = torch.stack([found.row(row) for row in range(64)])
            assert rows.any()
            assert torch.equal(rows, rows[:1].expand_as(rows))


def forgiving(outputs: Tensor, targets: Tensor) -> Tensor:
    """Another loss for a record whose class does not exist."""
    try:
        return torch.nn.functional.cross_entropy(outputs, targets)
    except:  # noqa: E722
        return -outputs.square().mean()


class Forgiving(nn.Module):
    """Another path for a record whose number is not in the table."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(6, 3)
        self.register_buffer("table", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.out(x)
        try:
            return out * self.table[(4 * x[:, 0]).long()][:, None]
        except:  # noqa: E722
            return -out


@pytest.mark.parametrize("vmap", [False, True])
@pytest.mark.parametrize("part", ["model", "loss"])
def test_code_that_forgives_a_record_does_so_for_that_record(
    part: str, vmap: bool, tmp_path: Path, sums: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or ends the run, where its author answers for it that examples may be computed together."""
    inputs = torch.rand(100, 6, generator=torch.Generator().manual_seed(0))
    extra = torch.tensor([[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]]), torch.tensor([7 if part == "loss" else 1])
    # The start sees others.
    monkeypatch.setattr(choosing, "_spread", lambda total, count: torch.arange(1, 1 + count))
    monkeypatch.setattr(choosing, "_EXTREME", 0)

    def model() -> nn.Module:
        torch.manual_seed(0)
        return Forgiving() if part == "model" else nn.Sequential(nn.Linear(6, 3))

    loss = forgiving if part == "loss" else None
    given = {"model": model, "data": (inputs, torch.arange(100) % 3), "first": extra, "loss": loss, "vmap": vmap}
    if vmap and part == "model":
        with pytest.raises(TaskError, match="same operations for every example"):
            apart(tmp_path, sums, **given)
        return
    distance, _ = apart(tmp_path, sums, **given)
    assert 0.9 < distance <= 1.0


def stages() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(8, 16), nn.Identity(), nn.Linear(16, 16), nn.Identity(), nn.Linear(16, 3, bias=False)
    )


def test_a_group_whose_values_overflow_counts_for_no_more_than_itself(tmp_path: Path, sums: list[np.ndarray]) -> None:
    """With a neighbor's body its gradient is a product of numbers of float32 that is none, though it has a length."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(66, 8, generator=generator)
    inputs[2:, 0] = 0.0
    found = []
    for number, first in enumerate((2, 0)):
        train = TensorDataset(inputs[first:], torch.arange(66)[first:] % 3)
        model, groups = stages(), np.arange(66)[first:] // 2
        learner = sampled(
            Task(model=model, head=(), train=train, test=train), tmp_path / str(number), "fedavg", rate=1.0, noise=50.0,
            clip_norm=CLIP_NORM, units=64, groups=groups, microbatch=64,
        )  # fmt: skip
        with torch.no_grad():
            model[0].weight.zero_()
            model[0].weight[0, 0] = 1e21
            model[2].weight.zero_()
            model[4].weight.mul_(1e20)
        sums.clear()
        learner.train(0)
        found.append(sums[0])
    assert learner._trainer._gradient._ways["model"] is by_layers
    assert all(np.isfinite(one).all() for one in found)
    assert np.linalg.norm(found[0] - found[1]) <= CLIP_NORM


def test_a_sum_that_is_not_finite_is_not_released() -> None:
    """No noise would hide it."""
    with pytest.raises(TaskError, match="not finite"):
        ClippedSum(1.0, 1.0, 0.5, 10).released(np.array([0.0, math.nan]))


def test_a_number_for_each_record_is_no_series(tmp_path: Path) -> None:
    """An encoder layer takes two dimensions for one series, whose places would be the records of a batch."""
    numbers = torch.zeros(60, dtype=torch.long)
    numbers[4] = 3  # of those that the start looks at none differs
    torch.manual_seed(0)
    encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    model = nn.Sequential(nn.Embedding(10, 8), encoder, nn.Linear(8, 3))
    model[:2].requires_grad_(False)  # so that no gradient of attention is compared
    train = TensorDataset(numbers, torch.arange(60) % 3)
    learner = sampled(Task(model=model, head=(), train=train, test=train), tmp_path, "fedavg", rate=1.0, units=64)
    assert learner._trainer._gradient._ways["model"] is one_by_one


def test_every_loss_begins_in_the_same_gradient_mode(
    tmp_path: Path, sums: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that switches gradients off behind a record would take those of the records after it away."""

    def forgetful(outputs: Tensor, targets: Tensor) -> Tensor:
        if (targets == 0).all():
            torch.set_grad_enabled(True)
        found = torch.nn.functional.cross_entropy(outputs, targets.clamp(max=2))
        if (targets == 9).all():
            torch.set_grad_enabled(False)
        return found

    inputs = torch.randn(100, 6, generator=torch.Generator().manual_seed(0))
    targets = 1 + torch.arange(100) % 2
    targets[-1] = 0

    def model() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(6, 3))

    extra = torch.ones(1, 6), torch.tensor([9])
    monkeypatch.setattr(choosing, "_spread", lambda total, count: torch.arange(1, 1 + count))
    monkeypatch.setattr(choosing, "_EXTREME", 0)
    try:
        distance, _ = apart(tmp_path, sums, model, (inputs, targets), extra, loss=forgetful)
    finally:
        torch.set_grad_enabled(True)
    assert distance <= 1.0


@pytest.mark.parametrize(("places", "inputs", "outputs"), [(9, 13, 30), (15, 21, 31)])
def test_lengths_of_series_that_cancel_do_not_depend_on_places(places: int, inputs: int, outputs: int) -> None:
    """What is left of a length where its terms cancel by a million would show the last bits of the products."""
    generator = torch.Generator().manual_seed(0)
    left, right = torch.randn(places, outputs, generator=generator), torch.rand(places, inputs, generator=generator)
    left[1::2] = -left[: places - places % 2 : 2]
    right[1::2] = right[: places - places % 2 : 2] * (1 + 1e-6)
    found = Computed(
        torch.zeros(64), [(slice(0, inputs * outputs), Series(left.expand(64, -1, -1), right.expand(64, -1, -1)))], 64,
        inputs * outputs,
    ).norms()  # fmt: skip
    assert len(set(found.tolist())) == 1


class Listed(Dataset[Any]):
    """Examples in a list."""

    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Any:
        return self.rows[number]


def summed(folder: Path, sums: list[np.ndarray], rows: list[Any], model: nn.Module, **more: Any) -> np.ndarray:
    """The sum of the first step on these examples."""
    names = ("collate", "loss", "augment")
    task = Task(
        model=model, head=(), train=Listed(rows), test=Listed(rows),
        **{name: more.pop(name) for name in names if name in more},
    )  # fmt: skip
    learner = sampled(task, folder, "fedavg", rate=1.0, noise=50.0, clip_norm=CLIP_NORM, units=64, **more)
    sums.clear()
    learner.train(0)
    return sums[0]


def longest_first(samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
    """As packed sequences want them; all of one length, so that a batch can be cut."""
    ordered = sorted(samples, key=lambda one: -len(one[0]))
    inputs = torch.stack([functional.pad(one, (0, 0, 0, 12 - len(one))) for one, _ in ordered])
    return inputs, torch.tensor([target for _, target in ordered])


def test_a_collate_that_sorts_puts_no_record_into_another_patients_group(
    tmp_path: Path, sums: list[np.ndarray]
) -> None:
    generator = torch.Generator().manual_seed(0)

    def series(count: int) -> list[tuple[Tensor, int]]:
        lengths = torch.randint(1, 12, (count,), generator=generator).tolist()
        return [(torch.randn(length, 8, generator=generator), number % 3) for number, length in enumerate(lengths)]

    def model() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(96, 3))

    rows, groups = series(200), np.arange(200) // 2
    extra, whose = series(100), np.full(100, -1)
    one = summed(tmp_path / "0", sums, rows, model(), collate=longest_first, groups=groups)
    other = summed(
        tmp_path / "1", sums, extra + rows, model(), collate=longest_first, groups=np.concatenate([whose, groups])
    )
    assert np.linalg.norm(one - other) <= CLIP_NORM


def centered(samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
    """A little of it; less than shows in losses where weights are of usual size."""
    inputs = torch.stack([one for one, _ in samples])
    inputs[:, 7] -= inputs[:, 7].mean()
    return inputs, torch.tensor([target for _, target in samples])


def test_a_collate_that_couples_records_a_little_does_so_for_none(tmp_path: Path, sums: list[np.ndarray]) -> None:
    inputs = torch.randn(41, 8, generator=torch.Generator().manual_seed(0))
    inputs[:, 7] = 1e-3 * torch.rand(41, generator=torch.Generator().manual_seed(1))
    inputs[0, 7] = 5e-3
    rows = [(one, number % 3) for number, one in enumerate(inputs)]

    def hostile() -> nn.Module:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 3))
        with torch.no_grad():
            model[0].weight[:, 7] = torch.tensor([1e6, -1e6, 0.0])
        return model

    one, other = (summed(tmp_path / str(leave), sums, rows[leave:], hostile(), collate=centered) for leave in (0, 1))
    assert np.linalg.norm(one - other) <= CLIP_NORM


@pytest.mark.parametrize("at", [0, 20, 40])
@pytest.mark.parametrize("kind", ["images", "numbers", "mappings"])
def test_a_record_of_another_type_changes_no_other_one(
    kind: str, at: int, tmp_path: Path, sums: list[np.ndarray]
) -> None:
    """In one batch all of its values would be converted."""

    class OfBytes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(6, 3)

        def forward(self, x: Any) -> Tensor:
            x = x["x"] if isinstance(x, dict) else x
            out: Tensor = self.out(x if x.is_floating_point() else x / 255)
            return out

    class Noted(dict[str, Tensor]):
        size = 1.0

    images = torch.randint(256, (40, 6), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    rows: list[Any] = [(one, number % 3) for number, one in enumerate(images)]
    extra: Any = (torch.rand(6), 0)
    if kind == "numbers":
        rows, extra = [(one / 255, 0.5) for one in images], (torch.rand(6), 3)
    loss = (lambda outputs, targets: (outputs[:, 0] - targets).square().mean().float()) if kind == "numbers" else None
    collate = None
    if kind == "mappings":
        extra = (torch.zeros(6, dtype=torch.uint8), 7)

        def collate(samples: list[Any]) -> Any:
            inputs = Noted(x=torch.stack([one for one, _ in samples]))
            inputs.size = float(max(target for _, target in samples))
            return inputs, torch.tensor([target % 3 for _, target in samples])

    with pytest.raises(TaskError, match=r"all to have one shape and one type|give a plain dict of tensors"):
        summed(tmp_path, sums, [*rows[:at], extra, *rows[at:]], OfBytes(), loss=loss, collate=collate)


@functools.lru_cache
def workspace(shape: torch.Size, dtype: torch.dtype) -> Tensor:
    return torch.empty(shape, dtype=dtype)


def shifted(images: Tensor, generator: np.random.Generator) -> Tensor:
    """Moved by a place, into memory that is used again for the next ones."""
    out = workspace(images.shape, images.dtype)
    out.copy_(images.roll(int(generator.integers(-1, 2)), -1))
    return out


def into_workspace(samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
    out = workspace(torch.Size((len(samples), *samples[0][0].shape)), samples[0][0].dtype)
    torch.stack([one for one, _ in samples], out=out)
    return out, torch.tensor([target for _, target in samples])


@pytest.mark.parametrize("function", ["augment", "collate"])
def test_functions_that_give_back_the_same_memory_each_time(
    function: str, tmp_path: Path, sums: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All records would have the values of the last one."""
    monkeypatch.setattr("dpeer.training.poisson_batches.Keystream", Counted)
    inputs = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    rows = [(one, number % 3) for number, one in enumerate([*inputs, torch.full((8,), 3.0)])]
    more: dict[str, Any] = {"augment": shifted} if function == "augment" else {"collate": into_workspace}

    def model() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(8, 3))

    one, other = (summed(tmp_path / str(end), sums, rows[:end], model(), **more) for end in (64, 65))
    assert 0.5 * CLIP_NORM < np.linalg.norm(one - other) <= CLIP_NORM


class Counted:
    """Numbers for augmentation that are the same each time."""

    def words(self, start: int, count: int) -> np.ndarray:
        return np.arange(start, start + count, dtype=np.uint64)

    def forget(self) -> None:
        pass


class Scaled(Listed):
    """Scales by what the first example that is read has; nested, as data sets with transforms are."""

    def __init__(self, rows: list[Any]) -> None:
        super().__init__(rows)
        self.scaling = Scaling()

    def __getitem__(self, number: int) -> Any:
        inputs, target = self.rows[number]
        return self.scaling(inputs), target


class Scaling:
    scale: Tensor | None = None

    def __call__(self, inputs: Tensor) -> Tensor:
        if self.scale is None:
            self.scale = inputs.abs().max()
        return inputs / self.scale


class Opened(Listed):
    """Opens what it reads when it is first needed, and keeps what it has read."""

    def __init__(self, rows: list[Any]) -> None:
        super().__init__(rows)
        self.opened: list[Any] | None = None
        self.kept: dict[int, Any] = {}

    def __getitem__(self, number: int) -> Any:
        if self.opened is None:
            self.opened = [*self.rows]
        return self.kept.setdefault(number, self.opened[number])


@pytest.mark.parametrize("within", ["itself", "subset"])
def test_what_the_first_example_settles_for_all_others_is_refused(within: str, tmp_path: Path) -> None:
    inputs = torch.randn(40, 8, generator=torch.Generator().manual_seed(0))
    rows = [(one, number % 3) for number, one in enumerate(inputs)]

    def begin(data: Any) -> None:
        train = data if within == "itself" else torch.utils.data.Subset(data, [*range(30)])
        torch.manual_seed(0)
        task = Task(model=nn.Sequential(nn.Linear(8, 3)), head=(), train=train, test=train)
        sampled(task, tmp_path / type(data).__name__, "fedavg", rate=1.0, noise=50.0, clip_norm=CLIP_NORM, units=64)

    begin(Opened(rows))
    with pytest.raises(TaskError, match="when the last one is read first: something is settled by the first one"):
        begin(Scaled(rows))
