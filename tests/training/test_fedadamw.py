"""FedAdamW against its recursion, written down once more in numpy and float64; and what its options leave out."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from dpeer.training import Hyperparameters, Task, TorchLearner, build_learner
from dpeer.training.flat import Flat
from dpeer.training.optimizers import AdamW, Knowledge
from tests.training.dp_learners import sampled
from tests.training.small import gossip, mix, small_task

Vector = NDArray[np.float64]
SIZE, SAMPLES, ROUNDS, STEPS, SEED = 4, 24, 3, 5, 7
A, B = slice(0, 6), slice(6, 9)
BODY, HEAD = slice(0, 9), slice(9, 18)
RATE, DECAY = 0.02, 0.1
H = Hyperparameters(
    body_lr=RATE, weight_decay=DECAY, lr_schedule="cosine", rounds=ROUNDS, batch_size=SAMPLES, local_steps=STEPS,
    body_epochs=1, grad_clip=None,
)  # fmt: skip


class Net(nn.Module):
    """a(first five) + b(last three) + v(all): a body of two blocks, of which one is a weight and a bias, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.v = nn.Linear(5, 1), nn.Linear(3, 1, bias=False), nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = (self.a(x[:, :5]) + self.b(x[:, 5:]) + self.v(x)).squeeze(1)
        return out


def half_square(outputs: Tensor, targets: Tensor) -> Tensor:
    return 0.5 * ((outputs - targets) ** 2).mean()


def data(rank: int) -> tuple[Vector, Vector]:
    rng = np.random.default_rng([rank, 1])
    x = rng.normal(size=(SAMPLES, 8)) * np.array([3.0] * 5 + [0.2] * 3)
    return x, x @ rng.normal(size=8) + 0.5 * rank


def task(rank: int, head: tuple[str, ...] = ("v",)) -> Task:
    torch.manual_seed(SEED)
    x, y = data(rank)
    dataset = TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32))
    return Task(model=Net(), head=head, train=dataset, test=dataset, loss=half_square)


def learners(algorithm: str = "fedadamw", head: tuple[str, ...] = ("v",), **options: Any) -> list[TorchLearner]:
    return [build_learner(task(r, head), algorithm, H, rank=r, seed=SEED, options=options) for r in range(SIZE)]


def recursion(rounds: int, aggregate: str = "mean", gamma: float = 0.5) -> tuple[list[Vector], list[Vector]]:
    """All peers' parameters, and what is known of their second moments, after so many rounds."""
    designs = []
    for rank in range(SIZE):
        x, y = data(rank)
        designs.append((np.hstack([x[:, :5], np.ones((SAMPLES, 1)), x[:, 5:], x, np.ones((SAMPLES, 1))]), y))
    start = torch.cat([parameter.detach().reshape(-1) for parameter in task(0).model.parameters()]).double().numpy()
    w = [start.copy() for _ in range(SIZE)]
    known = [np.zeros(18) for _ in range(SIZE)]
    moved = [np.zeros(18) for _ in range(SIZE)]
    ring = [[(i - 1) % SIZE, i, (i + 1) % SIZE] for i in range(SIZE)]
    for number in range(rounds):
        lr = RATE * (1 + math.cos(math.pi * number / ROUNDS)) / 2
        sent, seconds = [], []
        for i, (design, y) in enumerate(designs):
            u, m, v = w[i].copy(), np.zeros(18), known[i].copy()
            for k in range(1, STEPS + 1):
                g = design.T @ (design @ u - y) / SAMPLES
                m = 0.9 * m + 0.1 * g
                v = 0.999 * v + 0.001 * g**2
                unbiased = v if known[i].any() else v / (1 - 0.999**k)
                u = u - lr * (m / (1 - 0.9**k) / (np.sqrt(unbiased) + 1e-8) + gamma * moved[i] + DECAY * u)
            second = unbiased.copy()
            if aggregate == "mean":
                for block in (A, B, HEAD):
                    second[block] = second[block].mean()
            sent.append(u)
            seconds.append(second if aggregate != "none" else np.zeros(18))
        changes = [before - after for before, after in zip(w, sent, strict=True)]
        for i in range(SIZE):
            w[i], known[i] = sent[i].copy(), seconds[i].copy()
            w[i][BODY] = np.mean([sent[j][BODY] for j in ring[i]], axis=0)
            known[i][BODY] = np.mean([seconds[j][BODY] for j in ring[i]], axis=0)
            moved[i] = np.zeros(18)
            moved[i][BODY] = np.mean([changes[j][BODY] for j in ring[i]], axis=0) / (STEPS * lr)
    return w, known


CASES: list[dict[str, Any]] = [
    {}, {"gamma": 0.0}, {"gamma": 1.0}, {"aggregate": "none"}, {"aggregate": "full"},
    {"aggregate": "none", "gamma": 0.0},
]  # fmt: skip


