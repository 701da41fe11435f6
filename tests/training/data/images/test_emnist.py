import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpeer.exceptions import TaskError, UnknownName
from dpeer.training import Choices, load_task
from dpeer.training.data.images.emnist import CLASSES, emnist

Array = np.ndarray[Any, Any]
COUNTS = {"train": 80, "test": 40}


def characters(split: str, part: str) -> tuple[Array, Array]:
    """Images as one would look at them, and class numbers."""
    images = np.random.default_rng(len(part)).integers(0, 256, (COUNTS[part], 28, 28), dtype=np.uint8)
    return images, np.arange(COUNTS[part]) % CLASSES[split]


def idx(shape: tuple[int, ...], content: bytes) -> bytes:
    return struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape) + content


def folder(where: Path, split: str = "byclass", *, packed: bool = False, add: int = 0) -> Path:
    """NIST's files: images column by column, and letters whose labels begin at 1."""
    where.mkdir(parents=True, exist_ok=True)
    for part, count in COUNTS.items():
        images, classes = characters(split, part)
        columns = b"".join(image.tobytes(order="F") for image in images)
        labels = (classes + (split == "letters") + add).astype(np.uint8).tobytes()
        for kind, content in (
            ("images-idx3", idx((count, 28, 28), columns)),
            ("labels-idx1", idx((count,), labels)),
        ):
            path = where / f"emnist-{split}-{part}-{kind}-ubyte{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(content) if packed else content)
    return where


@pytest.mark.parametrize("split", CLASSES)
def test_images_are_upright_and_classes_begin_at_0(split: str, tmp_path: Path) -> None:
    data = emnist(str(folder(tmp_path, split)), split)
    assert data.test is not None
    for pool, part in ((data.train, "train"), (data.test, "test")):
        images, classes = characters(split, part)
        assert pool.inputs.shape == (COUNTS[part], 1, 28, 28)
        assert pool.inputs.is_contiguous()
        assert np.array_equal(pool.inputs[:, 0].numpy(), images)
        assert np.array_equal(pool.targets.numpy(), classes)
    assert (data.classes, data.group, data.mirrored, data.background) == (CLASSES[split], None, False, -1.0)


def test_a_seven_has_its_bar_on_top(tmp_path: Path) -> None:
    seven = np.zeros((28, 28), np.uint8)
    seven[4, 5:22] = 255
    seven[4:24, 21] = 255
    where = folder(tmp_path, "digits")
    path = where / "emnist-digits-train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:16] + seven.tobytes(order="F") * COUNTS["train"])
    found = emnist(str(where), "digits").train.inputs[7, 0]
    assert found[4, 5:22].min() == 255
    assert found[4:24, 5].tolist() == [255] + [0] * 19


@pytest.mark.parametrize("inner", [".", "gzip", "EMNIST/raw", "raw", "emnist", "emnist/gzip"])
@pytest.mark.parametrize("packed", [False, True])
def test_where_the_files_are(inner: str, packed: bool, tmp_path: Path) -> None:
    folder(tmp_path / inner, packed=packed)
    assert len(emnist(str(tmp_path)).train) == COUNTS["train"]


@pytest.mark.parametrize(
    ("split", "classes"), [("byclass", 62), ("bymerge", 47), ("balanced", 47), ("letters", 26), ("digits", 10)]
)
def test_a_label_beyond_the_classes(split: str, classes: int, tmp_path: Path) -> None:
    first = 1 if split == "letters" else 0
    with pytest.raises(TaskError, match=f"labels {first} to {first + classes - 1}$"):
        emnist(str(folder(tmp_path, split, add=1)), split)


def test_letters_without_a_label_0(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"labels 1 to 26$"):
        emnist(str(folder(tmp_path, "letters", add=-1)), "letters")


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        TaskError, match=r"data=DIR, the folder that holds emnist-byclass-train-images-idx3-ubyte.gz \.\.\.; from https"
    ):
        emnist(None)
    with pytest.raises(
        TaskError,
        match=r"expected emnist-byclass-train-images-idx3-ubyte or emnist-byclass-train-.*-ubyte.gz, in .*nist",
    ):
        emnist(str(tmp_path))
    folder(tmp_path, "letters")
    folder(tmp_path, "mnist")
    with pytest.raises(TaskError, match=r"ubyte.gz \(of split=byclass; there is split=letters, mnist\), in "):
        emnist(str(tmp_path))
    (tmp_path / "emnist-letters-test-labels-idx1-ubyte").unlink()
    with pytest.raises(TaskError, match=r"expected emnist-letters-test-labels-idx1-ubyte or .*ubyte.gz, in "):
        emnist(str(tmp_path), "letters")
    (tmp_path / "gzip.zip").touch()
    with pytest.raises(TaskError, match="is not a folder: unpack it"):
        emnist(str(tmp_path / "gzip.zip"))


def test_damaged_files(tmp_path: Path) -> None:
    path = folder(tmp_path, packed=True) / "emnist-byclass-train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(TaskError, match=r"task 'emnist': .*idx3-ubyte.gz is damaged or no such file.*get it anew"):
        emnist(str(tmp_path))


def test_the_task(tmp_path: Path) -> None:
    folder(tmp_path, "letters")
    folder(tmp_path, "byclass")
    options = {"data": str(tmp_path), "split": "letters", "train_samples": 60, "test_samples": 20}
    tasks = [load_task("emnist", rank, 2, 0, options, Choices(partition="iid", augment=True)) for rank in range(2)]
    images, classes = characters("letters", "train")
    for task in tasks:
        assert (len(task.train), len(task.test)) == (30, 10)
        assert task.indices is not None
        rows = task.indices["train"]
        assert np.array_equal(task.train.tensors[0][:, 0].numpy(), images[rows].astype(np.float32) / 127.5 - 1)
        assert np.array_equal(task.train.tensors[1].numpy(), classes[rows])
        assert task.built is not None
        assert task.built["outputs"] == 26
    without = load_task("emnist", 0, 2, 0, {"data": str(tmp_path)}, Choices(partition="iid"))
    assert without.built is not None
    assert without.built["outputs"] == 62


def test_a_data_set_is_read_once_for_all_peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder(tmp_path)
    opened: list[str] = []
    read_bytes = Path.read_bytes

    def counted(path: Path) -> bytes:
        opened.append(path.name)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", counted)
    for rank in range(3):
        load_task("emnist", rank, 3, 0, {"data": str(tmp_path)}, Choices(partition="iid"))
    assert len(opened) == 4


@pytest.mark.parametrize("option", ["byclas", ["byclass"], None, 62])
def test_a_split_that_there_is_not(option: Any, tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match=r"unknown split of task 'emnist' .*valid: byclass, bymerge, balanced"):
        load_task("emnist", 0, 2, 0, {"data": str(tmp_path), "split": option})


def test_data_that_is_no_path() -> None:
    with pytest.raises(TaskError, match=r"task option data = \['a'\]: expected a path"):
        load_task("emnist", 0, 2, 0, {"data": ["a"]})
