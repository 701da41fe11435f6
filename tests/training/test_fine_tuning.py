"""Finishing at home, against the same steps written down once more in numpy and float64."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from dpeer.training import Hyperparameters, Task, TorchLearner, build_learner
from dpeer.training.batch_loader import batch_order
from dpeer.training.setting_texts import Finish, check_finish
from tests.training.small import mix, small_task

pytestmark = pytest.mark.slow

Vector = NDArray[np.float64]
SAMPLES, WIDTH, SEED = 22, 5, 3
RNG = np.random.default_rng(1)
X = RNG.normal(size=(SAMPLES, WIDTH))
Y = X @ RNG.normal(size=WIDTH) + 0.5
INPUTS = np.hstack([X, np.ones((SAMPLES, 1)), X])
HEAD = slice(0, WIDTH + 1)
"""The head's values stand before the body's, so that they are not the end of what an algorithm shares."""


class Net(nn.Module):
    """x . v + b + x . u, of which v and b are the head."""

    def __init__(self) -> None:
        super().__init__()
        self.v = nn.Linear(WIDTH, 1)
        self.u = nn.Linear(WIDTH, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = (self.u(x) + self.v(x)).squeeze(1)
        return out


def linear(algorithm: str, **changes: Any) -> TorchLearner:
    torch.manual_seed(SEED)
    dataset = TensorDataset(torch.tensor(X, dtype=torch.float32), torch.tensor(Y, dtype=torch.float32))
    loss = lambda outputs, targets: 0.5 * ((outputs - targets) ** 2).mean()  # noqa: E731
    task = Task(model=Net(), head=("v",), train=dataset, test=dataset, loss=loss)
    h = Hyperparameters(**({"batch_size": 8, "lr_decay": 0.9, "body_epochs": 2} | changes))
    return build_learner(task, algorithm, h, rank=2, seed=SEED)


def predicted(learner: TorchLearner) -> Vector:
    """What predicts, as one vector [v, b, u]."""
    with learner.keeping.kept():
        named = dict(learner.trainer.module.named_parameters())
        parts = [named[name].detach().reshape(-1) for name in ("v.weight", "v.bias", "u.weight")]
        return torch.cat(parts).double().numpy()


def steps(w: Vector, number: int, part: slice, epochs: int, lr: float, clip: float | None) -> Vector:
    w, velocity = w.copy(), np.zeros_like(w[part])
    for epoch in range(epochs):
        order = batch_order(SAMPLES, SEED, 2, number, "finish", epoch).numpy()
        for first in range(0, SAMPLES, 8):
            rows = order[first : first + 8]
            g = (INPUTS[rows].T @ (INPUTS[rows] @ w - Y[rows]) / len(rows))[part]
            if clip is not None:
                g = g * min(1.0, clip / np.linalg.norm(g))
            velocity = 0.9 * velocity + g
            w[part] -= lr * velocity
    return w


CASES = {
    "dfedmdc": ({"head_lr": 0.08}, 0.08),  # its head has a rate of its own
    "dfedavgm": ({"head_lr": 0.08}, 0.03),
    "local": ({"head_lr": 0.08}, 0.03),
    "ditto": ({}, 0.03),
    "fedbabu": ({}, 0.03),
}


@pytest.mark.parametrize("algorithm", CASES)
@pytest.mark.parametrize(("finish", "clip"), [("head:3", 0.2), ("all:2", None)])
def test_it_is_plain_steps_from_what_predicts(algorithm: str, finish: str, clip: float | None) -> None:
    settings, head_lr = CASES[algorithm]
    learner = linear(algorithm, rounds=2, finish=finish, grad_clip=clip, body_lr=0.03, **settings)
    for number in range(2):
        learner.train(number)
        learner.release(number)
        mix(learner, {}, {2: 1.0})
    before, trains_on = predicted(learner), learner.trainer.model.data.clone()
    gradients = learner.figures.gradients
    found = learner.fine_tune(1)
    of_head, epochs = finish.startswith("head"), int(finish[-1])
    rate = 0.25 * 0.9 * (head_lr if of_head else 0.03)
    expected = steps(before, 1, HEAD if of_head else slice(None), epochs, rate, clip)
    np.testing.assert_allclose(predicted(learner), expected, rtol=0, atol=2e-6)
    assert np.abs(expected - before).max() > 1e-3
    assert found.test_loss == pytest.approx(0.5 * np.mean((INPUTS @ expected - Y) ** 2), abs=1e-5)
    assert learner.about.finish_rate == pytest.approx(rate)
    assert learner.figures.kept_point == "finished"
    assert learner.figures.gradients - gradients == epochs * SAMPLES
    assert torch.equal(learner.trainer.model.data, trains_on), "the run can go on from what was mixed"
    if of_head:
        assert np.array_equal(predicted(learner)[WIDTH + 1 :], before[WIDTH + 1 :]), "the body keeps its bits"


@pytest.mark.parametrize("finish", ["all:2", "head:2"])
def test_a_sparse_model_stays_sparse(finish: str) -> None:
    h = Hyperparameters(batch_size=16, finish=finish, weight_decay=0.1)
    peer = build_learner(small_task(), "dis-pfl", h, rank=0, seed=0)
    peer.train(0)
    held = peer.trainer.mask
    assert 0 < held.sum() < len(held)
    peer.fine_tune(0)
    found = peer.finishing.state["values"]
    assert not found[~held].any()
    assert (found != peer.trainer.model.data).any()


@pytest.mark.parametrize("point", ["trained", "mixed", "finished"])
def test_the_best_model_may_be_of_each_point(point: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Losses that are made up say which one is best; what is written is what the model was at that moment."""
    task = small_task()
    task.validation = task.test
    learner = build_learner(task, "dfedavgm", Hyperparameters(finish="all:1"), rank=0, seed=0, keep="best")
    order = [(number, when) for number in range(2) for when in ("trained", "mixed")] + [(1, "finished")]
    best = (0, point) if point == "trained" else (1, point)
    losses = iter([0.0 if one == best else 1.0 for one in order])
    monkeypatch.setattr("dpeer.training.state.kept_model.mean_loss", lambda *_: next(losses))
    values = {}
    for number in range(2):
        learner.train(number)
        learner.release(number)
        learner.evaluate()
        values[number, "trained"] = learner.trainer.model.data.clone()
        mix(learner, {}, {0: 1.0 - 0.1 * number})
        learner.evaluate()
        values[number, "mixed"] = learner.trainer.model.data.clone()
    learner.fine_tune(1)
    assert learner.finishing.state
    values[1, "finished"] = learner.finishing.state["values"]
    assert (learner.figures.best_round, learner.figures.kept_point) == best
    learner.write_model(tmp_path / "m")
    written = load_file(tmp_path / "m")
    flat = torch.cat([written[name].reshape(-1) for name, *_ in learner.trainer.model.layout])
    assert torch.equal(flat, values[best])
    assert torch.equal(learner.trainer.model.data, values[1, "mixed"])


@pytest.mark.parametrize("text", ["none", "head:1", "all:12", "all:5,0.1", "head:3,1e-05"])
def test_what_finish_asks_for_is_read_and_written(text: str) -> None:
    assert str(Finish.parse(text)) == check_finish(text) == text


@pytest.mark.parametrize("text", ["", "all", "all:0", "all:-1", "body:1", "all:1,", "all:1,0", "all:1,x", "all:1,inf"])
def test_finish_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ValueError, match="expected none, head:E, all:E or all:E,RATE, for example head:5"):
        check_finish(text)
