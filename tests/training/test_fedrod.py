"""FedRoD, its personal head linear or made by a hypernetwork, against torch in float64; and what its messages tell."""

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from dpeer.training import Hyperparameters, Task, TorchLearner, build_learner
from dpeer.training.batch_loader import batch_order
from tests.training.small import floats, left_out, mix

Array = NDArray[np.float64]
SIZE, SAMPLES, CLASSES, FEATURES, INPUTS, HIDDEN, SEED = 3, 21, 4, 5, 6, 7, 5
LACKS = {1: (2,), 2: (0, 1)}
"""Classes without a sample, by rank."""
W = np.array([[0.5, 0.2, 0.3], [0.1, 0.6, 0.3], [0.25, 0.25, 0.5]])
H = Hyperparameters(body_lr=0.1, head_lr=0.23, momentum=0.9, lr_decay=0.9, body_epochs=2, batch_size=8, grad_clip=None)
LINEAR: dict[str, Any] = {}
OPTIONS = {"personal": "hypernetwork", "hidden": HIDDEN}


class Net(nn.Module):
    def __init__(self, bias: bool = True) -> None:
        super().__init__()
        self.body = nn.Linear(INPUTS, FEATURES)
        self.fc = nn.Linear(FEATURES, CLASSES, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc(torch.tanh(self.body(x)))
        return out


def net(bias: bool = True) -> Net:
    torch.manual_seed(SEED)
    return Net(bias)


def data(rank: int) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng([rank, 2])
    labels = rng.choice([c for c in range(CLASSES) if c not in LACKS.get(rank, ())], SAMPLES)
    inputs = rng.normal(size=(SAMPLES, INPUTS)) + 1.5 * np.eye(CLASSES, INPUTS)[labels]
    return torch.tensor(inputs, dtype=torch.float32), torch.tensor(labels)


def task_of(rank: int = 0, **changes: Any) -> Task:
    settings: dict[str, Any] = {"model": net(), "head": ("fc",)}
    settings["train"] = settings["test"] = TensorDataset(*data(rank))
    return Task(**(settings | changes))


def learner(
    rank: int = 0, h: Hyperparameters = H, options: Any = OPTIONS, seed: int = SEED, learns: Any = None, **changes: Any
) -> TorchLearner:
    return build_learner(task_of(rank, **changes), "fedrod", h, rank=rank, seed=seed, options=options, **(learns or {}))


def nu(ours: TorchLearner) -> Array:
    head = ours.algorithm.personal
    head.now()
    values: Array = head.trained.data.double().numpy().copy()
    return values


# The computation of its own.


class Client:
    """A client in float64.

    Attributes:
        nu: The hypernetwork, which is kept and averaged as it is; or the weight and bias of a linear head.
    """

    def __init__(self, rank: int, h: Hyperparameters, bias: bool, linear: bool) -> None:
        self.rank, self.h, self.linear, self.net = rank, h, linear, net(bias).double()
        self.x, self.y = data(rank)[0].double(), data(rank)[1]
        counts = torch.bincount(self.y, minlength=CLASSES).double()
        self.prior, self.a = counts.log(), counts / SAMPLES
        outputs = CLASSES * (FEATURES + bias)
        rng = np.random.default_rng(np.random.SeedSequence(SEED, spawn_key=(17,)))
        shapes = {"u": (HIDDEN, CLASSES), "b": (HIDDEN,), "v": (outputs, HIDDEN), "c": (outputs,)}
        drawn = [
            torch.from_numpy(rng.uniform(-1, 1, shape) / np.sqrt(CLASSES if name in "ub" else HIDDEN))
            for name, shape in shapes.items()
        ]
        self.nu = [nn.Parameter(p.detach().clone()) for p in (self.net.fc.parameters() if linear else drawn)]

    def personal(self) -> tuple[Any, Any]:
        if self.linear:
            weight, bias = self.nu
            return weight, bias
        u, b, v, c = self.nu
        made = v @ torch.relu(u @ self.a + b) + c
        weight, bias = made[: CLASSES * FEATURES].view(CLASSES, FEATURES), made[CLASSES * FEATURES :]
        return weight, bias if len(bias) else 0.0

    def logits(self, rows: Any = slice(None)) -> tuple[Tensor, Tensor]:
        """Of the generic head, and of the personal one, whose gradient leaves the body alone."""
        f = torch.tanh(self.net.body(self.x[rows]))
        weight, bias = self.personal()
        return self.net.fc(f), f.detach() @ weight.T + bias

    def train(self, number: int) -> float:
        h, decay = self.h, self.h.lr_decay**number
        parts = [[*self.net.parameters()], self.nu]
        rates = (h.body_lr * decay, h.head_lr * decay)
        groups = [{"params": part, "lr": lr} for part, lr in zip(parts, rates, strict=True)]
        optimizer = torch.optim.SGD(groups, momentum=h.momentum, weight_decay=h.weight_decay)
        for epoch in range(h.body_epochs):
            losses = 0.0
            for rows in batch_order(SAMPLES, SEED, self.rank, number, "model", epoch).split(h.batch_size):
                optimizer.zero_grad()
                shared, own = self.logits(rows)
                loss = cross_entropy(shared.detach() + own, self.y[rows])
                (cross_entropy(shared + self.prior, self.y[rows]) + loss).backward()
                for part in parts if h.grad_clip is not None else ():
                    nn.utils.clip_grad_norm_(part, h.grad_clip)
                optimizer.step()
                losses += loss.item() * len(rows)
        return losses / SAMPLES


def average(parts: list[list[nn.Parameter]]) -> None:
    sent = [[p.detach().clone() for p in part] for part in parts]
    for row, part in zip(W.tolist(), parts, strict=True):
        for place, p in enumerate(part):
            p.data.copy_(sum(w * theirs[place] for w, theirs in zip(row, sent, strict=True)))


def exchange(learners: list[TorchLearner], number: int) -> None:
    sent = [ours.release(number) or [] for ours in learners]
    for rank, ours in enumerate(learners):
        others = {j: sent[j] for j in range(SIZE) if j != rank}
        assert [left_out(ours, j, payload) for j, payload in others.items()] == [None] * (SIZE - 1)
        mix(ours, others, dict(enumerate(W[rank].tolist())))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "bias"),
    [({}, True), ({"weight_decay": 0.03, "momentum": 0.5, "grad_clip": 0.3}, False)],
    ids=["momentum", "weight decay, clipped, no bias"],
)
@pytest.mark.parametrize("options", [LINEAR, OPTIONS], ids=["linear", "hypernetwork"])
def test_three_rounds_of_three_peers_are_those_of_the_paper(
    options: dict[str, Any], changes: dict[str, Any], bias: bool, tmp_path: Path
) -> None:
    h, linear = H.model_copy(update=changes), options is LINEAR
    bias = bias or linear
    learners = [learner(rank, h, options, model=net(bias)) for rank in range(SIZE)]
    clients = [Client(rank, h, bias, linear) for rank in range(SIZE)]
    for number in range(3):
        for ours, client in zip(learners, clients, strict=True):
            assert ours.train(number) == pytest.approx(client.train(number), rel=1e-4)
            near(ours, client, tmp_path)
        exchange(learners, number)
        average([[*client.net.parameters()] for client in clients])
        if not linear:
            average([client.nu for client in clients])
    for ours, client in zip(learners, clients, strict=True):
        near(ours, client, tmp_path)


