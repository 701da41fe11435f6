"""AdamW with second moments that are known beforehand, and with noise in the gradients, against numpy."""

import numpy as np
import pytest
import torch
from torch import nn

from dpeer.training.adam import AdamW, Knowledge
from dpeer.training.flat import Flat

COUNT, RATE = 6, 0.1


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
        ours.step(RATE)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        hat = np.where(anew, v / (1 - 0.999**k), v)
        root = np.sqrt(np.maximum(hat - noise, floor * noise))
        w = w - RATE * (m / (1 - 0.9**k) / (root + 1e-8) + direction + decay * w)
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
