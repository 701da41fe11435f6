"""MNIST (LeCun, Cortes and Burges, 1998) and EMNIST (Cohen et al., IJCNN 2017), from idx files or one .npz."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from dpeer.exceptions import TaskError
from dpeer.training.data.files import check, folder, need, read_npz, reading
from dpeer.training.data.pool import Data, Pool

_MNIST = "https://github.com/cvdfoundation/mnist (idx) or https://keras.io/api/datasets/mnist (npz)"
_EMNIST = "https://www.nist.gov/itl/products-and-services/emnist-dataset (binary format, gzip.zip)"
_DIGITS = 10
Split = Literal["byclass", "bymerge", "balanced", "letters", "digits", "mnist"]
CLASSES: Mapping[Split, int] = {
    "byclass": 62, "bymerge": 47, "balanced": 47, "letters": 26, "digits": 10, "mnist": 10,
}  # fmt: skip
"""The number of classes of each split of EMNIST, by its name in the files."""
_FIRST: Mapping[Split, int] = {"letters": 1}
"""The label of the first class, where that is not 0."""


def mnist(*, data: str | None = None) -> Data:
    """70,000 images (1, 28, 28) of 10 digits, 10,000 of them for testing.

    Args:
        data: A folder with the four idx files (``.gz`` or not), or with ``mnist.npz``; or such a file itself: arrays
            ``x_train, y_train, x_test, y_test``, and ``writer_train, writer_test`` where the writers are known.

    Raises:
        TaskError: A file is missing or damaged.
    """
    if data is not None and data.endswith(".npz"):
        return _npz(need("mnist", Path(data).expanduser(), _MNIST))
    # The last place is where torchvision puts them.
    where = folder("mnist", data, "train-images-idx3-ubyte.gz ..., or mnist.npz", _MNIST, "mnist", "raw", "MNIST/raw")
    if (where / "mnist.npz").is_file():
        return _npz(where / "mnist.npz")
    pools = []
    for name in ("train", "t10k"):
        images, labels = _idx_pair("mnist", where, name, _MNIST, ", or mnist.npz")
        pools.append(_pool("mnist", where / f"{name}-images-idx3-ubyte", images, labels, _DIGITS))
    return Data(pools[0], pools[1], _DIGITS, pixels=True, mirrored=False)


def emnist(*, data: str | None = None, split: Split = "byclass") -> Data:
    """Images (1, 28, 28) of a split: white ink on black, upright, classes in the order of the files' labels.

    The classes of ``byclass`` are the digits, the capitals and the small letters: 697,932 images for training and
    116,323 for testing. ``bymerge``, as large, and ``balanced`` join the small letters that look like their capitals to
    them, ``letters`` joins all.

    Args:
        data: A folder with the split's four idx files (``.gz`` or not), or the one around NIST's ``gzip`` or
            torchvision's ``EMNIST/raw``.
        split: One of `CLASSES`.

    Raises:
        TaskError: A file is missing or damaged.
    """
    holds = f"emnist-{split}-train-images-idx3-ubyte.gz ..."
    where = folder("emnist", data, holds, _EMNIST, "gzip", "raw", "EMNIST/raw", "emnist/gzip", "emnist")
    there = [other for other in CLASSES if any(where.glob(f"emnist-{other}-train-images*"))]
    others = f" (of split={split}; the folder holds split={', '.join(there)})" if there and split not in there else ""
    pools = []
    for part in ("train", "test"):
        name = f"emnist-{split}-{part}"
        images, labels = _idx_pair("emnist", where, name, _EMNIST, others)
        # These files hold each image column by column, not row by row as the format and MNIST's files have it: read as
        # they are, characters lie on their side, mirrored. Upright ones look as those of MNIST and FEMNIST do.
        upright, path = images.swapaxes(1, -1), where / f"{name}-images-idx3-ubyte"
        pools.append(_pool("emnist", path, upright, labels, CLASSES[split], _FIRST.get(split, 0)))
    return Data(pools[0], pools[1], CLASSES[split], pixels=True, mirrored=False)


def _npz(path: Path) -> Data:
    writers = ("writer_train", "writer_test")
    arrays = read_npz("mnist", path, _MNIST, ("x_train", "y_train", "x_test", "y_test"), writers)
    pools = []
    for part in ("train", "test"):
        pool, writer = _pool("mnist", path, arrays[f"x_{part}"], arrays[f"y_{part}"], _DIGITS), f"writer_{part}"
        if (groups := arrays.get(writer)) is not None:
            fits = groups.shape == (len(pool),)
            check("mnist", path, fits, f"one writer per label; {writer} has shape {groups.shape}")
        pools.append(Pool(pool.inputs, pool.targets, groups))
    known = all(pool.groups is not None for pool in pools)
    return Data(pools[0], pools[1], _DIGITS, "writer" if known else None, pixels=True, mirrored=False)


def _idx_pair(
    task: str, where: Path, name: str, source: str, otherwise: str
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The images and labels of one pool; `otherwise` names in errors what the folder could hold instead."""
    return (
        _idx(task, where, f"{name}-images", 3, source, otherwise),
        _idx(task, where, f"{name}-labels", 1, source, otherwise),
    )


def _idx(task: str, where: Path, name: str, dimensions: int, source: str, otherwise: str) -> NDArray[np.uint8]:
    """The array in an idx file of bytes, gzipped or not; `name` ends before ``-idx3-ubyte`` (of three dimensions)."""
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


def _pool(task: str, path: Path, images: NDArray[Any], labels: NDArray[Any], classes: int, first: int = 0) -> Pool:
    """The samples, if images are bytes (samples, 28, 28) with a label each; `first` is the label of class 0."""
    fits = images.dtype == np.uint8 and images.shape[1:] == (28, 28) and labels.shape == images.shape[:1]
    expected = f"images of 28x28 bytes, one label each; it has {images.shape} and {labels.shape}"
    check(task, path, fits and len(labels) > 0 and labels.dtype.kind in "iu", expected)
    numbers = labels.astype(np.int64) - first
    check(task, path, numbers.min() >= 0 and numbers.max() < classes, f"labels {first} to {first + classes - 1}")
    return Pool(torch.from_numpy(images.copy()).unsqueeze(1), torch.from_numpy(numbers))
