"""MNIST (LeCun, Cortes and Burges, 1998) as idx files, gzipped or not, or as one .npz."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dpeer.training.data.files import check, folder, need, read_npz
from dpeer.training.data.images.idx import image_pool, read_idx
from dpeer.training.data.pool import Data, Pool

TASK = "mnist"
SOURCE = "https://github.com/cvdfoundation/mnist (idx) or https://keras.io/api/datasets/mnist (npz)"
_CLASSES = 10
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
    return Data(_idx(where, "train"), _idx(where, "test"), _CLASSES, pixels=True, mirrored=False)


def _npz(path: Path) -> Data:
    writers = ("writer_train", "writer_test")
    arrays = read_npz(TASK, path, SOURCE, ("x_train", "y_train", "x_test", "y_test"), writers)
    train, test = (_pool(path, arrays, part) for part in ("train", "test"))
    known = train.groups is not None and test.groups is not None
    return Data(train, test, _CLASSES, "writer" if known else None, pixels=True, mirrored=False)


def _pool(path: Path, arrays: dict[str, np.ndarray[Any, Any]], part: str) -> Pool:
    images, labels = arrays[f"x_{part}"], arrays[f"y_{part}"]
    pool = image_pool(TASK, path, images, labels, _CLASSES)
    writers = arrays.get(f"writer_{part}")
    if writers is None:
        return pool
    check(TASK, path, writers.shape == labels.shape, f"one writer per label; writer_{part} has shape {writers.shape}")
    return Pool(pool.inputs, pool.targets, writers)


def _idx(where: Path, part: str) -> Pool:
    name, otherwise = _IDX[part], ", or mnist.npz"
    images = read_idx(TASK, where, f"{name}-images", 3, SOURCE, otherwise)
    labels = read_idx(TASK, where, f"{name}-labels", 1, SOURCE, otherwise)
    return image_pool(TASK, where / f"{name}-images-idx3-ubyte", images, labels, _CLASSES)
