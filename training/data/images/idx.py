"""Grey images of 28x28 bytes and their labels in idx files, the format of MNIST (LeCun, Cortes and Burges, 1998)."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dpeer.exceptions import TaskError
from dpeer.training.data.files import check, reading
from dpeer.training.data.pool import Pool


def read_idx(task: str, where: Path, name: str, dimensions: int, source: str, otherwise: str = "") -> NDArray[np.uint8]:
    """The array in an idx file of bytes, gzipped or not.

    Args:
        task: The task's name, for messages.
        where: The folder.
        name: What the file is called before ``-idx3-ubyte`` (of three dimensions).
        dimensions: How many dimensions it must have.
        source: Where people get it.
        otherwise: What the folder could hold instead, for messages.

    Raises:
        TaskError: There is none, or it is damaged.
    """
    ending = f"idx{dimensions}-ubyte"
    names = [f"{name}{mark}{ending}{packed}" for mark in "-." for packed in ("", ".gz")]  # both marks are around
    used = next((where / name for name in names if (where / name).is_file()), None)
    if used is None:
        raise TaskError(f"task {task!r}: expected {names[0]} or {names[1]}{otherwise}, in {where}; from {source}")
    with reading(task, used, source):
        content = used.read_bytes()
        if used.suffix == ".gz":
            content = gzip.decompress(content)
        magic, *shape = struct.unpack_from(f">{dimensions + 1}I", content)
        if magic != 0x0800 + dimensions:
            raise ValueError(f"it does not begin as an idx file of {dimensions} dimensions does")
        return np.frombuffer(content, np.uint8, offset=4 * (dimensions + 1)).reshape(shape)


def image_pool(task: str, path: Path, images: NDArray[Any], labels: NDArray[Any], classes: int, first: int = 0) -> Pool:
    """The samples, once they are what was expected.

    Args:
        task: The task's name, for messages.
        path: The file that the images are from, for messages.
        images: Must be bytes, shape (samples, 28, 28).
        labels: Must be whole numbers, shape (samples,).
        classes: How many classes there are.
        first: The label of class 0.

    Raises:
        TaskError: They are something else.
    """
    fits = images.dtype == np.uint8 and images.shape[1:] == (28, 28) and labels.shape == images.shape[:1]
    expected = f"images of 28x28 bytes, one label each; there are {images.shape} and {labels.shape}"
    check(task, path, fits and len(labels) > 0 and labels.dtype.kind in "iu", expected)
    numbers = labels.astype(np.int64) - first
    check(task, path, numbers.min() >= 0 and numbers.max() < classes, f"labels {first} to {first + classes - 1}")
    return Pool(torch.from_numpy(images.copy()).unsqueeze(1), torch.from_numpy(numbers))
