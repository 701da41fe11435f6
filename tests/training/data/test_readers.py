"""Readers of published images and signals: the contract of all, and what one format alone has."""

import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpeer.training import Choices, load_task
from dpeer.training.data.har import stretches
from dpeer.training.data.pool import Data, Pool
from dpeer.training.data.published_images import CLASSES
from tests.training import dataset_files
from tests.training.dataset_files import READERS, WRITERS, Held, Written

FACTS: dict[str, tuple[Any, ...]] = {
    "cifar10": (10, None, False, True, True, -1.0), "cifar100": (100, None, False, True, True, -1.0),
    "tiny-imagenet": (3, None, False, True, True, -1.0), "mnist": (10, None, False, True, False, -1.0),
    "emnist": (62, None, False, True, False, -1.0), "femnist": (62, "writer", True, True, False, 1.0),
    "har": (6, "subject", False, False, True, -1.0),
}  # fmt: skip
"""Classes, groups, whether both pools have the same ones, whether inputs are bytes of images, mirrors, background."""


def check(pool: Pool | None, held: Held | None, tolerance: float = 0) -> None:
    assert pool.inputs.shape == held.inputs.shape
    assert pool.inputs.is_contiguous()
    assert np.abs(pool.inputs.numpy().astype(float) - held.inputs).max() <= tolerance
    assert np.array_equal(pool.targets.numpy(), held.targets)
    assert np.array_equal(pool.groups, held.groups) if held.groups is not None else pool.groups is None


def check_all(data: Data, expected: Written, tolerance: float = 0) -> None:
    check(data.train, expected.train, tolerance)
    check(data.test, expected.test, tolerance)


@pytest.mark.parametrize("name", FACTS)
def test_a_reader_gives_what_the_files_hold(name: str, tmp_path: Path) -> None:
    expected = WRITERS[name](tmp_path)
    data = READERS[name](data=expected.options["data"])
    check_all(data, expected, 3 if name == "tiny-imagenet" else 0)  # JPEG keeps a color within a few levels
    assert data.train.inputs.element_size() == (1 if data.pixels else 4)
    assert (
        data.classes, data.group, data.same_groups, data.pixels, data.mirrored, data.background
    ) == FACTS[name]  # fmt: skip


FOLDERS: dict[str, tuple[Callable[[Path], Written], tuple[str, ...], str]] = {
    "cifar10": (lambda folder: dataset_files.cifar10(folder, each=3), (".",), "cifar-10-batches-py"),
    "tiny-imagenet": (lambda folder: dataset_files.tiny_imagenet(folder, 4, 1), (".",), "tiny-imagenet-200"),
    "har": (dataset_files.har_folder, (".",), "UCI HAR Dataset"),
    "mnist": (dataset_files.mnist_idx, (".", "mnist", "raw", "MNIST/raw"), "."),
    "emnist": (
        lambda folder: dataset_files.emnist(folder, each=2),
        (".", "gzip", "EMNIST/raw", "raw", "emnist", "emnist/gzip"),
        ".",
    ),
    "femnist": (
        lambda folder: dataset_files.femnist(folder, (3, 2)), (".", "data", "femnist/data", "data/femnist/data"), ".",
    ),
}  # fmt: skip
"""By task: a writer, the places below data= where its files may lie, and the folder that it makes there."""


@pytest.mark.parametrize(
    ("name", "inner"), [(name, inner) for name, (_, places, _) in FOLDERS.items() for inner in places]
)
def test_the_files_are_found_at_their_usual_places(name: str, inner: str, tmp_path: Path) -> None:
    write, _, made = FOLDERS[name]
    expected, tolerance = write(tmp_path / inner), {"tiny-imagenet": 3, "har": 1e-6}.get(name, 0)
    for data in (tmp_path, tmp_path / inner / made):
        check_all(READERS[name](data=str(data)), expected, tolerance)


@pytest.mark.parametrize(("mark", "packed"), [("-", True), (".", False)])
def test_idx_files_under_their_other_names(mark: str, packed: bool, tmp_path: Path) -> None:
    expected = dataset_files.mnist_idx(tmp_path, mark, packed=packed)
    check_all(READERS["mnist"](data=str(tmp_path)), expected)


@pytest.mark.parametrize("split", CLASSES)
def test_every_split_of_emnist_is_upright_and_its_classes_begin_at_0(split: str, tmp_path: Path) -> None:
    expected = dataset_files.emnist(tmp_path, split, packed=True, each=2)
    data = READERS["emnist"](**expected.options)
    check_all(data, expected)
    assert data.classes == CLASSES[split]


