"""Laplacian smoothing of a vector.

Osher et al., Laplacian Smoothing Gradient Descent, Research in the Mathematical Sciences 9 (2022): g is replaced by
(I - sigma L)^-1 g, with L the Laplacian of a ring, (L g)_j = g_(j-1) - 2 g_j + g_(j+1). A ring's matrices are diagonal
in Fourier space, so that the inverse is a division there.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def smoothed(values: Tensor, strength: float) -> Tensor:
    """A smooth version of a vector, with the same sum; noise of variance s^2 on it keeps less than that.

    Args:
        values: Shape (n,), float32; each value is a neighbor of the next, the last one of the first.
        strength: sigma, 0 or more; 0 changes nothing.

    Returns:
        Shape (n,): for each frequency k, values' part times 1 / (1 + 2 sigma (1 - cos(2 pi k / n))).
    """
    count = values.numel()
    if count < 2 or not strength:
        return values.clone()
    # In float64, and on the host, where every device's gains are the same.
    frequencies = torch.arange(count // 2 + 1, dtype=torch.float64, device="cpu") * (2 * math.pi / count)
    gains = 1 / (1 + 2 * strength * (1 - torch.cos(frequencies)))
    # A copy begins where memory is aligned, on which the last bits of a transform may depend.
    parts = torch.fft.rfft(values.clone()) * gains.to(device=values.device, dtype=values.dtype)
    result: Tensor = torch.fft.irfft(parts, n=count)
    return result
