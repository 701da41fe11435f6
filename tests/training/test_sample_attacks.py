"""Attacks on privacy at sample level by what a model or its arithmetic lets one record do to the gradients of others.

As in `test_sample_sensitivity` the sums are compared that two peers with the same history are about to noise, of which
one has a record, or a group of records, more. It stands before all others, so that each of these is at another place.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from dpeer.exceptions import TaskError
from dpeer.training import Task
from dpeer.training.per_example.layers import by_layers
from dpeer.training.per_example.ways import one_by_one
from tests.training.sampling import sampled

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
        **more: The loss, the nominal number of units, the microbatch; `groups`, of all that are in `first` and `data`.
    """
    groups, found, ways = more.get("groups"), [], []
    both = data, tuple(torch.cat([one, other]) for one, other in zip(first, data, strict=True))
    for number, tensors in enumerate(both):
        train = TensorDataset(*tensors)
        learner = sampled(
            Task(model=model(), head=(), train=train, test=train, loss=more.get("loss")), tmp_path / str(number),
            "fedavg", rate=1.0, noise=50.0, clip_norm=CLIP_NORM, units=more.get("units", 32),
            microbatch=more.get("microbatch", 64), groups=None if groups is None else groups[-len(train) :],
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
    """Room for 35 of 40 is enough where kinds are mixed, and not for the batch's second half, of one kind."""
    inputs, targets = kinds(96)
    inputs[:, 0] = torch.where((torch.arange(96) < 48) & ((torch.arange(96) + 2) % 12 < 7), -1.0, 1.0)
    distance, way = apart(
        tmp_path, sums, lambda: capped(35), (inputs, targets), (torch.ones(1, 6), torch.zeros(1).long())
    )
    assert way is one_by_one
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
    """Rows of a table are aligned alike."""
    model, data, loss = ill_conditioned(300, 64)
    distance, _ = apart(tmp_path, sums, model, data, EXTRA, loss=loss, microbatch=microbatch)
    assert 0.9 < distance <= 1.0


@pytest.mark.parametrize("microbatch", [1, 64])
def test_where_they_do_each_record_is_computed_by_itself(
    microbatch: int, tmp_path: Path, sums: list[np.ndarray]
) -> None:
    """The model lays rows out anew, so that they are not aligned any more."""
    model, (inputs, targets), loss = ill_conditioned(100, 8)
    extra = EXTRA[0][:, :, None], EXTRA[1]
    distance, way = apart(tmp_path, sums, model, (inputs[:, :, None], targets), extra, loss=loss, microbatch=microbatch)
    assert 0.9 < distance <= 1.0
    assert microbatch == 1 or way is one_by_one


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
