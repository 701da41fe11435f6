"""Cropping and mirroring training images at random."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from dpeer.exceptions import TaskError
from dpeer.training.data.pool import Data
from dpeer.training.task import Augment

_MARGIN = 4
_LARGE = 16  # from here on images are padded by that margin


def augment_images(data: Data) -> Augment:
    """What ``--augment`` does to these data: `crop_and_flip`, where a mirrored image still is one of its class.

    Raises:
        TaskError: They are no images.
    """
    if len(data.shape) != 3:
        raise TaskError(
            f"--augment crops and flips images (channels, height, width), the task's inputs have shape {data.shape}: "
            "leave it out"
        )
    return partial(crop_and_flip, fill=data.background, mirror=data.mirrored)


def crop_and_flip(inputs: Tensor, generator: np.random.Generator, *, fill: float = -1.0, mirror: bool = True) -> Tensor:
    """Shift each image by up to four pixels in each direction, and mirror half of them, at random.

    As papers do on CIFAR (He et al., CVPR 2016, section 4.2): padded by four pixels, cropped back to its size, flipped
    with probability 1/2. Images under 16 pixels are padded by an eighth of their size, at least by one.

    Args:
        inputs: Shape (batch, channels, height, width), on any device; not changed.
        generator: Where all chance comes from, so that crops are the same on every device.
        fill: What is beyond the border. Papers pad with black, before they normalise: -1 here (see `Pool.rows`), since
            ``--standardize`` scales inside the model, after this.
        mirror: Whether to flip.

    Returns:
        The same shape, type and device.
    """
    count, channels, height, width = inputs.shape
    margin = _MARGIN if min(height, width) >= _LARGE else max(1, min(height, width) // 8)
    corners = generator.integers(0, 2 * margin + 1, size=(2, count, 1))
    rows, columns = corners[0] + np.arange(height), corners[1] + np.arange(width)
    if mirror:
        mirrored = generator.integers(0, 2, size=(count, 1)) == 1
        columns = np.where(mirrored, columns[:, ::-1], columns)
    # One gather over flattened pixels: ten times as fast as indexing by image, channel, row and column.
    pixels = rows[:, :, None] * (width + 2 * margin) + columns[:, None, :]
    index = torch.from_numpy(pixels.reshape(count, 1, -1)).to(inputs.device).expand(-1, channels, -1)
    return pad(inputs, (margin,) * 4, value=fill).flatten(2).gather(2, index).view(inputs.shape)