def test_writers_of_an_npz_are_groups(tmp_path: Path) -> None:
    dataset_files.mnist(tmp_path, 60, 40, writer_train=np.arange(60) // 10, writer_test=np.arange(40) // 10)
    data = READERS["mnist"](data=str(tmp_path))
    assert (data.group, data.same_groups) == ("writer", False)
    assert np.array_equal(np.asarray(data.groups), [*np.arange(60) // 10, *np.arange(40) // 10])


def python_2(content: dict[bytes, Any]) -> bytes:
    """A batch byte for byte as the published files are: pickled by Python 2, whose strings are no unicode."""
    labels, data = content[b"labels"], content[b"data"]

    def text(value: bytes) -> bytes:
        return b"T" + struct.pack("<i", len(value)) + value if len(value) > 255 else b"U" + bytes([len(value)]) + value

    def number(value: int) -> bytes:
        return b"J" + struct.pack("<i", value)

    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00t" + text(b"b") + b"tR"
        + b"(K\x01(" + number(data.shape[0]) + number(data.shape[1]) + b"t"
        + b"cnumpy\ndtype\n(" + text(b"u1") + b"K\x00K\x01tR(K\x03" + text(b"|")
        + b"NNN" + number(-1) + number(-1) + b"K\x00tb" + b"\x89" + text(data.tobytes()) + b"tb"
    )  # fmt: skip
    numbers = b"](" + b"".join(number(label) for label in labels) + b"e"
    return b"\x80\x02}(" + text(b"labels") + numbers + text(b"data") + array + b"u."


def with_str_keys(content: dict[bytes, Any]) -> bytes:
    return pickle.dumps({name.decode(): value for name, value in content.items()})


def with_protocol(protocol: int) -> Callable[[dict[bytes, Any]], bytes]:
    return lambda content: pickle.dumps(content | {b"filenames": [b"x.png"]}, protocol=protocol)


@pytest.mark.parametrize("dump", [python_2, with_str_keys, *map(with_protocol, range(1, 6))])
def test_cifar_is_read_however_it_was_pickled(tmp_path: Path, dump: Callable[[Any], bytes]) -> None:
    expected = dataset_files.cifar10(tmp_path, dump, 5)
    check_all(READERS["cifar10"](data=str(tmp_path)), expected)


def writers_of(task: Any) -> list[set[int]]:
    """The writers of a task's parts, by the first pixel."""
    parts = [part.tensors[0][:, 0, 0, 0] for part in (task.train, task.validation, task.test) if part is not None]
    return [{*np.rint((part.numpy() + 1) * 127.5).astype(int).tolist()} for part in parts]


def leaf_folder(folder: Path, writers: dict[str, list[int]]) -> None:
    """A file for each name: 30 images of each writer, whose first pixel is the writer."""
    for name, which in writers.items():
        images = {f"w{n}": dataset_files.pixels(30, 784, seed=n) / 255 for n in which}
        for n in which:
            images[f"w{n}"][:, 0] = n / 255
        dataset_files.leaf(folder / f"{name}.json", images)


@pytest.mark.parametrize("names", [("train/a", "test/a"), ("all_data/a", "all_data/b"), ("a", "b")])
def test_leafs_split_by_writers_is_merged_for_writers(names: tuple[str, str], tmp_path: Path) -> None:
    """With LEAF's `-t user` no test sample is from a writer to train on: each peer holds out some of its own."""
    leaf_folder(tmp_path, {names[0]: [0, 1, 2], names[1]: [3]})
    for rank in range(4):
        task = load_task("femnist", rank, 4, 0, {"data": str(tmp_path)})
        assert writers_of(task) == [{rank}, {rank}]
        assert len(task.test) == 6
    if names[0] == "train/a":
        task = load_task("femnist", 0, 2, 0, {"data": str(tmp_path)}, Choices(partition="iid"))
        assert writers_of(task)[1] == {3}


def test_windows_of_har_that_overlap_are_a_stretch_in_any_order(tmp_path: Path) -> None:
    whole = dataset_files.har_arrays({"train": (1, 3, 5), "test": (2, 4)})
    order = np.random.default_rng(0).permutation(len(whole["x"]))
    others = {"names": np.array(["walking"], dtype=object)}  # of no use here, and never unpickled
    np.savez(tmp_path / "har.npz", **{name: array[order] for name, array in whole.items()}, **others)
    assert len(READERS["har"](data=str(tmp_path / "har.npz")).train) == 90
    x, y, subject = (whole[name][order] for name in ("x", "y", "subject"))
    found = stretches(x, y, subject)
    assert len({*zip(found.tolist(), subject.tolist(), y.tolist(), strict=True)}) == len({*found.tolist()}) == 30


def test_without_overlap_rows_of_har_that_follow_each_other_are_a_stretch() -> None:
    x = np.random.default_rng(0).normal(size=(7, 128, 9))
    found = stretches(x, np.array([0, 0, 1, 1, 1, 0, 0]), np.array([1, 1, 1, 1, 2, 2, 2]))
    assert [found.tolist().index(number) for number in found] == [0, 0, 2, 2, 4, 5, 5]
