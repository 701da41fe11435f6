"""Error messages of training/data/ and training/tasks/: published data sets that are missing or damaged."""

import gzip
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dpeer.exceptions import PartitionError, TaskError, UnknownName
from dpeer.training import Choices, forget, load_task
from dpeer.training.data.femnist import femnist
from dpeer.training.data.glue import Glue, glue
from tests.messages.message import Message, file
from tests.training import dataset_files
from tests.training.dataset_files import READERS, idx, numbers, pixels

Cause = Callable[[Path], Any]
SMALL: dict[str, Callable[[Path], dataset_files.Written]] = {
    "cifar10": lambda folder: dataset_files.cifar10(folder, each=4),
    "tiny-imagenet": lambda folder: dataset_files.tiny_imagenet(folder, 4, 2),
    "mnist": lambda folder: dataset_files.mnist_idx(folder, counts=(6, 4)),
    "emnist": lambda folder: dataset_files.emnist(folder, packed=True, each=2),
    "femnist": lambda folder: dataset_files.femnist(folder, (3, 2)),
    "har": lambda folder: dataset_files.har_folder(folder, 2),
    "glue": dataset_files.glue,
}


def damaged(name: str, where: str, content: bytes | str | None) -> Cause:
    """A cause: the files of a data set are read, of which one has other content, or is missing."""

    def cause(folder: Path) -> Any:
        options, path = SMALL[name](folder).options, folder / where
        path.unlink()
        if content is not None:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return (
            READERS[name](options["data"]) if name in READERS else glue(Glue(str(folder), "sst2", None, 32, skip=False))
        )

    return cause


def npz(name: str, **arrays: Any) -> Cause:
    """A cause: an .npz is read that has these arrays; None leaves one out."""

    def cause(folder: Path) -> Any:
        if name == "mnist":
            dataset_files.mnist(folder, 6, 4, **arrays)
        else:
            np.savez(folder / "har.npz", **dataset_files.har_arrays({"train": (1,), "test": (2,)}, 2, **arrays))
        return READERS[name](str(folder / f"{name}.npz"))

    return cause


def only(name: str, path: str, **arrays: Any) -> Cause:
    """A cause: an .npz is read that has no other arrays than these."""

    def cause(folder: Path) -> Any:
        np.savez(folder / path, **arrays)
        return READERS[name](str(folder / path))

    return cause


def task(task: str, /, *, partition: str | None = None, size: int = 2, write: Any = None, **options: Any) -> Cause:
    """A cause: a task is loaded, of files if there is a writer of them."""

    def cause(folder: Path) -> Any:
        forget()
        given = {} if write is None else write(folder).options
        return load_task(task, 0, size, 0, {**given, **options}, Choices(partition=partition))

    return cause


def leaf(**changes: Any) -> str:
    """The content of a file of LEAF's, with another entry of its last writer."""
    users: dict[str, Any] = {name: {"x": [[0.0] * 784] * 5, "y": [1, 2, 3, 4, 5]} for name in ("f0", "f1")}
    users["f1"] |= changes
    return json.dumps({"users": ["f0", "f1"], "num_samples": [5, 5], "user_data": users})


class Evil:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path("evil"),))


class EvilCodec:
    def __reduce__(self) -> Any:
        import codecs

        return (codecs.encode, ("x", "rot13"))


GOOD = pixels(4, 3072)
BATCH = "cifar-10-batches-py/data_batch_3"
TINY = "tiny-imagenet-200/"
HAR = "UCI HAR Dataset/"
SIGNAL = HAR + "train/Inertial Signals/body_acc_x_train.txt"
IMAGES = pixels(6, 28, 28)


def batch(labels: Any, data: Any = GOOD, protocol: int = 4) -> bytes:
    return pickle.dumps({b"data": data, b"labels": labels}, protocol=protocol)


def wrong(name: str, path: str, expected: str) -> str:
    return f"task {name!r}: {{folder}}/{path} does not hold what was expected: {expected}"


def damage(name: str, path: str, why: str = "…") -> str:
    return f"task {name!r}: {{folder}}/{path} is damaged or no such file: {why} (get it anew from …)"


