"""What a task's code keeps where nobody looks shows in what it computes, and ends the run before anything is sent."""

import array
import contextvars
import functools
import itertools
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

from dpeer.exceptions import TaskError
from dpeer.training import Task
from dpeer.training.dpsgd import sentinel
from tests.training.sampling import sampled


def in_a_generator() -> Callable[[float], float]:
    def largest() -> Generator[Any, float, None]:
        found = 0.0
        value = yield
        while True:
            found = max(found, value)
            value = yield found

    one = largest()
    next(one)
    return one.send


def in_a_cache() -> Callable[[float], float]:
    @functools.lru_cache
    def cell() -> list[float]:
        return [0.0]

    def largest(value: float) -> float:
        cell()[0] = max(cell()[0], value)
        return cell()[0]

    return largest


def in_an_array() -> Callable[[float], float]:
    kept = array.array("d", [0.0])

    def largest(value: float) -> float:
        kept[0] = max(kept[0], value)
        return kept[0]

    return largest


def in_bytes() -> Callable[[float], float]:
    kept = bytearray(1)

    def largest(value: float) -> float:
        kept[0] = max(kept[0], min(255, int(10 * value)))
        return kept[0] / 10

    return largest


def in_a_thread() -> Callable[[float], float]:
    kept = threading.local()

    def largest(value: float) -> float:
        kept.found = max(getattr(kept, "found", 0.0), value)
        return float(kept.found)

    return largest


def in_a_context() -> Callable[[float], float]:
    kept: contextvars.ContextVar[float] = contextvars.ContextVar("kept", default=0.0)

    def largest(value: float) -> float:
        kept.set(max(kept.get(), value))
        return kept.get()

    return largest


def in_a_counter() -> Callable[[float], float]:
    count = itertools.count(1)
    return lambda _: float(next(count))


def in_an_argument() -> Callable[[float], float]:
    def largest(kept: dict[str, float], value: float) -> float:
        kept["found"] = max(kept.get("found", 0.0), value)
        return kept["found"]

    return functools.partial(largest, {})


PLACES = [in_a_generator, in_a_cache, in_an_array, in_bytes, in_a_thread, in_a_context, in_a_counter, in_an_argument]


class Times(torch.autograd.Function):
    """The same value; its gradient is multiplied, so that no loss tells."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0] * ctx.factor, None


class Scaled(nn.Module):
    """Divides gradients by what somebody else says."""

    def __init__(self, scale: Callable[[float], float]) -> None:
        super().__init__()
        self.scale, self.out = scale, nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = Times.apply(self.out(x), 1 / (1 + self.scale(float(x.abs().max()))))
        return out


def data(size: float = 1.0, at: int = 0) -> TensorDataset:
    inputs = torch.rand(40, 6, generator=torch.Generator().manual_seed(0))
    inputs[at] *= size
    return TensorDataset(inputs, torch.arange(40) % 3)


def of(train: Any, model: nn.Module | None = None, **more: Any) -> Task:
    return Task(model=model or nn.Sequential(nn.Linear(6, 3)), head=(), train=train, test=train, **more)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("at", [0, 17])
def test_wherever_a_model_keeps_something_it_is_refused(
    place: Callable[[], Callable[[float], float]], at: int, tmp_path: Path
) -> None:
    with pytest.raises(TaskError, match=r"another gradient, at the same weights|has changed while"):
        sampled(of(data(10.0, at), Scaled(place())), tmp_path)


def test_what_is_kept_later_ends_the_run_before_anything_of_it_is_sent(tmp_path: Path) -> None:
    """A body that a neighbor sends may make a model keep what it never kept before."""
    kept = bytearray(1)

    class Late(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.out(x)
            if float(out.detach().abs().max()) > 1e6:
                kept[0] = 1
            return out * (1 + kept[0])

    learner = sampled(of(data(), Late()), tmp_path, "fedavg", rate=1.0)
    learner.train(0)
    with torch.no_grad():
        learner._trainer.model.data.mul_(1e8)
    sent = learner._trainer.model.data.clone()
    with pytest.raises(TaskError, match="another gradient, at the same weights"):
        learner.train(1)
    assert torch.equal(learner._trainer.model.data, sent)


def test_a_loss_beside_a_known_model_is_looked_at_too(tmp_path: Path) -> None:
    scale = in_bytes()

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return nn.functional.cross_entropy(outputs, targets) * (1 + scale(float(outputs.detach().abs().max())))

    with pytest.raises(TaskError, match="another gradient, at the same weights"):
        sampled(of(data(10.0), loss=loss), tmp_path)


def test_data_and_augmentations_are_looked_at_too(tmp_path: Path) -> None:
    class Rows(Dataset[Any]):
        def __init__(self) -> None:
            self.scale, self.rows = in_a_counter(), data()

        def __len__(self) -> int:
            return len(self.rows)

        def __getitem__(self, number: int) -> Any:
            inputs, target = self.rows[number]
            return inputs / self.scale(0.0), target

    with pytest.raises(TaskError, match=r"keep something|other values for an example"):
        sampled(of(Rows()), tmp_path / "data")
    scale = in_bytes()

    def augment(inputs: Tensor, generator: np.random.Generator) -> Tensor:
        noise = torch.from_numpy(generator.normal(size=tuple(inputs.shape)).astype(np.float32))
        return inputs + noise / (1 + scale(float(inputs.abs().max())))

    learner = sampled(of(data(10.0, at=17), augment=augment), tmp_path / "augment", rate=1.0)
    with pytest.raises(TaskError, match="keep something"):
        learner.train(0)


def test_a_collate_that_fits_itself_to_the_first_example_is_refused(tmp_path: Path) -> None:
    found: dict[str, float] = {}

    def collate(samples: list[Any]) -> tuple[Tensor, Tensor]:
        inputs, targets = zip(*samples, strict=True)
        largest = found.setdefault("largest", float(inputs[0].max()))
        return torch.stack(inputs) / largest, torch.stack(targets)

    with pytest.raises(TaskError, match="has changed while the model looked at examples"):
        sampled(of([data()[number] for number in range(40)], collate=collate), tmp_path)


def test_code_that_keeps_nothing_is_trained_and_compiled_code_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    found = sentinel.Sentinel._found

    def watched(self: sentinel.Sentinel) -> list[Tensor]:
        looks.append(1)
        return found(self)

    monkeypatch.setattr(sentinel.Sentinel, "_found", watched)
    calls = bytearray(1)

    class Warming(nn.Module):
        """Other last bits in its first calls, as code has that is compiled while it runs."""

        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Tensor:
            calls[0] = min(calls[0] + 1, 6)
            out: Tensor = self.out(x)
            return out * (1 + 1e-6) if calls[0] < 6 else out

    learner = sampled(of(data(), Warming()), tmp_path, "fedavg", rate=1.0)
    started = len(looks)
    learner.train(0)
    assert started >= 3
    assert len(looks) > started


def test_with_known_code_and_data_in_memory_nothing_is_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sentinel, "one_by_one", None)
    monkeypatch.setattr(sentinel, "cut", None)
    sampled(of(data()), tmp_path, "fedavg", rate=1.0).train(0)
