"""FedRoD, its personal head linear or made by a hypernetwork, against numpy; and what its messages tell."""

import copy
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from dpeer.exceptions import Interrupted
from dpeer.training import Hyperparameters, Task, TorchLearner, build_learner
from dpeer.training.batch_loader import batch_order
from dpeer.training.device import Compute
from tests.training.small import floats

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


def softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


class Client:
    """A client in float64, with gradients written out.

    Attributes:
        nu: The hypernetwork, which is kept and averaged as it is; or the weight and bias of a linear head.
    """

    def __init__(self, rank: int, h: Hyperparameters, bias: bool, linear: bool) -> None:
        self.rank, self.h, self.bias, self.linear = rank, h, bias, linear
        self.generic = {name: value.double().numpy().copy() for name, value in net(bias).state_dict().items()}
        self.x, self.y = data(rank)[0].double().numpy(), data(rank)[1].numpy()
        counts = np.bincount(self.y, minlength=CLASSES)
        with np.errstate(divide="ignore"):
            self.prior = np.log(counts)
        self.a = counts / SAMPLES
        outputs = CLASSES * (FEATURES + bias)
        rng = np.random.default_rng(np.random.SeedSequence(SEED, spawn_key=(17,)))
        shapes = {"u": (HIDDEN, CLASSES), "b": (HIDDEN,), "v": (outputs, HIDDEN), "c": (outputs,)}
        self.nu = {
            name: rng.uniform(-1, 1, shape) / np.sqrt(CLASSES if name in "ub" else HIDDEN)
            for name, shape in shapes.items()
        }
        if linear:
            self.nu = {name: self.generic[f"fc.{name}"].copy() for name in ("weight", "bias")}

    def personal(self) -> tuple[Array, Array]:
        if self.linear:
            return self.nu["weight"], self.nu["bias"]
        made = self.nu["v"] @ np.maximum(self.nu["u"] @ self.a + self.nu["b"], 0) + self.nu["c"]
        weight = made[: CLASSES * FEATURES].reshape(CLASSES, FEATURES)
        return weight, made[CLASSES * FEATURES :] if self.bias else np.zeros(CLASSES)

    def features(self, x: Array) -> Array:
        return np.asarray(np.tanh(x @ self.generic["body.weight"].T + self.generic["body.bias"]))

    def logits(self, f: Array) -> tuple[Array, Array]:
        weight, bias = self.personal()
        return f @ self.generic["fc.weight"].T + self.generic.get("fc.bias", 0), f @ weight.T + bias

    def gradients(self, rows: Array) -> tuple[dict[str, Array], dict[str, Array], float]:
        x, y = self.x[rows], np.eye(CLASSES)[self.y[rows]]
        f = self.features(x)
        shared, own = self.logits(f)
        d = (softmax(shared + self.prior) - y) / len(rows)
        before = (d @ self.generic["fc.weight"]) * (1 - f**2)
        generic = {"body.weight": before.T @ x, "body.bias": before.sum(0), "fc.weight": d.T @ f}
        generic |= {"fc.bias": d.sum(0)} if self.bias else {}

        likely = softmax(shared + own)
        loss = float(-np.log(likely[y == 1]).mean())
        d = (likely - y) / len(rows)
        if self.linear:
            return generic, {"weight": d.T @ f, "bias": d.sum(0)}, loss
        made = np.concatenate([(d.T @ f).ravel(), d.sum(0) if self.bias else np.zeros(0)])
        units = np.maximum(self.nu["u"] @ self.a + self.nu["b"], 0)
        inner = (self.nu["v"].T @ made) * (units > 0)
        nus = {"u": np.outer(inner, self.a), "b": inner, "v": np.outer(made, units), "c": made}
        return generic, nus, loss

    def train(self, number: int) -> float:
        h, decay = self.h, self.h.lr_decay**number
        parts = [(self.generic, h.body_lr * decay, {}), (self.nu, h.head_lr * decay, {})]
        for epoch in range(h.body_epochs):
            losses = 0.0
            for rows in batch_order(SAMPLES, SEED, self.rank, number, "model", epoch).split(h.batch_size):
                *gradients, loss = self.gradients(rows.numpy())
                losses += loss * len(rows)
                for gradient, (values, lr, velocity) in zip(gradients, parts, strict=True):
                    step(gradient, values, lr, velocity, h)
        return losses / SAMPLES


def step(
    gradient: Mapping[str, Array], values: dict[str, Array], lr: float, velocity: dict[str, Array], h: Hyperparameters
) -> None:
    length = np.sqrt(sum((g**2).sum() for g in gradient.values()))
    factor = 1.0 if h.grad_clip is None else min(1.0, h.grad_clip / length)
    for name in values:
        change = gradient[name] * factor + h.weight_decay * values[name]
        velocity[name] = h.momentum * velocity.get(name, 0) + change
        values[name] = values[name] - lr * velocity[name]


def mixed(parts: list[dict[str, Array]]) -> list[dict[str, Array]]:
    return [{name: sum(w * part[name] for w, part in zip(row, parts, strict=True)) for name in parts[0]} for row in W]


