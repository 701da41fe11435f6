"""Published data sets of which files are damaged, missing or of another kind."""

import codecs
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpeer.exceptions import ConfigurationError, TaskError
from dpeer.training import forget, load_task
from dpeer.training.data.glue import glue
from tests.error_texts import refused
from tests.training import dataset_files
from tests.training.dataset_files import READERS, idx, numbers, pixels

SMALL: dict[str, Callable[[Path], dataset_files.Written]] = {
    "cifar10": lambda folder: dataset_files.cifar10(folder, each=4),
    "tiny-imagenet": lambda folder: dataset_files.tiny_imagenet(folder, 4, 2),
    "mnist": lambda folder: dataset_files.mnist_idx(folder, counts=(6, 4)),
    "emnist": lambda folder: dataset_files.emnist(folder, packed=True, each=2),
    "femnist": lambda folder: dataset_files.femnist(folder, (3, 2)),
    "har": lambda folder: dataset_files.har_folder(folder, 2),
    "glue": dataset_files.glue,
}


class Evil:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path("evil"),))


class EvilCodec:
    def __reduce__(self) -> Any:
        return (codecs.encode, ("x", "rot13"))


def batch(labels: Any, data: Any = pixels(4, 3072), protocol: int = 4) -> bytes:  # noqa: B008 - is never changed
    return pickle.dumps({b"data": data, b"labels": labels}, protocol=protocol)


def leaf(**changes: Any) -> bytes:
    """The content of a file of LEAF's, with another entry of its last writer."""
    users: dict[str, Any] = {name: {"x": [[0.0] * 784] * 5, "y": [1, 2, 3, 4, 5]} for name in ("f0", "f1")}
    users["f1"] |= changes
    return json.dumps({"users": ["f0", "f1"], "num_samples": [5, 5], "user_data": users}).encode()


BATCH = "cifar-10-batches-py/data_batch_3"
CLASSES, NOTES = "tiny-imagenet-200/wnids.txt", "tiny-imagenet-200/val/val_annotations.txt"
IDX, EMNIST = "train-images-idx3-ubyte", "emnist-byclass-train-images-idx3-ubyte"
HAR = "UCI HAR Dataset/"
SIGNAL = HAR + "train/Inertial Signals/body_acc_x_train.txt"
LEAF = "train/all_data_0.json"


@pytest.mark.parametrize(
    ("name", "path", "content", "fragment"),
    [
        ("cifar10", BATCH, None, "expected the file data_batch_3 in "),
        ("cifar10", BATCH, batch([1, 2, 3]), "data_batch_3 does not hold what was expected: rows of 3072 bytes"),
        ("cifar10", BATCH, batch(Evil()), "cannot be read: UnpicklingError: it asks for "),
        ("cifar10", BATCH, batch(EvilCodec(), protocol=2), "UnpicklingError: it holds bytes as 'rot13'"),
        ("tiny-imagenet", CLASSES, b"n1\nn1\n", "a class a line, each once"),
        ("tiny-imagenet", CLASSES, b"n02124075\nn9\n", "train/n9/images"),
        ("tiny-imagenet", NOTES, b"", "an image a line"),
        ("mnist", IDX, None, f"expected {IDX} or {IDX}.gz, or mnist.npz, in "),
        ("mnist", IDX, idx(numbers(99, 10)), "it does not begin as an idx file of 3 dimensions"),
        ("mnist", IDX, idx(pixels(5, 28, 28)), "it has (5, 28, 28) and (6,)"),
        ("emnist", EMNIST + ".gz", None, f"expected {EMNIST} or {EMNIST}.gz, in "),
        ("har", HAR + "train/y_train.txt", b"", "rows of 1 numbers"),
        ("har", HAR + "test/subject_test.txt", b"1\n1\n", "24 rows, as y_test.txt has"),
        ("har", SIGNAL, b"1 2 3\n" * 36, "rows of 128 numbers"),
        ("femnist", LEAF, leaf(y=[1, 2, 3, 4]), "writer 'f1' has 5 images and 4 labels"),
        ("femnist", LEAF, leaf(y=[1, 2, 3, 4, 62]), "writer 'f1' has labels 1 to 62"),
        ("femnist", LEAF, leaf(x=[[2.0] * 784] * 5), "writer 'f1' has pixels that are no 255ths of 1"),
        ("femnist", LEAF, b'{"users": ["a\\u0000"], "num_samples": [0], "user_data": {}}', "writer 'a\\x00' has a NUL"),
        ("glue", "SST-2/dev.tsv", b"sentence\tlabel\n", "dev.tsv has no examples"),
        ("glue", "SST-2/train.tsv", b"sentence\na\n", "train.tsv, line 1: the column 'label' is missing"),
    ],
)  # fmt: skip
def test_a_file_is_not_what_was_expected(
    name: str, path: str, content: bytes | None, fragment: str, in_tmp_path: Path
) -> None:
    options = SMALL[name](in_tmp_path).options
    (in_tmp_path / path).unlink()
    if content is not None:
        (in_tmp_path / path).write_bytes(content)
    with refused(TaskError, f"task '{name}': ", fragment):
        READERS[name](data=options["data"]) if name in READERS else glue(data=".", name="sst2", length=32)
    assert not Path("evil").exists()


