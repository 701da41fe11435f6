"""Laplacian smoothing against the equation that it solves."""

import numpy as np
import pytest
import torch

from dpeer.training.algorithms.fedavg_ls import smoothed


@pytest.mark.parametrize("count", [1, 2, 3, 8, 997])
def test_smoothing_solves_the_ring(count: int) -> None:
    values = torch.tensor(np.random.default_rng(count).normal(size=count), dtype=torch.float32)
    found = smoothed(values, 1.5).double()
    around = torch.roll(found, 1) + torch.roll(found, -1) - 2 * found
    torch.testing.assert_close(found - 1.5 * around, values.double(), rtol=0, atol=1e-5)
    assert torch.equal(smoothed(values, 0.0), values)