def absent(name: str, path: str) -> str:
    where, _, base = f"{{folder}}/{path}".rpartition("/")
    return f"task {name!r}: expected the file {base} in {where}; from …"


def missing(name: str, path: str) -> Message:
    return Message(damaged(name, path, None), TaskError, absent(name, path))


def unfit(name: str, path: str, content: bytes | str, expected: str) -> Message:
    return Message(damaged(name, path, content), TaskError, wrong(name, path, expected))


def broken(name: str, path: str, content: bytes | str, why: str = "…") -> Message:
    return Message(damaged(name, path, content), TaskError, damage(name, path, why))


def unfit_npz(name: str, expected: str, **arrays: Any) -> Message:
    return Message(npz(name, **arrays), TaskError, wrong(name, f"{name}.npz", expected))


def broken_npz(name: str, why: str, **arrays: Any) -> Message:
    return Message(npz(name, **arrays), TaskError, damage(name, f"{name}.npz", why))


def letters(add: int) -> Cause:
    """A cause: the split of letters is read, whose labels are moved."""
    return lambda folder: dataset_files.read_emnist(
        dataset_files.emnist(folder, "letters", add=add, each=1).options["data"], "letters"
    )


NPZ_SHAPE = "x (windows, 128, 9), y, subject, is_test"
IDX = "train-images-idx3-ubyte"
EMNIST = "emnist-byclass-train-images-idx3-ubyte"

