"""What a task remembers in attributes is found, and refused before anything is trained."""

import itertools
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

from dpeer.exceptions import TaskError
from dpeer.training import Task
from dpeer.training.dpsgd.gradient_factors import lengths_of
from dpeer.training.dpsgd.state import remembered
from tests.training.sampling import sampled


class Lazy(nn.Module):
    """Sets what it subtracts from the first batch that it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.mean: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.mean is None:
            self.mean = x.detach().mean(0)
        return x - self.mean


class Averaging(nn.Module):
    """Keeps a moving average in a list in an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = [0.0]

    def forward(self, x: Tensor) -> Tensor:
        self.seen[0] = 0.9999 * self.seen[0] + 1e-4 * float(x.detach().abs().mean())
        return x - self.seen[0]


class InEvaluation(nn.Module):
    """Remembers what it is evaluated on."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = 0.0

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            self.shift = float(x.max())
        return x - self.shift


class Constant(nn.Module):
    """Has attributes of all kinds, and changes none."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.names, self.table = 2.0, ["a"], torch.ones(6)
        self.me = [self]

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale * self.table


def task(layer: nn.Module, **more: Any) -> Task:
    rng = np.random.default_rng(0)
    data = TensorDataset(torch.tensor(rng.normal(size=(40, 6)), dtype=torch.float32), torch.arange(40) % 3)
    model = nn.Sequential(layer, nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    return Task(**({"model": model, "head": ("3",), "train": data, "test": data} | more))


@pytest.mark.parametrize("layer", [Lazy, Averaging, InEvaluation])
def test_a_layer_that_remembers_is_refused(layer: Callable[[], nn.Module], tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=f"{layer.__name__} '0'"):
        sampled(task(layer()), tmp_path)


def test_a_layer_that_remembers_nothing_is_not(tmp_path: Path) -> None:
    sampled(task(Constant()), tmp_path).train(0)


class Scaled:
    """A loss that is scaled by the first one it gave."""

    def __init__(self) -> None:
        self.scale: float | None = None

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        loss = nn.functional.cross_entropy(outputs, targets)
        self.scale = self.scale or float(loss.detach())
        return loss / self.scale


def remembering_augment() -> Any:
    seen: list[Tensor] = []

    def augment(inputs: Tensor, generator: Any) -> Tensor:
        seen.append(inputs)
        return inputs + seen[0].mean()

    return augment


@pytest.mark.parametrize("more", [{"loss": Scaled()}, {"augment": remembering_augment()}])
def test_so_are_functions_that_remember(more: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="keep nothing"):
        sampled(task(nn.Identity(), **more), tmp_path)


class Calibrated(nn.Module):
    """A loss that is a module, and counts in a place of its own what it has seen in its first calls."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))
        self.queue: Any = deque([0.0])
        self.slot = Slotted()
        self.place = place

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        size = 1e-4 * float(outputs.detach().abs().mean())
        match self.place:
            case "buffer":
                self.seen += size
            case "deque":
                self.queue[0] += size
            case "slot":
                self.slot.seen += size
            case "global":
                KEPT["seen"] = KEPT.get("seen", 0.0) + size
        return nn.functional.cross_entropy(outputs, targets)


class Slotted:
    """Has no attributes but one."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen = 0.0


KEPT: dict[str, float] = {}


class Watched(nn.Module):
    """A layer that writes to a dictionary of its file."""

    def forward(self, x: Tensor) -> Tensor:
        KEPT["layer"] = KEPT.get("layer", 0.0) + 1e-4 * float(x.detach().abs().mean())
        return x


@pytest.mark.parametrize("place", ["buffer", "deque", "slot"])
def test_a_loss_that_is_a_module_is_looked_at(place: str, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="keep nothing"):
        sampled(task(nn.Identity(), loss=Calibrated(place)), tmp_path)


def test_a_layer_that_writes_to_its_file_or_has_a_hook_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="keep nothing"):
        sampled(task(Watched()), tmp_path / "a")
    hooked, seen = nn.Identity(), [0.0]
    hooked.register_forward_hook(lambda layer, given, gave: seen.append(float(gave.detach().sum())))
    with pytest.raises(TaskError, match="keep nothing"):
        sampled(task(hooked), tmp_path / "b")


