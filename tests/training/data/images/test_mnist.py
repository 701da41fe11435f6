import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpeer.exceptions import PartitionError, TaskError
from dpeer.training import Choices, load_task
from dpeer.training.data.images.mnist import mnist

COUNTS = {"train": 60, "t10k": 40}


def digits(count: int, seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    images = np.random.default_rng(seed).integers(0, 256, (count, 28, 28), dtype=np.uint8)
    return images, (np.arange(count) % 10).astype(np.uint8)


def idx(array: np.ndarray[Any, Any]) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def idx_folder(folder: Path, mark: str = "-", *, packed: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, count) in enumerate(COUNTS.items()):
        for kind, array in zip(("images", "labels"), digits(count, seed), strict=True):
            content = idx(array)
            path = folder / f"{name}-{kind}{mark}idx{array.ndim}-ubyte{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(content) if packed else content)
    return folder


def npz(path: Path, **changes: Any) -> Path:
    (x_train, y_train), (x_test, y_test) = digits(60, 0), digits(40, 1)
    arrays = {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test} | changes
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


@pytest.mark.parametrize("inner", [".", "MNIST/raw", "raw", "mnist"])
@pytest.mark.parametrize(("mark", "packed"), [("-", False), ("-", True), (".", False)])
def test_idx_files(tmp_path: Path, inner: str, mark: str, packed: bool) -> None:
    idx_folder(tmp_path / inner, mark, packed=packed)
    check(mnist(str(tmp_path)))


def test_npz(tmp_path: Path) -> None:
    path = npz(tmp_path / "mnist.npz")
    check(mnist(str(path)))
    check(mnist(str(tmp_path)))
    with pytest.raises(PartitionError, match="the data do not say which writer a sample is from"):
        load_task("mnist", 0, 2, 0, {"data": str(path)}, Choices(partition="writer"))


def check(data: Any) -> None:
    for pool, (images, labels) in zip((data.train, data.test), (digits(60, 0), digits(40, 1)), strict=True):
        assert np.array_equal(pool.inputs[:, 0].numpy(), images)
        assert np.array_equal(pool.targets.numpy(), labels)
    assert data.classes == 10
    assert data.group is None
    assert not data.mirrored


def test_writers_hold_out_within_each(tmp_path: Path) -> None:
    """Ten writers of ten images each, five in either pool: peers get whole writers, a fifth of them for testing."""
    path = npz(
        tmp_path / "some.npz", writer_train=np.repeat(np.arange(6), 10), writer_test=np.repeat(np.arange(6, 10), 10)
    )
    choices = Choices(partition="writer")
    tasks = [load_task("mnist", rank, 5, 0, {"data": str(path)}, choices) for rank in range(5)]
    writers = np.repeat(np.arange(10), 10)
    held: set[int] = set()
    for task in tasks:
        assert task.indices is not None
        mine = {part: set(writers[task.indices[part]].tolist()) for part in ("train", "test")}
        assert mine["test"] == mine["train"]
        assert len(mine["train"]) == 2
        assert not held & mine["train"]
        held |= mine["train"]
        assert len(task.test) == 4
    assert len(held) == 10


IMAGES, LABELS = digits(60, 0)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "train-images-idx3-ubyte",
            None,
            "expected train-images-idx3-ubyte or train-images-idx3-ubyte.gz, or mnist.npz",
        ),
        ("t10k-labels-idx1-ubyte", None, r"expected t10k-labels-idx1-ubyte.* in .*; from https://github.com/cvd"),
        ("train-images-idx3-ubyte", idx(IMAGES)[:-1], "train-images-idx3-ubyte is damaged.*get it anew"),
        ("train-images-idx3-ubyte", b"", "train-images-idx3-ubyte is damaged"),
        ("train-images-idx3-ubyte", b"<html>" * 99, "does not begin as an idx file of 3 dimensions"),
        ("train-images-idx3-ubyte", idx(LABELS), "does not begin as an idx file of 3 dimensions"),
        ("train-images-idx3-ubyte", gzip.compress(idx(IMAGES)), "does not begin as an idx file"),
        ("train-images-idx3-ubyte", idx(IMAGES[:, :20]), r"images of 28x28 bytes.*there are \(60, 20, 28\)"),
        ("train-images-idx3-ubyte", idx(IMAGES[:59]), r"one label each; there are \(59, 28, 28\) and \(60,\)"),
        ("train-labels-idx1-ubyte", idx(LABELS + np.uint8(5)), "labels 0 to 9"),
    ],
)
def test_damaged_idx(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    idx_folder(tmp_path)
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(TaskError, match=message):
        mnist(str(tmp_path))


def test_a_damaged_gz(tmp_path: Path) -> None:
    idx_folder(tmp_path, packed=True)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(TaskError, match=r"train-images-idx3-ubyte.gz is damaged"):
        mnist(str(tmp_path))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"x_test": None},
            "expected: arrays x_train, y_train, x_test, y_test; there are x_train, y_train, y_test$",
        ),
        ({"y_train": None, "y": LABELS}, "there are x_train, x_test, y_test, y$"),
        ({"x_train": IMAGES / 255}, "images of 28x28 bytes"),
        ({"y_train": LABELS[:3]}, "images of 28x28 bytes"),
        ({"y_train": LABELS / 10}, "images of 28x28 bytes"),
        ({"y_train": LABELS + np.uint8(5)}, "labels 0 to 9"),
        ({"writer_train": np.arange(3)}, r"one writer per label; writer_train has shape \(3,\)"),
        ({"y_train": LABELS.astype(object)}, "damaged.*pickle"),
    ],
)
def test_damaged_npz(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError, match=message):
        mnist(str(npz(tmp_path / "mnist.npz", **changes)))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and no more", b"text"])
def test_no_npz(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "mnist.npz").write_bytes(content)
    with pytest.raises(TaskError, match=r"mnist.npz is damaged or no such file"):
        mnist(str(tmp_path))
    with pytest.raises(TaskError, match=r"expected the file other.npz in"):
        mnist(str(tmp_path / "other.npz"))


def test_the_real_one(shared: Path) -> None:
    data = mnist(str(shared / "mnist.npz"))
    assert data.test is not None
    assert (len(data.train), len(data.test)) == (60_000, 10_000)
    assert data.train.groups is not None
    assert data.test.groups is not None
    train, test = set(data.train.groups.tolist()), set(data.test.groups.tolist())
    assert (len(train), len(test)) == (539, 297)
    assert not train & test
    assert np.bincount(data.train.labels()).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]


def test_the_real_writers(shared: Path) -> None:
    """40 peers of whole writers, each class of each writer spread over training and test."""
    data = mnist(str(shared / "mnist.npz"))
    writers = np.concatenate([np.asarray(pool.groups) for pool in (data.train, data.test) if pool is not None])
    options = {"data": str(shared / "mnist.npz")}
    seen: dict[int, int] = {}
    for rank in (0, 7, 39):
        task = load_task("mnist", rank, 40, 0, options, Choices(partition="writer", validation=0.1))
        assert task.indices is not None
        for part in task.indices.values():
            for writer in np.unique(writers[part]).tolist():
                assert seen.setdefault(writer, rank) == rank
        sizes = {part: len(rows) for part, rows in task.indices.items()}
        whole = sum(sizes.values())
        assert whole == np.isin(writers, [writer for writer, owner in seen.items() if owner == rank]).sum()
        assert abs(sizes["test"] / whole - 0.2) < 0.01
        assert abs(sizes["validation"] / (whole - sizes["test"]) - 0.1) < 0.01
        assert len(np.unique(np.concatenate(list(task.indices.values())))) == whole