MESSAGES = {
    "no folder": Message(task("cifar10"), TaskError,
        "task 'cifar10' needs --task-option data=DIR, the folder that holds …"),
    "a folder elsewhere": Message(task("har", data="no"), TaskError,
        "task 'har': data = 'no' is not a folder; expected one that holds UCI HAR Dataset, from …"),
    "a packed folder": Message(file("x.tar.gz", "", lambda path: READERS["emnist"](str(path))), TaskError,
        "task 'emnist': data = '{folder}/x.tar.gz' is not a folder: unpack it and give the folder around …"),
    "a number for a folder": Message(task("cifar10", data=3), TaskError,
        "task 'cifar10': data = 3: expected the name of the folder that holds cifar-10-batches-py"),
    "a list for a folder": Message(task("emnist", data=["a"]), TaskError, "task option data = ['a']: expected a path"),
    "more samples than there are": Message(task("cifar10", train_samples=201, write=dataset_files.cifar10), TaskError,
        "task option train_samples = 201: expected a number of samples, 1 to 200"),
    "no samples": Message(task("cifar10", test_samples=0, write=dataset_files.cifar10), TaskError,
        "task option test_samples = 0: expected a number of samples, 1 to 40"),
    "a word for a number": Message(task("cifar10", test_samples="many", write=dataset_files.cifar10), TaskError,
        "task option test_samples = 'many': expected a number of samples, 1 to 40"),
    "a list for a number of samples": Message(task("cifar10", data="x", test_samples=[3]), TaskError,
        "task option test_samples = [3]: expected a number"),
    "more peers than persons": Message(task("har", size=5, write=dataset_files.har), PartitionError,
        "partition 'subject': the data are from 4 subjects, too few for 5 peers; at most --size 4"),
    "writers of persons": Message(task("har", partition="writer", write=dataset_files.har), PartitionError,
        "partition 'writer': the data do not say which writer a sample is from; these know each sample's subject"),
    "no batch": missing("cifar10", BATCH),
    "an empty batch": broken("cifar10", BATCH, "", "EOFError: …"),
    "a list for a batch": broken("cifar10", BATCH, pickle.dumps([1])),
    "a batch of fine labels": broken("cifar10", BATCH, pickle.dumps({b"data": GOOD, b"fine_labels": [1] * 4}),
        "KeyError: b'labels'"),
    "too few labels": unfit("cifar10", BATCH, batch([1, 2, 3]), "rows of 3072 bytes, one per label"),
    "short images": unfit("cifar10", BATCH, batch([1] * 4, GOOD[:, :9]), "rows of 3072 bytes, one per label"),
    "a label beyond": unfit("cifar10", BATCH, batch([1, 2, 3, 10]), "labels 0 to 9"),
    "a label below": unfit("cifar10", BATCH, batch([1, 2, 3, -1]), "labels 0 to 9"),
    "labels of floats": broken("cifar10", BATCH, batch([0.5] * 4), "TypeError: …"),
    "a pickle that runs code": broken("cifar10", BATCH, batch(Evil()),
        "UnpicklingError: it asks for …touch, which CIFAR's files do not"),
    "a pickle that decodes": broken("cifar10", BATCH, batch(EvilCodec(), protocol=2),
        "UnpicklingError: it holds bytes as 'rot13', which CIFAR's files do not"),
    "no list of classes": missing("tiny-imagenet", TINY + "wnids.txt"),
    "a class twice": unfit("tiny-imagenet", TINY + "wnids.txt", "n1\nn1\n", "a class a line, each once"),
    "bytes for classes": broken("tiny-imagenet", TINY + "wnids.txt", b"\xff\xfe\xff", "UnicodeDecodeError: …"),
    "a class without images": Message(damaged("tiny-imagenet", TINY + "wnids.txt", "n02124075\nn9\n"), TaskError,
        f"task 'tiny-imagenet': expected *.JPEG in {{folder}}/{TINY}train/n9/images; from …"),
    "no annotations": unfit("tiny-imagenet", TINY + "val/val_annotations.txt", "", "an image a line"),
    "annotations of another class": unfit("tiny-imagenet", TINY + "val/val_annotations.txt", "val_0.JPEG\tn07\t0\n",
        "a file's name and a class of wnids.txt, between tabs; line 1 is ['val_0.JPEG', 'n07', '0']"),
    "an annotation of no image": missing("tiny-imagenet", TINY + "val/images/val_4.JPEG"),
    "a damaged image": Message(damaged("tiny-imagenet", TINY + "val/images/val_4.JPEG", "no image"), TaskError,
        f"task 'tiny-imagenet': the image {{folder}}/{TINY}val/images/val_4.JPEG cannot be read: UnidentifiedImage…"),
    "no idx file": Message(damaged("mnist", IDX, None), TaskError,
        f"task 'mnist': expected {IDX} or {IDX}.gz, or mnist.npz, in {{folder}}; from …"),
    "a short idx file": broken("mnist", IDX, idx(IMAGES)[:-1], "ValueError: …"),
    "an empty idx file": broken("mnist", IDX, "", "error: …"),
    "labels for images": broken("mnist", IDX, idx(numbers(99, 10)),
        "ValueError: it does not begin as an idx file of 3 dimensions does"),
    "images of another size": unfit("mnist", IDX, idx(IMAGES[:, :20]),
        "images of 28x28 bytes, one label each; it has (6, 20, 28) and (6,)"),
    "more labels than images": unfit("mnist", IDX, idx(IMAGES[:5]),
        "images of 28x28 bytes, one label each; it has (5, 28, 28) and (6,)"),
    "a label of no digit": Message(damaged("mnist", "train-labels-idx1-ubyte", idx(numbers(6, 10) + 5)), TaskError,
        wrong("mnist", IDX, "labels 0 to 9")),
    "a short gz": broken("emnist", EMNIST + ".gz", gzip.compress(b"x" * 99)[:-9]),
    "no file of a split": Message(damaged("emnist", EMNIST + ".gz", None), TaskError,
        f"task 'emnist': expected {EMNIST} or {EMNIST}.gz, in {{folder}}; from …"),
    "files of other splits": Message(lambda folder:
        READERS["emnist"](dataset_files.emnist(folder, "letters", each=1).options["data"]), TaskError,
        f"task 'emnist': expected {EMNIST} or {EMNIST}.gz (of split=byclass; the folder holds split=letters), in …"),
    "a letter beyond": Message(letters(1), TaskError,
        wrong("emnist", "emnist-letters-train-images-idx3-ubyte", "labels 1 to 26")),
    "a letter below": Message(letters(-1), TaskError,
        wrong("emnist", "emnist-letters-train-images-idx3-ubyte", "labels 1 to 26")),
    "an unknown split": Message(task("emnist", data="x", split=["byclass"]), UnknownName,
        "unknown split of task 'emnist' \"['byclass']\": …valid: byclass, bymerge, balanced, letters, digits, mnist"),
    "no npz": Message(lambda folder: READERS["mnist"](str(folder / "o.npz")), TaskError, absent("mnist", "o.npz")),
    "text for an npz": Message(file("mnist.npz", "text", lambda path: READERS["mnist"](str(path.parent))), TaskError,
        damage("mnist", "mnist.npz")),
    "an npz without an array": unfit_npz("mnist",
        "arrays x_train, y_train, x_test, y_test; it has x_train, y_train, y_test, y", x_test=None, y=numbers(6, 10)),
    "an npz of many others": Message(only("har", "h.npz", **{f"a{number}": np.zeros(1) for number in range(99)}),
        TaskError,
        wrong("har", "h.npz", "arrays x, y, subject, is_test; it has a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, ...")),
    "an npz of none": Message(only("har", "h.npz"), TaskError,
        wrong("har", "h.npz", "arrays x, y, subject, is_test; it has none")),
    "images from 0 to 1 in an npz": unfit_npz("mnist",
        "images of 28x28 bytes, one label each; it has (6, 28, 28) and (6,)", x_train=IMAGES / 255),
    "labels of floats in an npz": unfit_npz("mnist",
        "images of 28x28 bytes, one label each; it has (6, 28, 28) and (6,)", y_train=numbers(6, 10) / 10),
    "pickled labels in an npz": broken_npz("mnist", "ValueError: …pickle…", y_train=numbers(6, 10).astype(object)),
    "too few writers": unfit_npz("mnist", "one writer per label; writer_train has shape (3,)",
        writer_train=np.arange(3)),
    "writers that are not known": Message(task("mnist", partition="writer", write=dataset_files.mnist), PartitionError,
        "partition 'writer': the data do not say which writer a sample is from"),
    "no activities": missing("har", HAR + "train/y_train.txt"),
    "an empty file of activities": unfit("har", HAR + "train/y_train.txt", "", "rows of 1 numbers"),
    "two activities a row": unfit("har", HAR + "train/y_train.txt", "1 2\n3 4\n", "rows of 1 numbers"),
    "too few persons": unfit("har", HAR + "test/subject_test.txt", "1\n1\n", "24 rows, as y_test.txt has"),
    "a seventh activity": unfit("har", HAR + "test/y_test.txt", "7\n" * 24, "activities 1 to 6"),
    "activity 0": unfit("har", HAR + "test/y_test.txt", "0\n" * 24, "activities 1 to 6"),
    "short windows": unfit("har", SIGNAL, "1 2 3\n" * 36, "rows of 128 numbers"),
    "too few windows": unfit("har", SIGNAL, ("1 " * 128 + "\n") * 35, "36 rows, as y_train.txt has"),
    "windows of two lengths": broken("har", SIGNAL, "1 2\n3\n"),
    "windows that are not finite": unfit("har", SIGNAL, ("nan " * 128 + "\n") * 36, "finite numbers"),
    "fewer windows than activities": unfit_npz("har", NPZ_SHAPE, x=np.zeros((23, 128, 9), np.float32)),
    "channels before time": unfit_npz("har", NPZ_SHAPE, x=np.zeros((24, 9, 128), np.float32)),
    "names of persons": unfit_npz("har", NPZ_SHAPE, subject=np.array(["a"] * 24)),
    "an activity beyond": unfit_npz("har", "activities y from 0 to 5", y=np.full(24, 6)),
    "an npz that is not finite": unfit_npz("har", "finite numbers", x=np.full((24, 128, 9), np.nan, np.float32)),
    "no json": Message(lambda folder: READERS["femnist"](str(folder)), TaskError,
        "task 'femnist': expected json files in {folder}, or train/*.json and test/*.json; from …"),
    "no json for testing": Message(file("train/a.json", leaf(), lambda path: READERS["femnist"](str(path.parents[1]))),
        TaskError, "task 'femnist': expected json files in {folder}/test, or train/*.json and test/*.json; from …"),
    **{
        f"LEAF: {name}": broken("femnist", "train/all_data_0.json", content, why)
        for name, content, why in (
            ("empty", "", "JSONDecodeError: …"),
            ("no users", "{}", "KeyError: 'users'"),
            ("no samples of a user", '{"users": ["a"], "num_samples": [1], "user_data": {}}', "KeyError: 'a'"),
            ("too few labels", leaf(y=[1, 2, 3, 4]), "ValueError: writer 'f1' has 5 images and 4 labels of 5 samples"),
            ("a label beyond", leaf(y=[1, 2, 3, 4, 62]), "ValueError: writer 'f1' has labels 1 to 62, not 0 to 61"),
            ("labels of floats", leaf(y=[0.5] * 5), "TypeError: …"),
            ("short images", leaf(x=[[0.0] * 783] * 5), "ValueError: …"),
            ("bright pixels", leaf(x=[[1.5] * 784] * 5), "ValueError: writer 'f1' has pixels beyond 0 to 1"),
            ("no numbers", leaf(x=[[float("nan")] * 784] * 5), "ValueError: writer 'f1' has pixels beyond 0 to 1"),
            ("NUL", '{"users": ["a\\u0000"], "num_samples": [0], "user_data": {}}',
             "ValueError: writer 'a\\x00' has a NUL character in the name"),
        )
    },
    "LEAF: no samples":
        Message(file("a.json", '{"users": [], "num_samples": [], "user_data": {}}', lambda a: femnist(str(a.parent))),
        TaskError, "task 'femnist': {folder} does not hold what was expected: at least one sample"),
    "no sentences": missing("glue", "SST-2/train.tsv"),
    "a header alone": Message(damaged("glue", "SST-2/dev.tsv", "sentence\tlabel\n"), TaskError,
        "task 'glue': {folder}/SST-2/dev.tsv has no examples; get it anew from …"),
    "bytes for sentences": broken("glue", "SST-2/dev.tsv", b"sentence\tlabel\n\xff\xfe\t1\n"),
    "too many cells": Message(damaged("glue", "SST-2/train.tsv", "sentence\tlabel\na\tb\t1\n"), TaskError,
        "task 'glue': {folder}/SST-2/train.tsv, line 2: 3 columns, and the header has 2; --task-option …"),
    "an unknown label": Message(damaged("glue", "SST-2/train.tsv", "sentence\tlabel\na\t1\nb\t2\n"), TaskError,
        "task 'glue': {folder}/SST-2/train.tsv, line 3: label = '2'; expected one of 0, 1; --task-option …"),
    "no column of sentences": Message(damaged("glue", "SST-2/train.tsv", "text\tlabel\na\t1\n"), TaskError,
        "task 'glue': {folder}/SST-2/train.tsv, line 1: the column 'sentence' is missing; it has text, label"),
    "no column of labels": Message(damaged("glue", "SST-2/train.tsv", "sentence\na\n"), TaskError,
        "task 'glue': {folder}/SST-2/train.tsv, line 1: the column 'label' is missing"),
    "GLUE without a folder": Message(task("glue"), TaskError,
        "task 'glue' needs --task-option data=DIR, GLUE's folder"),
    "GLUE without a name": Message(task("glue", data="x"), TaskError, "task 'glue' needs --task-option name=sst2"),
    "an unknown task of GLUE": Message(task("glue", data="x", name="cola"), UnknownName,
        "unknown name of task 'glue' 'cola': valid: sst2, qqp, qnli, mnli"),
    "short sentences": Message(task("glue", data="x", name="sst2", length=4), TaskError,
        "task 'glue': task option length = 4: expected 8 to 4096 tokens"),
    "an unknown treatment of lines": Message(task("glue", data="x", name="sst2", malformed="no"), UnknownName,
        "unknown malformed of task 'glue' 'no': valid: refuse, skip"),
}  # fmt: skip
