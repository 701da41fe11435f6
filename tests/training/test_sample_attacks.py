"""Attacks on privacy at sample level by what a model or its arithmetic lets one record do to the gradients of others.

As in `test_sample_sensitivity` the sums are compared that two peers with the same history are about to noise, of which
one has a record, or a group of records, more. It stands before all others, so that each of these is at another place.
"""

import functools
import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import silu
from torch.utils.data import TensorDataset

from dpeer.exceptions import TaskError
from dpeer.training import Hyperparameters, Task, Trainer
from dpeer.training.dpsgd.backends import vectorized
from dpeer.training.dpsgd.by_layers import by_layers
from dpeer.training.dpsgd.gradient_factors import ExampleGradients, SequenceGradients
from dpeer.training.split import split
from tests.training.dp_learners import sampled
from tests.training.small import Rows, small_task

pytestmark = pytest.mark.slow

CLIP_NORM = 0.3


def seeded(make: Callable[[], nn.Module], seed: int = 0) -> Callable[[], nn.Module]:
    def model() -> nn.Module:
        torch.manual_seed(seed)
        return make()

    return model


def summed(
    folder: Path, sums: list[np.ndarray], train: Any, model: nn.Module, *,
    hostile: Callable[[Any], object] = lambda model: None, loss: Any = None, collate: Any = None, augment: Any = None,
    **session: Any,
) -> tuple[np.ndarray, Any]:  # fmt: skip
    """The sum of the first step on these examples, and the backend that was taken.

    Args:
        folder: For the ledger.
        sums: The fixture.
        train: The examples.
        model: The model.
        hostile: Writes to the model after the start, as a neighbor's body does.
        loss: Of the task, as `collate` and `augment`.
        **session: What `sample_terms` takes.
    """
    task = Task(model=model, head=(), train=train, test=train, loss=loss, collate=collate, augment=augment)
    common = {"rate": 1.0, "noise": 50.0, "clip_norm": CLIP_NORM, "units": 64}
    learner = sampled(task, folder, "fedavg", **common | session)
    with torch.no_grad():
        hostile(task.model)
    sums.clear()
    learner.train(0)
    return sums[0], learner.trainer.source.private_gradient.backends["model"]


def apart(
    tmp_path: Path, sums: list[np.ndarray], model: Any, data: tuple[Tensor, Tensor], first: tuple[Tensor, Tensor], *,
    groups: Any = None, **more: Any,
) -> tuple[float, Any]:  # fmt: skip
    """How far the sums of two peers are apart in clip norms, and the backend that both take.

    One has `data`, and the other `first` before them; `groups` are of all of these. `model` makes equal models.
    """
    found = []
    both = data, tuple(torch.cat([one, other]) for one, other in zip(first, data, strict=True))
    for number, tensors in enumerate(both):
        own = None if groups is None else groups[-len(tensors[0]) :]
        where = tmp_path / str(number)
        found.append(summed(where, sums, TensorDataset(*tensors), model(), groups=own, **{"units": 32} | more))
    (one, backend), (other, its_backend) = found
    assert backend is its_backend
    return float(np.linalg.norm(one - other)) / CLIP_NORM, backend


@pytest.mark.parametrize(("microbatch", "size"), [(16, 1e4), (64, 1e7), (64, 1e10)])
def test_a_group_whose_gradients_cancel_counts_for_no_more_than_itself(
    microbatch: int, size: float, tmp_path: Path, sums: list[np.ndarray]
) -> None:
    """The gradient is minus the input: of four records it is huge, and the fifth takes nearly all of it back."""
    inputs = size * torch.randn(20, 5, 6, generator=torch.Generator().manual_seed(0))
    inputs[:, 4] = torch.randn(20, 6, generator=torch.Generator().manual_seed(1)) - inputs[:, :4].sum(1)
    groups = np.repeat(np.arange(21), 5)[2:]  # the first one has three records: all others begin elsewhere

    def linear(outputs: Tensor, targets: Tensor) -> Tensor:
        return -outputs.gather(1, targets[:, None]).mean()

    model = seeded(lambda: nn.Linear(6, 3, bias=False))
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