def exchange(learners: list[TorchLearner], number: int) -> None:
    sent = [ours.release(number) or [] for ours in learners]
    for rank, ours in enumerate(learners):
        others = {j: sent[j] for j in range(SIZE) if j != rank}
        assert [ours.check(j, payload) for j, payload in others.items()] == [None] * (SIZE - 1)
        ours.mix(others, dict(enumerate(W[rank].tolist())))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "bias"),
    [({}, True), ({"weight_decay": 0.03, "momentum": 0.5, "grad_clip": 0.3}, False)],
    ids=["momentum", "weight decay, clipped, no bias"],
)
@pytest.mark.parametrize("options", [LINEAR, OPTIONS], ids=["linear", "hypernetwork"])
def test_three_rounds_of_three_peers_are_those_of_numpy(
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
        generic, nus = mixed([client.generic for client in clients]), mixed([client.nu for client in clients])
        for client, model, values in zip(clients, generic, nus, strict=True):
            client.generic, client.nu = model, client.nu if linear else values
    for ours, client in zip(learners, clients, strict=True):
        near(ours, client, tmp_path)


def near(ours: TorchLearner, client: Client, folder: Path) -> None:
    """Both models, nu, and what predicts: in the evaluation, and in a file that the user's own model loads."""
    for name, value in ours.trainer.module.state_dict().items():
        np.testing.assert_allclose(value.numpy(), client.generic[name], rtol=0, atol=1e-5)
    expected = np.concatenate([values.ravel() for values in client.nu.values()])
    np.testing.assert_allclose(nu(ours), expected, rtol=0, atol=1e-5)

    logits = np.sum(client.logits(client.features(client.x)), axis=0)
    found = ours.evaluate()
    assert found.test_loss == pytest.approx(-np.log(softmax(logits)[range(SAMPLES), client.y]).mean(), rel=1e-4)
    assert found.accuracy == pytest.approx((logits.argmax(axis=1) == client.y).mean())
    ours.write_model(folder / "model")
    fresh = net(client.bias)
    fresh.load_state_dict(load_file(folder / "model"))
    with torch.no_grad():
        np.testing.assert_allclose(fresh(torch.tensor(client.x, dtype=torch.float32)), logits, rtol=0, atol=3e-5)


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
    payload = b"".join(bytes(buffer) for buffer in ours.release(0) or [])
    model = torch.cat([p.detach().reshape(-1) for p in ours.trainer.module.parameters()])
    assert payload == model.numpy().astype("<f4").tobytes()
    counts = np.bincount(data(1)[1].numpy(), minlength=CLASSES)
    assert counts[2] == 0
    for kind in ("<i4", "<i8", "<f4", "<f8"):
        assert counts.astype(kind).tobytes() not in payload
    assert np.log(counts[0]).astype("<f4").tobytes() not in payload
    own = torch.cat([p.reshape(-1) for p in ours.algorithm.personal.now().values()])
    assert not set(own.tolist()) & set(np.frombuffer(payload, "<f4").tolist())
    assert ours.about.payload_bytes == len(payload)
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


def test_all_peers_begin_with_one_nu_that_follows_from_the_seed() -> None:
    first = nu(learner(0))
    assert np.array_equal(first, nu(learner(1)))
    assert learner(0).about.digest == learner(1).about.digest
    assert not np.isclose(first, nu(learner(0, seed=SEED + 1))).any()
    hidden = HIDDEN * (CLASSES + 1)
    for layer, inputs in ((first[:hidden], CLASSES), (first[hidden:], HIDDEN)):
        assert 0.9 / np.sqrt(inputs) < np.abs(layer).max() <= 1 / np.sqrt(inputs)


# How it is computed.


def test_interrupted_training_keeps_the_steps_that_were_made() -> None:
    ours, expected = learner(), learner(h=H.model_copy(update={"local_steps": 2}))
    seen: list[int] = []

    def stop(*_: Any) -> None:
        seen.append(1)
        if len(seen) == 2:
            ours.interrupt()

    ours.trainer.module.body.register_forward_hook(stop)
    with pytest.raises(Interrupted):
        ours.train(0)
    expected.train(0)
    assert torch.equal(ours.trainer.shared.data, expected.trainer.shared.data)
    assert ours.trainer.extras["hypernetwork"].any()


def test_in_bfloat16_the_head_is_made_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, plain = learner(learns={"compute": Compute(amp="bf16")}), learner()
    head = ours.algorithm.personal
    made, types = head.made, set()

    def recorded() -> Mapping[str, Tensor]:
        found: Mapping[str, Tensor] = made()
        types.update(value.dtype for value in found.values())
        return found

    monkeypatch.setattr(head, "made", recorded)
    for one in (ours, plain):
        one.train(0)
    assert types == {torch.float32}
    assert not torch.equal(ours.body, plain.body)
    np.testing.assert_allclose(nu(ours), nu(plain), rtol=0, atol=0.05)
