"""Image files as numbers, with Pillow, which not everybody has."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpeer.cores import own_cores
from dpeer.exceptions import TaskError, describe

_AT_ONCE = 256  # images a thread reads before it asks for more: 100,000 tasks of one would take memory


def read_images(task: str, paths: Sequence[Path], channels: int, side: int, *, resize: bool) -> Tensor:
    """Decode image files, in threads: Pillow lets go of Python's lock.

    Args:
        task: The task's name, for messages.
        paths: The files.
        channels: 3 for RGB (grey images get it, too), 1 for grey.
        side: Height and width.
        resize: Whether other sizes are scaled to `side` (antialiased; what is not square is distorted), or refused.

    Returns:
        uint8, shape (images, channels, side, side).

    Raises:
        TaskError: An image is damaged or does not fit, or Pillow is missing.
    """
    _check_pillow(task)
    found = np.empty((len(paths), channels, side, side), np.uint8)

    def some(start: int) -> None:
        for number in range(start, min(start + _AT_ONCE, len(paths))):
            try:
                found[number] = _image(paths[number], channels, side, resize)
            except Exception as error:
                raise TaskError(
                    f"task {task!r}: the image {paths[number]} cannot be read: {describe(error)}"
                ) from error

    with ThreadPoolExecutor(len(own_cores())) as pool:
        for _ in pool.map(some, range(0, len(paths), _AT_ONCE)):
            pass
    return torch.from_numpy(found)


def _image(path: Path, channels: int, side: int, resize: bool) -> NDArray[np.uint8]:
    """One image, shape (channels, side, side)."""
    from PIL import Image, ImageOps

    with Image.open(path) as opened:
        frames = getattr(opened, "n_frames", 1)
        if frames > 1 and opened.format != "MPO":  # photographs of phones have a preview behind the image
            raise ValueError(f"it has {frames} frames; save the one that counts")
        if opened.mode.startswith(("I", "F")):  # Pillow would cut what is above 255
            raise ValueError("it has more than 8 bits a pixel; save it with 8")
        image = ImageOps.exif_transpose(opened)
        if image.mode == "P":  # a palette with transparency cannot become RGB at once
            image = image.convert("RGBA")
        image = image.convert("RGB" if channels == 3 else "L")
    if image.size != (side, side):
        if not resize:
            raise ValueError(f"it has {image.width}x{image.height} pixels, not {side}x{side}")
        image = image.resize((side, side), Image.Resampling.BILINEAR)
    return np.asarray(image).reshape(side, side, channels).transpose(2, 0, 1)


def _check_pillow(task: str) -> None:
    try:
        import PIL.Image  # noqa: F401
    except ImportError as error:
        raise TaskError(f"task {task!r} reads images with Pillow: pip install 'dpeer[images]'") from error