@pytest.mark.parametrize(("microbatch", "laid_out"), [(1, False), (16, False), (64, False), (1, True), (64, True)])
def test_last_bits_of_others_do_not_depend_on_a_record(
    microbatch: int, laid_out: bool, tmp_path: Path, sums: list[np.ndarray]
) -> None:
    """Also where a model lays rows out anew: at other addresses in memory than the trainer has chosen."""
    model, (inputs, targets), loss = ill_conditioned(*((100, 8) if laid_out else (300, 64)))
    extra = EXTRA
    if laid_out:
        inputs, extra = inputs[:, :, None], (EXTRA[0][:, :, None], EXTRA[1])
    distance, _ = apart(tmp_path, sums, model, (inputs, targets), extra, loss=loss, microbatch=microbatch)
    assert 0.9 < distance <= 1.0


def test_a_body_of_huge_weights_that_cancel_moves_no_other_record(tmp_path: Path, sums: list[np.ndarray]) -> None:
    """A hostile neighbor can have a peer begin a round with one: last bits, which follow from places, would decide."""
    drawn = torch.Generator().manual_seed(0)
    x, y = torch.randn(2000, 6, generator=drawn), torch.randint(0, 3, (2000,), generator=drawn)

    model = seeded(lambda: nn.Sequential(nn.Linear(6, 10), nn.Linear(10, 5), nn.Tanh(), nn.Linear(5, 3)), 1)

    def hostile(model: nn.Module) -> None:
        drawn = torch.Generator().manual_seed(5)
        half, over = torch.randn(5, 6, generator=drawn), torch.randn(5, 5, generator=drawn)
        for layer, weight in ((model[0], torch.cat([half, half]) * 1e7), (model[1], torch.cat([over, -over], 1))):
            layer.weight.copy_(weight)
            layer.bias.zero_()

    distance, _ = apart(tmp_path, sums, model, (x[1:], y[1:]), (x[:1], y[:1]), units=2000, hostile=hostile)
    assert distance <= 1.0


@pytest.mark.parametrize(("widths", "largest"), [((6, 10, 10, 10, 5), 4.0), ((6, 30, 30, 30, 7), 100.0)], ids=str)
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

    distance, backend = apart(tmp_path, sums, seeded(hostile, 1), (x[1:], y[1:]), (x[:1], y[:1]), units=600)
    assert distance <= 1.0
    assert backend is by_layers, "or nothing was shown"


def test_the_way_does_not_follow_from_a_record(tmp_path: Path, sums: list[np.ndarray]) -> None:
    """Another backend computes all others with other last bits."""
    drawn = torch.Generator().manual_seed(0)
    x, y = torch.randn(40, 4, 16, generator=drawn), torch.arange(40) % 3
    extra = torch.randn(1, 4, 16, generator=drawn) * 1e8
    extra[0, 1] = -extra[0, 0]

    model = seeded(lambda: nn.Sequential(nn.Linear(16, 16), nn.Flatten(), nn.Linear(64, 3)), 1)
    distance, _ = apart(tmp_path, sums, model, (x, y), (extra, y[:1]), units=40)
    # `apart` asserts that the backends are the same.
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


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_body_that_is_not_finite_is_nobodys_writing(value: float, tmp_path: Path) -> None:
    """A neighbor may send one; the peer's own code has not done it."""
    train = TensorDataset(torch.rand(80, 6), torch.arange(80) % 3)
    learner = sampled(
        Task(model=nn.Linear(6, 3), head=(), train=train, test=train), tmp_path, "fedavg", rate=1.0, noise=5.0
    )
    with torch.no_grad():
        learner.trainer.model.data[3] = value
    learner.train(0)
    learner.evaluate()


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


def stages() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(8, 16), nn.Identity(), nn.Linear(16, 16), nn.Identity(), nn.Linear(16, 3, bias=False)
    )


def test_a_group_whose_values_overflow_counts_for_no_more_than_itself(tmp_path: Path, sums: list[np.ndarray]) -> None:
    """With a neighbor's body its gradient is a product of numbers of float32 that is none, though it has a length."""
    x, y = torch.randn(66, 8, generator=torch.Generator().manual_seed(0)), torch.arange(66) % 3
    x[2:, 0] = 0.0

    def hostile(model: nn.Module) -> None:
        model[0].weight.zero_()
        model[0].weight[0, 0] = 1e21
        model[2].weight.zero_()
        model[4].weight.mul_(1e20)

    distance, backend = apart(
        tmp_path, sums, stages, (x[2:], y[2:]), (x[:2], y[:2]), units=64, groups=np.arange(66) // 2, hostile=hostile
    )
    assert backend is by_layers
    assert distance <= 1.0, "and finite"


