"""Images of papers, from files as they are published: digits, MNIST, EMNIST, FEMNIST, CIFAR and Tiny ImageNet.

Each reader raises a TaskError where a file is missing or damaged.
"""

from __future__ import annotations

import gzip
import io
import json
import pickle
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from dpeer.exceptions import TaskError
from dpeer.training.data.files import Source, read_images, whole
from dpeer.training.data.pool import Data, Pool

_CIFAR = "https://www.cs.toronto.edu/~kriz/cifar.html ('python version')"
_MNIST = Source("mnist", "https://github.com/cvdfoundation/mnist (idx) or https://keras.io/api/datasets/mnist (npz)")
_EMNIST = Source("emnist", "https://www.nist.gov/itl/products-and-services/emnist-dataset (binary format, gzip.zip)")
_FEMNIST = Source("femnist", "https://github.com/TalwalkarLab/leaf (data/femnist/preprocess.sh)")
_TINY = Source("tiny-imagenet", "http://cs231n.stanford.edu/tiny-imagenet-200.zip")

# Handwritten digits that come with scikit-learn.

_TEST_SHARE = 0.2
_POOL_SEED = 0  # the test pool is the same whatever the federation's seed, so that runs can be compared


def digits() -> Data:
    """1797 images (1, 8, 8) in 0..1 by 43 writers (Alpaydin and Kaynak, UCI); a fixed stratified fifth is for testing.

    They are a part of scikit-learn.
    """
    from sklearn.datasets import load_digits  # over a second to import: only for those who use this task

    pixels, numbers = load_digits(return_X_y=True)
    images = torch.from_numpy((pixels / 16).astype(np.float32)).view(-1, 1, 8, 8)
    labels = torch.from_numpy(numbers.astype(np.int64))
    rng = np.random.default_rng(_POOL_SEED)
    test = np.zeros(len(numbers), dtype=bool)
    for digit in range(10):
        members = np.flatnonzero(numbers == digit)
        test[rng.permutation(members)[: round(_TEST_SHARE * len(members))]] = True
    chosen = torch.from_numpy(test)
    train, rest = (Pool(images[rows], labels[rows]) for rows in (~chosen, chosen))
    return Data(train, rest, classes=10, mirrored=False, background=0.0)


# CIFAR (Krizhevsky, 2009).


def cifar10(*, data: str | None = None) -> Data:
    """60,000 images (3, 32, 32) of 10 classes, 10,000 of them for testing; `data` is or holds `cifar-10-batches-py`."""
    train = [f"data_batch_{number}" for number in range(1, 6)]
    return _cifar(Source("cifar10", _CIFAR), data, "cifar-10-batches-py", (train, ["test_batch"]), b"labels", 10)


def cifar100(*, data: str | None = None) -> Data:
    """60,000 images (3, 32, 32) of 100 classes, 10,000 of them for testing; `data` is or holds `cifar-100-python`."""
    source = Source("cifar100", _CIFAR)
    return _cifar(source, data, "cifar-100-python", (["train"], ["test"]), b"fine_labels", 100)


def _cifar(
    source: Source, data: str | None, folder: str, names: tuple[list[str], list[str]], labels: bytes, classes: int
) -> Data:
    where, pools = source.folder(data, folder, folder), []
    for paths in ([where / name for name in part] for part in names):
        batches = [_batch(source, path, labels, classes) for path in paths]
        pixels, numbers = (np.concatenate(parts) for parts in zip(*batches, strict=True))
        source.check(paths[0], len(numbers) > 0, "at least one image")
        pools.append(Pool(torch.from_numpy(pixels.reshape(-1, 3, 32, 32)), torch.from_numpy(numbers)))
    return Data(pools[0], pools[1], classes, pixels=True)


