"""FedAdamW and the AdamW that it steps with: second moments without the noise, and changes that are not followed."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dpeer.training.flat import Flat
from dpeer.training.optimizers import AdamW, Knowledge
from tests.training.dp_learners import sampled
from tests.training.linear import peers
from tests.training.small import gossip, mix, small_task


def test_after_a_round_that_was_sat_out_no_change_is_followed() -> None:
    """The step is that of a peer with gamma = 0, until changes are averaged again."""
    followed = peers("fedadamw", body_lr=0.02, momentum=0.9)
    ours, other = followed[0], peers("fedadamw", body_lr=0.02, momentum=0.9, options={"gamma": 0.0})[0]
    gossip(followed, 2)
    with torch.no_grad():
        other.trainer.model.data.copy_(ours.trainer.model.data)
        other.trainer.extras["second_moment"].copy_(ours.trainer.extras["second_moment"])
    for name, value in ours.algorithm.state.items():
        other.algorithm.state[name].copy_(value)
    for one in (ours, other):
        one.sit_out(2)
        one.train(3)
    assert torch.equal(ours.trainer.model.data, other.trainer.model.data)


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