def test_one_example_that_is_like_no_other_is_looked_at(tmp_path: Path) -> None:
    """The batch's largest value matters only where it is beyond what nearly all batches have."""

    class Shared(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x / max(1.0, float(x.detach().abs().max()) / 10)

    inputs = torch.randn(400, 6, generator=torch.Generator().manual_seed(0))
    inputs[123, 2] = 500.0
    data = TensorDataset(inputs, torch.arange(400) % 3)
    with pytest.raises(TaskError, match="batch"):
        sampled(task(Shared(), train=data), tmp_path)


def test_padding_that_depends_on_others_is_refused(tmp_path: Path) -> None:
    rows = [(torch.ones(10 if number else 30), number % 3) for number in range(40)]

    def long(samples: list[Any]) -> tuple[Tensor, Tensor]:
        length = max(len(one) for one, _ in samples)
        padded = torch.stack([nn.functional.pad(one, (0, length - len(one))) for one, _ in samples])
        return padded, torch.tensor([target for _, target in samples])

    class Mean(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.mean(1, keepdim=True) * torch.ones(6)

    with pytest.raises(TaskError, match="pad to a fixed length"):
        sampled(task(Mean(), train=rows, test=rows, collate=long), tmp_path)


def test_lengths_of_millions_of_equal_values_are_exact() -> None:
    """Squares of float32 add up to 0.3 % too little here, which is more than clipping leaves for rounding."""
    values = torch.full((1, 5_000_000), 0.1)
    expected = float(np.float32(0.1)) * np.sqrt(5e6)
    assert lengths_of(values).item() == pytest.approx(expected, rel=1e-9)
    assert lengths_of(torch.full((1, 4), 1e30)).item() == pytest.approx(2e30, rel=1e-6)


def test_what_is_remembered_is_compared_by_value() -> None:
    one, other = Constant(), Constant()
    assert remembered(one, []) == remembered(other, [])
    other.table[0] = 3.0
    assert remembered(one, []) != remembered(other, [])


class InItsClass(nn.Module):
    """Keeps what it has seen for all layers of its kind."""

    seen: ClassVar[list[float]] = [0.0]

    def forward(self, x: Tensor) -> Tensor:
        self.seen[0] += 1e-4 * float(x.detach().abs().mean())
        return x - self.seen[0]


class Helped(nn.Module):
    """Calls a function of its file, which counts."""

    def forward(self, x: Tensor) -> Tensor:
        return count(x)


CALLS = 0


def count(x: Tensor) -> Tensor:
    global CALLS
    CALLS += 1
    return x * (1 + 1e-4 * CALLS)


class OwnNumbers(nn.Module):
    """Draws from a generator of its own, so its noise depends on how many were drawn before."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = torch.Generator().manual_seed(0)

    def forward(self, x: Tensor) -> Tensor:
        return x + 1e-4 * torch.rand(1, generator=self.numbers)


@pytest.mark.parametrize("layer", [InItsClass, Helped, OwnNumbers])
def test_what_stands_in_a_class_a_file_or_a_generator_is_looked_at(layer: Any, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=f"{layer.__name__} '0'.* has changed"):
        sampled(task(layer()), tmp_path)


def augment_with_numbers_of_its_own() -> Any:
    numbers = np.random.default_rng(0)
    return lambda inputs, generator: inputs + numbers.normal()


def test_an_augmentation_with_a_generator_of_its_own_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="keep nothing"):
        sampled(task(nn.Identity(), augment=augment_with_numbers_of_its_own()), tmp_path)


class Reading(Dataset[Any]):
    """Gives rows of its own by code of its own."""

    def __init__(self) -> None:
        self.rows = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
        self.numbers, self.reads, self.cache = np.random.default_rng(0), 0, {}
        self.last: Tensor | None = None

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.row(index), index % 3

    def row(self, index: int) -> Tensor:
        return self.rows[index]


class Counting(Reading):
    """Scales by how often it was read."""

    def row(self, index: int) -> Tensor:
        self.reads += 1
        return self.rows[index] * (1 + 1e-6 * self.reads)


class Drawing(Reading):
    """Changes rows at random, by a generator of its own."""

    def row(self, index: int) -> Tensor:
        return self.rows[index] + float(self.numbers.normal())


class Following(Reading):
    """Gives the difference to the row that was read before."""

    def row(self, index: int) -> Tensor:
        before, self.last = self.last, self.rows[index]
        return self.rows[index] - (0 if before is None else 0.1 * before)


class Hiding(Reading):
    """Keeps what it has read where no attribute shows it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = itertools.count()

    def row(self, index: int) -> Tensor:
        return self.rows[index] * (1 + 1e-6 * next(self.calls))


class Caching(Reading):
    """Opens itself when it is first read, and keeps rows to have them at hand, which changes nothing."""

    opened = False

    def row(self, index: int) -> Tensor:
        type(self).opened, self.last = True, self.rows
        return self.cache.setdefault(index, self.rows[index].clone())


@pytest.mark.parametrize("kind", [Counting, Drawing, Following, Hiding])
def test_data_whose_rows_depend_on_what_was_read_before_are_refused(kind: type[Reading], tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"keep nothing|give other values for an example"):
        sampled(task(nn.Identity(), train=kind()), tmp_path)


def test_data_that_keep_what_they_have_read_are_not(tmp_path: Path) -> None:
    data = Caching()
    sampled(task(nn.Identity(), train=data), tmp_path).train(0)
    assert data.cache


def test_of_large_arrays_a_part_is_looked_at() -> None:
    """64 MB would take a tenth of a second, at every start."""
    large = np.zeros(2**24, dtype=np.float32)
    before = remembered(None, [[large]])
    large += 1
    assert remembered(None, [[large]]) != before