def _batch(source: Source, path: Path, labels: bytes, classes: int) -> tuple[NDArray[Any], NDArray[Any]]:
    with source.reading(source.need(path)):
        # The published files are of Python 2, whose strings are bytes; files written anew may have str keys.
        found = _Plain(io.BytesIO(path.read_bytes()), encoding="bytes").load()
        named = {key.encode() if isinstance(key, str) else key: value for key, value in found.items()}
        pixels, numbers = np.asarray(named[b"data"]), whole(named[labels])
    fits = pixels.dtype == np.uint8 and numbers.ndim == 1 and pixels.shape == (len(numbers), 3072)
    source.check(path, fits, "rows of 3072 bytes, one per label")
    source.check(path, bool((numbers >= 0).all() and (numbers < classes).all()), f"labels 0 to {classes - 1}")
    return pixels, numbers


def _latin(text: str, encoding: str) -> bytes:
    """Bytes, as Python 3 writes them for Python 2."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it holds bytes as {encoding!r}, which CIFAR's files do not")
    return text.encode("latin1")


class _Plain(pickle.Unpickler):
    """Reads lists, dictionaries and arrays only: a downloaded pickle could otherwise run any code."""

    _ALLOWED = (
        "numpy.ndarray", "numpy.dtype", "numpy._core.multiarray._reconstruct", "numpy._core.multiarray.scalar",
        "numpy._core.numeric._frombuffer", "__builtin__.bytes", "builtins.bytes",  # the last two of no bytes at all
    )  # fmt: skip

    def find_class(self, module: str, name: str) -> Any:
        """The few things that arrays are made with."""
        if (module, name) == ("_codecs", "encode"):
            return _latin
        module = module.replace("numpy.core.", "numpy._core.")  # before NumPy 2, which warns about it
        if f"{module}.{name}" not in self._ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which CIFAR's files do not")
        return super().find_class(module, name)


# Tiny ImageNet (Stanford's course CS231n).


def tiny_imagenet(*, data: str | None = None) -> Data:
    """110,000 images (3, 64, 64) of 200 classes, numbered as in ``wnids.txt``; `data` is or holds `tiny-imagenet-200`.

    The 10,000 images of ``val`` are the test pool: those in ``test`` have no published labels. Some images are
    grey; they become RGB. Pillow reads them.
    """
    where = _TINY.folder(data, "tiny-imagenet-200", "tiny-imagenet-200")
    with _TINY.reading(_TINY.need(where / "wnids.txt")):
        names = (where / "wnids.txt").read_text().split()
    _TINY.check(where / "wnids.txt", len(names) > 1 and len(set(names)) == len(names), "a class a line, each once")
    numbers = {name: number for number, name in enumerate(names)}
    pools = []
    for found in (_tiny_train(where / "train", numbers), _tiny_val(where / "val", numbers)):
        inputs = read_images(_TINY.task, [path for path, _ in found], 3, 64, resize=False).pixels
        pools.append(Pool(inputs, torch.tensor([number for _, number in found])))
    return Data(pools[0], pools[1], len(names), pixels=True)


def _tiny_train(where: Path, numbers: Mapping[str, int]) -> list[tuple[Path, int]]:
    found = []
    for name, number in numbers.items():
        paths = sorted((where / name / "images").glob("*.JPEG"))
        if not paths:
            raise TaskError(f"task {_TINY.task!r}: expected *.JPEG in {where / name / 'images'}; from {_TINY.place}")
        found += [(path, number) for path in paths]
    return found


def _tiny_val(where: Path, numbers: Mapping[str, int]) -> list[tuple[Path, int]]:
    path = _TINY.need(where / "val_annotations.txt")
    with _TINY.reading(path):
        rows = [line.split("\t") for line in path.read_text().splitlines() if line]
    _TINY.check(path, bool(rows), "an image a line")
    for number, row in enumerate(rows, start=1):
        fits = len(row) >= 2 and row[1] in numbers
        _TINY.check(path, fits, f"a file's name and a class of wnids.txt, between tabs; line {number} is {row}")
        _TINY.need(where / "images" / row[0])
    return [(where / "images" / row[0], numbers[row[1]]) for row in rows]


# MNIST (LeCun, Cortes and Burges, 1998) and EMNIST (Cohen et al., IJCNN 2017).

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
    """
    if data is not None and data.endswith(".npz"):
        return _mnist_npz(_MNIST.need(Path(data).expanduser()))
    # The last place is where torchvision puts them.
    where = _MNIST.folder(data, "train-images-idx3-ubyte.gz ..., or mnist.npz", "mnist", "raw", "MNIST/raw")
    if (where / "mnist.npz").is_file():
        return _mnist_npz(where / "mnist.npz")
    train, test = (_idx_pool(_MNIST, where, name, ", or mnist.npz", 10) for name in ("train", "t10k"))
    return Data(train, test, 10, pixels=True, mirrored=False)