@pytest.mark.parametrize("options", CASES, ids=str)
def test_three_rounds_on_a_ring_are_the_recursions(options: dict[str, Any]) -> None:
    """One full batch a step, other data on each peer; the last round uses what the two before have left."""
    found = learners(**options)
    gossip(found, ROUNDS)
    expected, known = recursion(ROUNDS, **options)
    for ours, w, second in zip(found, expected, known, strict=True):
        peer = ours.trainer
        np.testing.assert_allclose(peer.model.data.double().numpy(), w, rtol=0, atol=3e-5)
        blocks = {"none": np.zeros(0), "full": second[BODY]}
        shown = blocks.get(options.get("aggregate", "mean"), second[[0, 6]])
        sent = peer.extras.get("second_moment", torch.zeros(0)).double().numpy()
        np.testing.assert_allclose(sent, shown, rtol=1e-4)
    if options:  # each option is one that can be seen
        assert max(abs(a - b).max() for a, b in zip(expected, recursion(ROUNDS)[0], strict=True)) > 1e-3


def test_after_a_round_that_was_sat_out_no_change_is_followed() -> None:
    """The step is that of a peer with gamma = 0, until changes are averaged again."""
    peers, others = learners(), learners(gamma=0.0)
    gossip(peers, 2)
    with torch.no_grad():
        others[0].trainer.model.data.copy_(peers[0].trainer.model.data)
        others[0].trainer.extras["second_moment"].copy_(peers[0].trainer.extras["second_moment"])
    for name, value in peers[0].algorithm.state.items():
        others[0].algorithm.state[name].copy_(value)
    for one in (peers[0], others[0]):
        one.sit_out(2)
        one.train(3)
    assert torch.equal(peers[0].trainer.model.data, others[0].trainer.model.data)


# With privacy.


class Wide(nn.Module):
    """Its loss is always 0, so that gradients are noise alone."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.fc = nn.Linear(6, 900), nn.Linear(900, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc(self.body(x)) * 0.0
        return out


@pytest.mark.parametrize("correct", [True, False])
def test_of_gradients_that_are_noise_alone_nothing_is_left(correct: bool, tmp_path: Path) -> None:
    """With sigma 2, C 0.5 and q N of 16 the noise's variance is 1 / 256; without the correction all of it is sent."""
    ours = sampled(
        small_task(model=Wide()), tmp_path, "fedadamw", noise=2.0, clip_norm=0.5, rate=0.5, units=32,
        options={"correct": correct}, hyper={"local_steps": 4},
    )  # fmt: skip
    for number in range(2):
        ours.train(number)
        (mean,) = ours.trainer.extras["second_moment"].tolist()
        assert mean == pytest.approx(0.0 if correct else 1 / 256, abs=0.05 / 256)
        mix(ours, {}, {0: 1.0})
    with ours.trainer.at_home():
        assert ours.trainer.noise_std == 0.0


# AdamW with second moments that are known beforehand, and with noise in the gradients, against numpy.


COUNT, RATE_KNOWN = 6, 0.1


def flat(count: int) -> Flat:
    return Flat("model", [("w", nn.Parameter(torch.linspace(-1, 1, count)))])


@pytest.mark.parametrize("noise", [0.0, 0.04])
def test_steps_are_those_written_down_in_numpy(noise: float) -> None:
    """Some second moments are known, some are not, and one is an estimate that came out below zero."""
    second = np.array([0.5, 0.0, 1e-6, -0.3, 0.0, 2.0])
    direction, floor, decay = np.linspace(0.3, -0.2, COUNT), 0.25, 0.1
    part = flat(COUNT)
    known = Knowledge(torch.tensor(second).float(), noise, floor, torch.tensor(direction).float())
    ours = AdamW(part, 0.9, decay, known)
    w, m = part.data.double().numpy().copy(), np.zeros(COUNT)
    v = np.where(second != 0, np.maximum(second, 0) + noise, 0)
    anew = v == 0
    assert anew.tolist() == [False, True, False, noise == 0, True, False]
    rng = np.random.default_rng(0)
    for k in range(1, 8):
        g = rng.normal(size=COUNT)
        part.grad.copy_(torch.tensor(g))
        ours.step(RATE_KNOWN)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        hat = np.where(anew, v / (1 - 0.999**k), v)
        root = np.sqrt(np.maximum(hat - noise, floor * noise))
        w = w - RATE_KNOWN * (m / (1 - 0.9**k) / (root + 1e-8) + direction + decay * w)
        np.testing.assert_allclose(part.data.numpy(), w, rtol=0, atol=3e-5)
        np.testing.assert_allclose(ours.second.numpy(), hat - noise, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("begun", [False, True])
def test_noise_is_taken_out_of_the_second_moment(begun: bool) -> None:
    """Gradients whose squares are 0.003 in the mean, under noise of variance 0.01: without the correction 0.013."""
    count, true, noise = 20_000, 0.003, 0.01
    found = {}
    for message in (noise, 0.0):
        part, generator = flat(count), torch.Generator().manual_seed(3)
        second = torch.full((count,), true + (noise - message)) if begun else None
        ours = AdamW(part, 0.9, 0.0, Knowledge(second, message, 0.1))
        for _ in range(20):
            clean = torch.randn(count, generator=generator) * true**0.5
            part.grad.copy_(clean + torch.randn(count, generator=generator) * noise**0.5)
            ours.step(1e-6)
        found[message] = float(ours.second.mean())
    assert found[noise] == pytest.approx(true, rel=0.05)
    assert found[0.0] - true == pytest.approx(noise, rel=0.05)


def test_before_the_first_step_nothing_is_known() -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        _ = AdamW(flat(2), 0.9, 0.0).second