def near(ours: TorchLearner, client: Client, folder: Path) -> None:
    """Both models, nu, and what predicts: in the evaluation, and in a file that the user's own model loads."""
    for name, value in client.net.state_dict().items():
        found = ours.trainer.module.state_dict()[name].double()
        torch.testing.assert_close(found, value, rtol=0, atol=1e-5)
    expected = torch.cat([part.detach().reshape(-1) for part in client.nu]).numpy()
    np.testing.assert_allclose(nu(ours), expected, rtol=0, atol=1e-5)

    logits = sum(client.logits()).detach()
    found = ours.evaluate()
    assert found.test_loss == pytest.approx(cross_entropy(logits, client.y).item(), rel=1e-4)
    assert found.accuracy == pytest.approx((logits.argmax(dim=1) == client.y).double().mean().item())
    ours.write_model(folder / "model")
    fresh = net(client.net.fc.bias is not None)
    fresh.load_state_dict(load_file(folder / "model"))
    with torch.no_grad():
        torch.testing.assert_close(fresh(client.x.float()).double(), logits, rtol=0, atol=3e-5)


# What leaves.


def test_the_payload_is_nus_change_and_the_generic_model() -> None:
    ours = learner(1)
    count = HIDDEN * (CLASSES + 1) + CLASSES * (FEATURES + 1) * (HIDDEN + 1)
    model = sum(parameter.numel() for parameter in ours.trainer.module.parameters())
    assert ours.about.manifest["extras"] == {"hypernetwork": count}
    counts = ours.about.body_parameters, ours.about.head_parameters, ours.about.shared_values
    assert counts == (model, 0, model + count)
    start = nu(ours)
    ours.train(0)
    sent = floats(ours.release(0))
    np.testing.assert_allclose(sent[:count], nu(ours) - start, rtol=0, atol=1e-7)
    assert np.array_equal(sent[count:], ours.body.numpy())
    assert ours.about.payload_bytes == 4 * len(sent)


def test_the_payload_is_the_generic_model_and_nothing_else() -> None:
    ours = learner(1, options=LINEAR)
    ours.train(0)
    model = torch.cat([p.detach().reshape(-1) for p in ours.trainer.module.parameters()])
    own = torch.cat([p.reshape(-1) for p in ours.algorithm.personal.now().values()])
    sent = floats(ours.release(0))
    assert np.array_equal(sent, model.numpy())
    assert not set(own.tolist()) & set(sent.tolist())
    assert (ours.about.body_parameters, ours.about.head_parameters) == (model.numel(), own.numel())


def test_an_absent_class_costs_nothing_and_leaves_its_generic_logit_alone() -> None:
    for rank, absent in LACKS.items():
        ours = learner(rank, options=LINEAR)
        before = copy.deepcopy(ours.trainer.module.state_dict())
        loss = ours.train(0)
        assert loss is not None
        assert math.isfinite(loss)
        after, own = ours.trainer.module.state_dict(), ours.algorithm.personal.now()
        assert all(torch.isfinite(value).all() for value in (*after.values(), *own.values()))
        for c in range(CLASSES):
            for name in ("fc.weight", "fc.bias"):
                assert torch.equal(after[name][c], before[name][c]) == (c in absent)
            # The personal loss is an ordinary one, and learns that the class is not there.
            assert not torch.equal(own["weight"][c], before["fc.weight"][c])


def test_the_change_tells_the_class_distribution() -> None:
    """This is what `leaves` and the pages warn of: no more is needed than one message of the first round."""
    for rank in range(SIZE):
        ours = learner(rank)
        ours.train(0)
        u = floats(ours.release(0))[: HIDDEN * CLASSES].reshape(HIDDEN, CLASSES)
        row = u[np.abs(u).max(axis=1).argmax()]
        shares = np.bincount(data(rank)[1].numpy(), minlength=CLASSES) / SAMPLES
        np.testing.assert_allclose(row / row.sum(), shares, rtol=0, atol=1e-4)
    assert "tells the class distribution" in ours.algorithm.leaves
    assert learner(options={}).algorithm.leaves == "the generic model"