def emnist(*, data: str | None = None, split: Split = "byclass") -> Data:
    """Images (1, 28, 28) of a split: white ink on black, upright, classes in the order of the files' labels.

    The classes of ``byclass`` are the digits, the capitals and the small letters: 697,932 images for training and
    116,323 for testing. ``bymerge``, as large, and ``balanced`` join the small letters that look like their capitals to
    them, ``letters`` joins all.

    Args:
        data: A folder with the split's four idx files (``.gz`` or not), or the one around NIST's ``gzip`` or
            torchvision's ``EMNIST/raw``.
        split: One of `CLASSES`.
    """
    holds = f"emnist-{split}-train-images-idx3-ubyte.gz ..."
    where = _EMNIST.folder(data, holds, "gzip", "raw", "EMNIST/raw", "emnist/gzip", "emnist")
    there = [other for other in CLASSES if any(where.glob(f"emnist-{other}-train-images*"))]
    others = f" (of split={split}; the folder holds split={', '.join(there)})" if there and split not in there else ""
    # These files hold each image column by column, not row by row as the format and MNIST's files have it: read as they
    # are, characters lie on their side, mirrored. Upright ones look as those of MNIST and FEMNIST do.
    train, test = (
        _idx_pool(_EMNIST, where, f"emnist-{split}-{part}", others, CLASSES[split], _FIRST.get(split, 0), lying=True)
        for part in ("train", "test")
    )
    return Data(train, test, CLASSES[split], pixels=True, mirrored=False)


def _mnist_npz(path: Path) -> Data:
    writers = ("writer_train", "writer_test")
    arrays = _MNIST.arrays(path, ("x_train", "y_train", "x_test", "y_test"), writers)
    pools = []
    for part in ("train", "test"):
        pool, writer = _characters(_MNIST, path, arrays[f"x_{part}"], arrays[f"y_{part}"], 10), f"writer_{part}"
        if (groups := arrays.get(writer)) is not None:
            fits = groups.shape == (len(pool),)
            _MNIST.check(path, fits, f"one writer per label; {writer} has shape {groups.shape}")
        pools.append(Pool(pool.inputs, pool.targets, groups))
    known = all(pool.groups is not None for pool in pools)
    return Data(pools[0], pools[1], 10, "writer" if known else None, pixels=True, mirrored=False)


def _idx_pool(
    source: Source, where: Path, name: str, otherwise: str, classes: int, first: int = 0, *, lying: bool = False
) -> Pool:
    """The samples of one pool; `otherwise` names in errors what the folder could hold instead."""
    images, labels = (
        _idx(source, where, f"{name}-{of}", size, otherwise) for of, size in (("images", 3), ("labels", 1))
    )
    path = where / f"{name}-images-idx3-ubyte"
    return _characters(source, path, images.swapaxes(1, 2) if lying else images, labels, classes, first)


def _idx(source: Source, where: Path, name: str, dimensions: int, otherwise: str) -> NDArray[np.uint8]:
    """The array in an idx file of bytes, gzipped or not; `name` ends before ``-idx3-ubyte`` (of three dimensions)."""
    ending = f"idx{dimensions}-ubyte"
    names = [f"{name}{mark}{ending}{packed}" for mark in "-." for packed in ("", ".gz")]  # both marks are around
    used = next((where / name for name in names if (where / name).is_file()), None)
    if used is None:
        what = f"expected {names[0]} or {names[1]}{otherwise}"
        raise TaskError(f"task {source.task!r}: {what}, in {where}; from {source.place}")
    with source.reading(used):
        content = used.read_bytes()
        if used.suffix == ".gz":
            content = gzip.decompress(content)
        magic, *shape = struct.unpack_from(f">{dimensions + 1}I", content)
        if magic != 0x0800 + dimensions:
            raise ValueError(f"it does not begin as an idx file of {dimensions} dimensions does")
        return np.frombuffer(content, np.uint8, offset=4 * (dimensions + 1)).reshape(shape)


