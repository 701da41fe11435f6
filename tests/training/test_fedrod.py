"""FedRoD (linear) against a plain torch computation, what stays at home, and what it refuses."""

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from dpeer.exceptions import TaskError
from dpeer.training import Hyperparameters, Task, TorchLearner, build_learner
from dpeer.training.batch_loader import batch_order

SIZE, SAMPLES, CLASSES, SEED = 4, 22, 4, 5
LACKS = {1: (2,), 3: (0, 1)}
"""Classes without a sample, by rank."""
H = Hyperparameters(body_lr=0.1, head_lr=0.23, momentum=0.9, lr_decay=0.9, body_epochs=2, batch_size=8, grad_clip=None)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(6, 5)
        self.fc = nn.Linear(5, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc(torch.tanh(self.body(x)))
        return out


def net(kind: Callable[[], nn.Module] = Net) -> nn.Module:
    torch.manual_seed(SEED)
    return kind()


def data(rank: int) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng([rank, 2])
    labels = rng.choice([c for c in range(CLASSES) if c not in LACKS.get(rank, ())], SAMPLES)
    inputs = rng.normal(size=(SAMPLES, 6)) + 1.5 * np.eye(CLASSES, 6)[labels]
    return torch.tensor(inputs, dtype=torch.float32), torch.tensor(labels)


def task_of(rank: int = 0, **changes: Any) -> Task:
    settings: dict[str, Any] = {"model": net(), "head": ("fc",)}
    settings["train"] = settings["test"] = TensorDataset(*data(rank))
    return Task(**(settings | changes))


def learner(rank: int = 0, h: Hyperparameters = H, **changes: Any) -> TorchLearner:
    return build_learner(task_of(rank, **changes), "fedrod", h, rank=rank, seed=SEED)


class Plain:
    """A client in float64: its generic model and its personal head, two ordinary modules with torch.optim.SGD."""

    def __init__(self, rank: int) -> None:
        self.rank, self.generic = rank, net().double()
        self.own = copy.deepcopy(self.generic.fc)
        self.x, self.y = data(rank)
        self.x = self.x.double()
        # Written out, and infinite for classes without samples.
        self.prior = torch.tensor([math.log(n) if n else -math.inf for n in torch.bincount(self.y, minlength=CLASSES)])

    def train(self, number: int) -> float:
        decay = H.lr_decay**number
        generic = torch.optim.SGD(self.generic.parameters(), lr=H.body_lr * decay, momentum=H.momentum)
        personal = torch.optim.SGD(self.own.parameters(), lr=H.head_lr * decay, momentum=H.momentum)
        for epoch in range(H.body_epochs):
            losses = 0.0
            for rows in batch_order(SAMPLES, SEED, self.rank, number, "model", epoch).split(H.batch_size):
                features = torch.tanh(self.generic.body(self.x[rows]))
                logits = self.generic.fc(features)
                balanced = cross_entropy(logits + self.prior, self.y[rows])
                both = cross_entropy(logits.detach() + self.own(features.detach()), self.y[rows])
                generic.zero_grad()
                personal.zero_grad()
                balanced.backward()
                both.backward()
                generic.step()
                personal.step()
                losses += both.item() * len(rows)
        return losses / SAMPLES

    def logits(self) -> Tensor:
        with torch.no_grad():
            features = torch.tanh(self.generic.body(self.x))
            total: Tensor = self.generic.fc(features) + self.own(features)
        return total


def ring_row(rank: int) -> dict[int, float]:
    return {j % SIZE: 1 / 3 for j in (rank - 1, rank, rank + 1)}


def test_two_rounds_are_those_of_plain_torch(tmp_path: Path) -> None:
    learners, clients = [learner(rank) for rank in range(SIZE)], [Plain(rank) for rank in range(SIZE)]
    for number in range(2):
        for ours, client in zip(learners, clients, strict=True):
            assert ours.train(number) == pytest.approx(client.train(number), rel=1e-4)
        sent = [ours.release(number) or [] for ours in learners]
        states = [copy.deepcopy(client.generic.state_dict()) for client in clients]
        for rank, (ours, client) in enumerate(zip(learners, clients, strict=True)):
            row = ring_row(rank)
            assert [ours.check(j, sent[j]) for j in row] == [None] * 3
            ours.mix({j: sent[j] for j in row if j != rank}, row)
            client.generic.load_state_dict({k: sum(w * states[j][k] for j, w in row.items()) for k in states[rank]})
    for ours, client in zip(learners, clients, strict=True):
        for name, value in client.generic.state_dict().items():
            torch.testing.assert_close(ours.trainer.module.state_dict()[name].double(), value, rtol=0, atol=1e-5)
        for name, value in client.own.state_dict().items():
            torch.testing.assert_close(ours.algorithm._personal.now()[name].double(), value, rtol=0, atol=1e-5)

        # What predicts is the sum of both logits: in the evaluation, and in a file that the user's own model loads.
        logits = client.logits()
        found = ours.evaluate()
        assert found.test_loss == pytest.approx(cross_entropy(logits, client.y).item(), rel=1e-4)
        assert found.accuracy == pytest.approx((logits.argmax(dim=1) == client.y).double().mean().item())
        ours.write_model(tmp_path / "model")
        fresh = Net()
        fresh.load_state_dict(load_file(tmp_path / "model"))
        with torch.no_grad():
            torch.testing.assert_close(fresh(client.x.float()).double(), logits, rtol=0, atol=2e-5)


def test_an_absent_class_costs_nothing_and_leaves_its_generic_logit_alone() -> None:
    for rank, absent in LACKS.items():
        ours = learner(rank)
        before = copy.deepcopy(ours.trainer.module.state_dict())
        loss = ours.train(0)
        assert loss is not None
        assert math.isfinite(loss)
        after, own = ours.trainer.module.state_dict(), ours.algorithm._personal.now()
        assert all(torch.isfinite(value).all() for value in (*after.values(), *own.values()))
        for c in range(CLASSES):
            for name in ("fc.weight", "fc.bias"):
                assert torch.equal(after[name][c], before[name][c]) == (c in absent)
            # The personal loss is an ordinary one, and learns that the class is not there.
            assert not torch.equal(own["weight"][c], before["fc.weight"][c])


def test_the_payload_is_the_generic_model_and_nothing_else() -> None:
    ours = learner(1)
    ours.train(0)
    payload = b"".join(bytes(buffer) for buffer in ours.release(0) or [])
    model = torch.cat([p.detach().reshape(-1) for p in ours.trainer.module.parameters()])
    assert payload == model.numpy().astype("<f4").tobytes()
    counts = np.bincount(data(1)[1].numpy(), minlength=CLASSES)
    assert counts[2] == 0
    for kind in ("<i4", "<i8", "<f4", "<f8"):
        assert counts.astype(kind).tobytes() not in payload
    assert np.log(counts[0]).astype("<f4").tobytes() not in payload
    own = torch.cat([p.reshape(-1) for p in ours.algorithm._personal.now().values()])
    assert not set(own.tolist()) & set(np.frombuffer(payload, "<f4").tolist())
    assert ours.payload_bytes == len(payload)
    assert (ours.body_parameters, ours.head_parameters) == (model.numel(), own.numel())


def test_evaluating_and_writing_leave_the_generic_model_alone(tmp_path: Path) -> None:
    ours = learner()
    ours.train(0)
    before = ours.body
    ours.evaluate()
    ours.write_model(tmp_path / "model")
    assert torch.equal(ours.body, before)


class Scaled(Net):
    """Does something to what the head gives."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


class Twice(Net):
    """Uses the head twice a batch."""

    def forward(self, x: Tensor) -> Tensor:
        super().forward(x)
        return super().forward(x)


class Deep(nn.Module):
    """A head of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(6, 5)
        self.fc = nn.Sequential(nn.Linear(5, 5), nn.Linear(5, CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc(self.body(x))
        return out


def floats(rank: int = 0) -> TensorDataset:
    x, y = data(rank)
    return TensorDataset(x, y.float())


def too_many_classes() -> TensorDataset:
    x, y = data(0)
    return TensorDataset(x, y + CLASSES)


REFUSED: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "two prefixes": (lambda: {"head": ("body", "fc")}, "one torch.nn.Linear module.*'body', 'fc'"),
    "a parameter": (lambda: {"head": ("fc.weight",)}, "one torch.nn.Linear module.*'fc.weight'"),
    "no head": (lambda: {"head": ()}, "one torch.nn.Linear module.*empty"),
    "a sequence": (lambda: {"model": net(Deep)}, "one torch.nn.Linear module.*a Sequential: name the last layer"),
    "own loss": (lambda: {"loss": lambda o, y: cross_entropy(o, y)}, "loss of its own.*must not give one"),
    "float targets": (lambda: {"train": floats()}, "targets must be one class number"),
    "too many classes": (lambda: {"train": too_many_classes()}, "class 7 .*4 outputs"),
    "scaled": (lambda: {"model": net(Scaled)}, "returns what its head 'fc' gives"),
    "used twice": (lambda: {"model": net(Twice)}, "returns what its head 'fc' gives, once a batch"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_tasks_that_do_not_suit_are_refused_in_a_line(case: str) -> None:
    changes, message = REFUSED[case]
    with pytest.raises(TaskError, match=message) as caught:
        learner(**changes()).train(0)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_frozen_head_is_refused() -> None:
    model = net()
    model.fc.bias.requires_grad_(False)
    with pytest.raises(TaskError, match="all of it trained"):
        learner(model=model)