@pytest.mark.parametrize(
    ("name", "arrays", "fragment"),
    [
        ("mnist", {"x_test": None, "y": numbers(6, 10)}, "it has x_train, y_train, y_test, y"),
        ("mnist", {"writer_train": np.arange(3)}, "one writer per label; writer_train has shape (3,)"),
        ("har", {"x": np.zeros((24, 9, 128), np.float32)}, "x (windows, 128, 9), y, subject, is_test"),
        ("har", {"y": np.full(24, 6)}, "activities y from 0 to 5"),
        ("har", {"x": np.full((24, 128, 9), np.nan, np.float32)}, "finite numbers"),
    ],
)
def test_an_npz_is_not_what_was_expected(name: str, arrays: dict[str, Any], fragment: str, tmp_path: Path) -> None:
    if name == "mnist":
        dataset_files.mnist(tmp_path, 6, 4, **arrays)
    else:
        np.savez(tmp_path / "har.npz", **dataset_files.har_arrays({"train": (1,), "test": (2,)}, 2, **arrays))
    with refused(TaskError, f"task '{name}': {tmp_path}/{name}.npz does not hold what was expected: ", fragment):
        READERS[name](data=str(tmp_path / f"{name}.npz"))


def test_files_of_another_split_and_none_at_all(tmp_path: Path) -> None:
    np.savez(tmp_path / "h.npz", **{f"a{number}": np.zeros(1) for number in range(99)})
    with refused(TaskError, "it has a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, ..."):
        READERS["har"](data=str(tmp_path / "h.npz"))
    (tmp_path / "train").mkdir()
    with refused(TaskError, f"task 'femnist': expected json files in {tmp_path}"):
        READERS["femnist"](data=str(tmp_path))
    (tmp_path / "train" / "a.json").write_bytes(leaf())
    with refused(TaskError, f"task 'femnist': expected json files in {tmp_path}/test"):
        READERS["femnist"](data=str(tmp_path))
    with refused(TaskError, "(of split=byclass; the folder holds split=letters)"):
        READERS["emnist"](data=dataset_files.emnist(tmp_path, "letters", each=1).options["data"])
    with refused(TaskError, "labels 1 to 26"):
        options = dataset_files.emnist(tmp_path / "more", "letters", add=1, each=1).options
        dataset_files.read_emnist(data=options["data"], split="letters")


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        ({"data": 3}, "task 'cifar10': task option data = 3"),
        ({"data": "x.tar.gz"}, "task 'cifar10': data = 'x.tar.gz' is not a folder: unpack it"),
        ({"train_samples": 201}, "task option train_samples = 201: expected a number of samples, 1 to 200"),
        ({"test_samples": [3]}, "task option test_samples = [3]"),
    ],
)
def test_an_option_that_cannot_be(options: dict[str, Any], fragment: str, in_tmp_path: Path) -> None:
    forget()
    Path("x.tar.gz").touch()
    written = dataset_files.cifar10(in_tmp_path).options
    with refused(ConfigurationError, fragment):
        load_task("cifar10", 0, 2, 0, written | options)