def _characters(
    source: Source, path: Path, images: NDArray[Any], labels: NDArray[Any], classes: int, first: int = 0
) -> Pool:
    """The samples, if images are bytes (samples, 28, 28) with a label each; `first` is the label of class 0."""
    fits = images.dtype == np.uint8 and images.shape[1:] == (28, 28) and labels.shape == images.shape[:1]
    expected = f"images of 28x28 bytes, one label each; it has {images.shape} and {labels.shape}"
    source.check(path, fits and len(labels) > 0 and labels.dtype.kind in "iu", expected)
    numbers = labels.astype(np.int64) - first
    source.check(path, numbers.min() >= 0 and numbers.max() < classes, f"labels {first} to {first + classes - 1}")
    return Pool(torch.from_numpy(images.copy()).unsqueeze(1), torch.from_numpy(numbers))


# FEMNIST in the json files that LEAF makes (Caldas et al., 2018): handwriting of 3,550 people.


def femnist(*, data: str | None = None) -> Data:
    """Images (1, 28, 28) of 62 characters (digits, capitals, small letters), each with its writer.

    LEAF divides each writer's samples into train and test, or the writers (``-t sample`` and ``-t user`` of its
    script): the first is kept for every partition, the second for all but ``writer``. Its pixels are 255ths of 1,
    ink 0 and paper 1; they are kept as bytes.

    Args:
        data: A folder with ``train/*.json`` and ``test/*.json``, or with ``all_data/*.json``, or with json files of
            which peers hold out samples themselves; or LEAF's folder around it.
    """
    places = ("data/femnist/data", "femnist/data", "data")  # in LEAF's folder, in `data` of that, and in `femnist`
    where = _FEMNIST.folder(data, "train/*.json and test/*.json", *places)
    test, same = None, False
    if (where / "train").is_dir():
        train, test = _leaf_pool(where / "train"), _leaf_pool(where / "test")
        same = bool(np.isin(np.asarray(test.groups), np.asarray(train.groups)).any())
    else:
        train = _leaf_pool(where / "all_data" if (where / "all_data").is_dir() else where)
    return Data(train, test, 62, "writer", same_groups=same, pixels=True, mirrored=False, background=1.0)


def _leaf_pool(where: Path) -> Pool:
    paths = sorted(where.glob("*.json"))
    if not paths:
        raise TaskError(
            f"task {_FEMNIST.task!r}: expected json files in {where}, or train/*.json and test/*.json; "
            f"from {_FEMNIST.place}"
        )
    parts = [part for path in paths for part in _leaf_file(path)]
    _FEMNIST.check(where, bool(parts), "at least one sample")
    x, y, writers = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Pool(torch.from_numpy(x).view(-1, 1, 28, 28), torch.from_numpy(y), writers)


def _leaf_file(path: Path) -> list[tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.str_]]]:
    with _FEMNIST.reading(path):
        content = json.loads(path.read_bytes())
        users, counts, samples = content["users"], content["num_samples"], content["user_data"]
        parts = []
        for user, count in zip(users, counts, strict=True):
            if "\0" in str(user):
                raise ValueError(f"writer {user!r} has a NUL character in the name")
            x = np.asarray(samples[user]["x"], np.float32).reshape(-1, 28 * 28)
            y = whole(samples[user]["y"])
            if not len(x) == len(y) == count:
                raise ValueError(f"writer {user!r} has {len(x)} images and {len(y)} labels of {count} samples")
            if len(y) and not (y.min() >= 0 and y.max() < 62):
                raise ValueError(f"writer {user!r} has labels {y.min()} to {y.max()}, not 0 to 61")
            levels = np.rint(x * 255)
            if not ((levels >= 0) & (levels <= 255) & (np.abs(x * 255 - levels) < 1e-3)).all():
                raise ValueError(f"writer {user!r} has pixels that are no 255ths of 1")
            if len(y):
                parts.append((levels.astype(np.uint8), y, np.full(len(y), str(user))))
    return parts
