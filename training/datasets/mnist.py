"""MNIST (LeCun, Cortes and Burges, 1998) as idx files, gzipped or not, or as one .npz."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dpeer.exceptions import TaskError
from dpeer.training.datasets.files import check, folder, need, read_npz, reading
from dpeer.training.datasets.pool import Data, Pool

TASK = "mnist"
SOURCE = "https://github.com/cvdfoundation/mnist (idx) or https://keras.io/api/datasets/mnist (npz)"
_IDX = {"train": "train", "test": "t10k"}


def mnist(data: Any) -> Data:
    """70,000 images (1, 28, 28) of 10 digits, 10,000 of them for testing.

    Args:
        data: A folder with the four idx files (``.gz`` or not), or with ``mnist.npz``; or such a file itself: arrays
            ``x_train, y_train, x_test, y_test``, and ``writer_train, writer_test`` where the writers are known.

    Raises:
        TaskError: A file is missing or damaged.
    """
    if isinstance(data, str) and data.endswith(".npz"):
        return _npz(need(TASK, Path(data).expanduser(), SOURCE))
    # The last place is where torchvision puts them.
    where = folder(TASK, data, "train-images-idx3-ubyte.gz ..., or mnist.npz", SOURCE, "mnist", "raw", "MNIST/raw")
    if (where / "mnist.npz").is_file():
        return _npz(where / "mnist.npz")
    return Data(_idx(where, "train"), _idx(where, "test"), 10, mirrored=False)


def _npz(path: Path) -> Data:
    writers = ("writer_train", "writer_test")
    arrays = read_npz(TASK, path, SOURCE, ("x_train", "y_train", "x_test", "y_test"), writers)
    train, test = (_pool(path, arrays, part) for part in ("train", "test"))
    known = train.groups is not None and test.groups is not None
    return Data(train, test, 10, "writer" if known else None, mirrored=False)


def _pool(path: Path, arrays: dict[str, np.ndarray[Any, Any]], part: str) -> Pool:
    images, labels = arrays[f"x_{part}"], arrays[f"y_{part}"]
    pool = _checked(path, images, labels)
    writers = arrays.get(f"writer_{part}")
    if writers is None:
        return pool
    check(TASK, path, writers.shape == labels.shape, f"one writer per label; writer_{part} has shape {writers.shape}")
    return Pool(pool.inputs, pool.targets, writers)


def _idx(where: Path, part: str) -> Pool:
    images = _read_idx(where, f"{_IDX[part]}-images", 3)
    labels = _read_idx(where, f"{_IDX[part]}-labels", 1)
    return _checked(where / f"{_IDX[part]}-images-idx3-ubyte", images, labels)


def _read_idx(where: Path, name: str, dimensions: int) -> np.ndarray[Any, Any]:
    ending = f"idx{dimensions}-ubyte"
    names = [f"{name}{mark}{ending}{packed}" for mark in "-." for packed in ("", ".gz")]  # both marks are around
    used = next((where / name for name in names if (where / name).is_file()), None)
    if used is None:
        raise TaskError(f"task {TASK!r}: expected {names[0]} or {names[1]}, or mnist.npz, in {where}; from {SOURCE}")
    with reading(TASK, used, SOURCE):
        content = used.read_bytes()
        if used.suffix == ".gz":
            content = gzip.decompress(content)
        magic, *shape = struct.unpack_from(f">{dimensions + 1}I", content)
        if magic != 0x0800 + dimensions:
            raise ValueError(f"it does not begin as an idx file of {dimensions} dimensions does")
        return np.frombuffer(content, np.uint8, offset=4 * (dimensions + 1)).reshape(shape)


def _checked(path: Path, images: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> Pool:
    fits = images.dtype == np.uint8 and images.shape[1:] == (28, 28) and labels.shape == images.shape[:1]
    expected = f"images of 28x28 bytes, one label each; there are {images.shape} and {labels.shape}"
    check(TASK, path, fits and len(labels) > 0 and labels.dtype.kind in "iu", expected)
    numbers = labels.astype(np.int64)
    check(TASK, path, numbers.min() >= 0 and numbers.max() <= 9, "labels 0 to 9")
    return Pool(torch.from_numpy(images.copy()).unsqueeze(1), torch.from_numpy(numbers))
