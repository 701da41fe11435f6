"""CIFAR-10 and CIFAR-100 in the folders of their "python version" (Krizhevsky, 2009)."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dpeer.training.data.files import check, folder, need, reading, whole
from dpeer.training.data.pool import Data, Pool

SOURCE = "https://www.cs.toronto.edu/~kriz/cifar.html ('python version')"


def cifar10(*, data: str | None = None) -> Data:
    """60,000 images (3, 32, 32) of 10 classes, 10,000 of them for testing, from ``cifar-10-batches-py``.

    Args:
        data: That folder, or the one around it.

    Raises:
        TaskError: The folder or a file is missing or damaged.
    """
    where = folder("cifar10", data, "cifar-10-batches-py", SOURCE, "cifar-10-batches-py")
    train = _pool("cifar10", [where / f"data_batch_{number}" for number in range(1, 6)], b"labels", 10)
    return Data(train, _pool("cifar10", [where / "test_batch"], b"labels", 10), 10, pixels=True)


def cifar100(*, data: str | None = None) -> Data:
    """60,000 images (3, 32, 32) of 100 classes, 10,000 of them for testing, from ``cifar-100-python``.

    Args:
        data: That folder, or the one around it.

    Raises:
        TaskError: The folder or a file is missing or damaged.
    """
    where = folder("cifar100", data, "cifar-100-python", SOURCE, "cifar-100-python")
    train, test = (_pool("cifar100", [where / name], b"fine_labels", 100) for name in ("train", "test"))
    return Data(train, test, 100, pixels=True)


def _pool(task: str, paths: list[Path], labels: bytes, classes: int) -> Pool:
    batches = [_batch(task, path, labels, classes) for path in paths]
    pixels, numbers = (np.concatenate([batch[i] for batch in batches]) for i in range(2))
    check(task, paths[0], len(numbers) > 0, "at least one image")
    return Pool(torch.from_numpy(pixels.reshape(-1, 3, 32, 32)), torch.from_numpy(numbers))


def _batch(task: str, path: Path, labels: bytes, classes: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    with reading(task, need(task, path, SOURCE), SOURCE):
        # The published files are of Python 2, whose strings are bytes; files written anew may have str keys.
        found = _Plain(io.BytesIO(path.read_bytes()), encoding="bytes").load()
        named = {key.encode() if isinstance(key, str) else key: value for key, value in found.items()}
        pixels, numbers = np.asarray(named[b"data"]), whole(named[labels])
    fits = pixels.dtype == np.uint8 and numbers.ndim == 1 and pixels.shape == (len(numbers), 3072)
    check(task, path, fits, "rows of 3072 bytes, one per label")
    check(task, path, bool((numbers >= 0).all() and (numbers < classes).all()), f"labels 0 to {classes - 1}")
    return pixels, numbers


def _latin(text: str, encoding: str) -> bytes:
    """Bytes, as Python 3 writes them for Python 2."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it holds bytes as {encoding!r}, which CIFAR's files do not")
    return text.encode("latin1")


class _Plain(pickle.Unpickler):
    """Reads lists, dictionaries and arrays only: a downloaded pickle could otherwise run any code."""

    _ALLOWED = frozenset(
        {
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
            ("__builtin__", "bytes"),  # no bytes at all, in a batch without images
            ("builtins", "bytes"),
            *(
                (f"numpy.{core}.{module}", name)
                for core in ("core", "_core")  # before and since NumPy 2
                for module, name in (
                    ("multiarray", "_reconstruct"),
                    ("multiarray", "scalar"),
                    ("numeric", "_frombuffer"),
                )
            ),
        }
    )

    def find_class(self, module: str, name: str) -> Any:
        """The few things that arrays are made with."""
        if (module, name) == ("_codecs", "encode"):
            return _latin
        if (module, name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which CIFAR's files do not")
        # The name of old files leads to a module that NumPy 2 warns about.
        return super().find_class(module.replace("numpy.core.", "numpy._core."), name)
