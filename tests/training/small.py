"""A small model, its task, and a hand-driven federation, for the tests of training/."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

from dpeer.training import Algorithm, Task, TorchLearner, Trainer
from dpeer.training.mixing.gossip import Gossip
from dpeer.training.mixing.weighted_sum import all_finite
from dpeer.training.payload import Payload
from dpeer.training.settings import WireDtype


class SmallNet(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
        self.drop = nn.Dropout(dropout) if dropout else nn.Identity()
        self.fc = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc(self.drop(self.body(x)))
        return out


class NormedNet(nn.Module):
    """Dropout, batch statistics in the head `norm` and `fc`, and a frozen parameter; from seed 1."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.body = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3))
        self.norm, self.fc = nn.BatchNorm1d(8), nn.Linear(8, 3)
        self.frozen = nn.Parameter(torch.ones(8), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc(self.norm(self.body(x) * self.frozen))
        return out


class Preprocessed(nn.Module):
    """A linear layer, and something before it."""

    def __init__(self, before: Callable[[Tensor], Tensor], inputs: int = 4) -> None:
        super().__init__()
        self.before, self.out = before, nn.Linear(inputs, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.out(self.before(x))
        return out


class RunningMean(nn.Module):
    """Keeps a running mean of what it sees."""

    def __init__(self, inputs: int = 4) -> None:
        super().__init__()
        self.out = nn.Linear(inputs, 3)
        self.register_buffer("mean", torch.zeros(inputs))

    def forward(self, x: Tensor) -> Tensor:
        self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        out: Tensor = self.out(x - self.mean)
        return out


class BodyOnly(Algorithm):
    """Trains the body for an epoch, and shares it."""

    shares = "body"

    def train(self, peer: Trainer) -> None:
        peer.fit(peer.body, epochs=1, lr=0.1)


def small_task(rank: int = 0, *, dropout: float = 0.0, samples: int = 50, **changes: Any) -> Task:
    """Three noisy classes in six dimensions, other data on each rank."""
    torch.manual_seed(0)
    model = SmallNet(dropout)
    rng = np.random.default_rng(rank)

    def data(count: int) -> TensorDataset:
        labels = rng.integers(0, 3, count)
        inputs = rng.normal(size=(count, 6)) + np.eye(3, 6)[labels] * 2
        return TensorDataset(torch.tensor(inputs, dtype=torch.float32), torch.tensor(labels))

    settings: dict[str, Any] = {"model": model, "head": ("fc",), "train": data(samples), "test": data(30)}
    return Task(**(settings | changes))


def gossip(
    learners: Sequence[TorchLearner],
    rounds: int,
    *,
    start: int = 0,
    evaluate: bool = False,
    weights: Any = None,
) -> None:
    """Run rounds of train, release and mix by hand; W defaults to a ring with weights 1/3."""
    size = len(learners)
    if weights is None:
        weights = np.zeros((size, size))
        for i in range(size):
            for j in (i - 1, i, i + 1):
                weights[i, j % size] = 1 / 3
    for number in range(start, start + rounds):
        for learner in learners:
            learner.train(number)
        sent = [learner.release(number) for learner in learners]
        for i, learner in enumerate(learners):
            if learner.about.shares:
                row = {j: float(w) for j, w in enumerate(weights[i]) if w}
                mix(learner, {j: sent[j] for j in row if j != i}, row)
            if evaluate:
                learner.evaluate()


def mix(learner: TorchLearner, received: Mapping[int, Payload], row: Mapping[int, float]) -> None:
    """Mix all of these payloads by these weights."""
    assert learner.mix_sound(received, lambda ranks: row) == {}


def left_out(ours: TorchLearner | Gossip, rank: int, payload: Payload) -> str | None:
    """Why no mix takes a payload of this rank; None if it does."""
    body = (ours.gossip if isinstance(ours, TorchLearner) else ours)._decoded(rank, payload)
    return body if isinstance(body, str) else None if all_finite(body) else "not-finite"


class Rows(Dataset[Any]):
    """What no library knows for tensors: rows of other data, of which something is made when they are asked for."""

    def __init__(self, data: Any, make: Callable[[Any], Any] = lambda row: row) -> None:
        self.data, self.make = data, make

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Any:
        return self.make(self.data[index])


def floats(payload: Any) -> np.ndarray:
    """What a payload of float32 says."""
    return np.frombuffer(b"".join(bytes(part) for part in payload or ()), "<f4").astype(np.float64)


DTYPES: dict[WireDtype, torch.dtype] = {
    "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16,
}  # fmt: skip


def normal(count: int, seed: int = 0) -> Tensor:
    """As many numbers of float32."""
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(count, dtype=np.float32))