@pytest.mark.parametrize("microbatch", [4, 64])
def test_a_group_that_is_not_finite_changes_no_other_one(
    microbatch: int, tmp_path: Path, sums: list[np.ndarray]
) -> None:
    """Each group has a huge record, which counts for nothing whoever stands beside it in memory."""
    x, y = small_task(samples=62).train.tensors
    x[::2] *= 1e25
    x[60:] = math.nan
    one, other = (
        summed(
            tmp_path / str(count), sums, TensorDataset(x[:count], y[:count]), small_task().model,
            groups=np.arange(count) // 2, microbatch=microbatch, units=32,
        )[0]
        for count in (60, 62)
    )  # fmt: skip
    assert np.linalg.norm(one - other) <= CLIP_NORM


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
    assert learner.trainer.source.private_gradient.backends["model"] is not by_layers


@pytest.mark.parametrize(("places", "inputs", "outputs"), [(9, 13, 30), (15, 21, 31)])
def test_lengths_of_series_that_cancel_do_not_depend_on_places(places: int, inputs: int, outputs: int) -> None:
    """What is left of a length where its terms cancel by a million would show the last bits of the products."""
    generator = torch.Generator().manual_seed(0)
    left, right = torch.randn(places, outputs, generator=generator), torch.rand(places, inputs, generator=generator)
    left[1::2] = -left[: places - places % 2 : 2]
    right[1::2] = right[: places - places % 2 : 2] * (1 + 1e-6)
    part = SequenceGradients(left.expand(64, -1, -1), right.expand(64, -1, -1))
    found = ExampleGradients(
        torch.zeros(64), [(slice(0, inputs * outputs), part)], 64, inputs * outputs
    ).norms()  # fmt: skip
    assert len(set(found.tolist())) == 1


def longest_first(samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
    """As packed sequences want them; all of one length, so that a batch can be cut."""
    ordered = sorted(samples, key=lambda one: -len(one[0]))
    inputs = torch.stack([functional.pad(one, (0, 0, 0, 12 - len(one))) for one, _ in ordered])
    return inputs, torch.tensor([target for _, target in ordered])


def test_a_collate_that_sorts_puts_no_record_into_another_patients_group(
    tmp_path: Path, sums: list[np.ndarray]
) -> None:
    generator = torch.Generator().manual_seed(0)

    def sequence_gradients(count: int) -> list[tuple[Tensor, int]]:
        lengths = torch.randint(1, 12, (count,), generator=generator).tolist()
        return [(torch.randn(length, 8, generator=generator), number % 3) for number, length in enumerate(lengths)]

    model = seeded(lambda: nn.Sequential(nn.Flatten(), nn.Linear(96, 3)))
    rows, groups = sequence_gradients(200), np.arange(200) // 2
    extra, whose = sequence_gradients(100), np.full(100, -1)
    one, _ = summed(tmp_path / "0", sums, Rows(rows), model(), collate=longest_first, groups=groups)
    both, all_groups = Rows(extra + rows), np.concatenate([whose, groups])
    other, _ = summed(tmp_path / "1", sums, both, model(), collate=longest_first, groups=all_groups)
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

    one, other = (
        summed(tmp_path / str(leave), sums, Rows(rows[leave:]), hostile(), collate=centered)[0] for leave in (0, 1)
    )
    assert np.linalg.norm(one - other) <= CLIP_NORM


@pytest.mark.parametrize(("kind", "at"), [("images", 0), ("numbers", 20), ("mappings", 40)])
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

    with pytest.raises(TaskError):
        summed(tmp_path, sums, Rows([*rows[:at], extra, *rows[at:]]), OfBytes(), loss=loss, collate=collate)


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
    monkeypatch.setattr("dpeer.training.dpsgd.private_minibatches.Keystream", Counted)
    inputs = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    rows = [(one, number % 3) for number, one in enumerate([*inputs, torch.full((8,), 3.0)])]
    more: dict[str, Any] = {"augment": shifted} if function == "augment" else {"collate": into_workspace}
    model = seeded(lambda: nn.Sequential(nn.Linear(8, 3)))
    one, other = (summed(tmp_path / str(end), sums, Rows(rows[:end]), model(), **more)[0] for end in (64, 65))
    assert 0.5 * CLIP_NORM < np.linalg.norm(one - other) <= CLIP_NORM


class Counted:
    """Numbers for augmentation that are the same each time."""

    def words(self, start: int, count: int) -> np.ndarray:
        return np.arange(start, start + count, dtype=np.uint64)

    def forget(self) -> None:
        pass
