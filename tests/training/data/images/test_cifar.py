import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpeer.exceptions import TaskError
from dpeer.training import Choices, load_task
from dpeer.training.data.images.cifar import cifar10, cifar100

Write = Any


def images(count: int, seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 256, (count, 3072), dtype=np.uint8)


def python_2(data: np.ndarray[Any, Any], labels: list[int]) -> bytes:
    """A batch byte for byte as the published files are: pickled by Python 2, whose strings are no unicode."""

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


def with_protocol(protocol: int, key: type = bytes) -> Write:
    def write(data: np.ndarray[Any, Any], labels: list[int]) -> bytes:
        content = {b"batch_label": b"a batch", b"labels": labels, b"data": data, b"filenames": [b"x.png"] * len(labels)}
        named = content if key is bytes else {name.decode(): value for name, value in content.items()}
        return pickle.dumps(named, protocol=protocol)

    return write


def cifar_10(folder: Path, write: Write = python_2, count: int = 30) -> Path:
    inner = folder / "cifar-10-batches-py"
    inner.mkdir()
    names = [f"data_batch_{n}" for n in range(1, 6)] + ["test_batch"]
    for seed, name in enumerate(names):
        (inner / name).write_bytes(write(images(count, seed), [(n + seed) % 10 for n in range(count)]))
    return inner


@pytest.mark.parametrize(
    "write", [python_2, *map(with_protocol, range(2, 6)), with_protocol(2, str), with_protocol(5, str)]
)
def test_reads_what_is_there_however_it_was_pickled(tmp_path: Path, write: Write) -> None:
    cifar_10(tmp_path, write)
    data = cifar10(str(tmp_path))
    assert data.test is not None
    assert data.train.inputs.shape == (150, 3, 32, 32)
    assert data.test.inputs.shape == (30, 3, 32, 32)
    assert np.array_equal(data.train.inputs[60:90].numpy().reshape(30, -1), images(30, 2))
    assert np.array_equal(data.test.inputs.numpy().reshape(30, -1), images(30, 5))
    assert data.train.targets[60:70].tolist() == [2, 3, 4, 5, 6, 7, 8, 9, 0, 1]
    assert data.test.targets[:3].tolist() == [5, 6, 7]
    assert data.classes == 10


def test_a_pixel_is_where_the_format_says(tmp_path: Path) -> None:
    """Red, green and blue planes of 1024 bytes, row by row; the model gets -1..1."""
    inner = cifar_10(tmp_path)
    batch = np.zeros((30, 3072), np.uint8)
    batch[4, 1024 + 32 * 3 + 7] = 255
    (inner / "data_batch_1").write_bytes(python_2(batch, [0] * 30))
    pool = cifar10(str(inner)).train
    image = pool.rows(np.array([4]))[0][0]
    assert image[1, 3, 7] == 1.0
    assert (image == -1.0).sum() == 3071


def test_cifar_100_has_fine_labels(tmp_path: Path) -> None:
    inner = tmp_path / "cifar-100-python"
    inner.mkdir()
    for seed, name in enumerate(("train", "test")):
        content = {b"fine_labels": list(range(100)), b"coarse_labels": [3] * 100, b"data": images(100, seed)}
        (inner / name).write_bytes(pickle.dumps(content, protocol=2))
    data = cifar100(str(tmp_path))
    assert data.test is not None
    assert data.classes == 100
    assert data.test.targets.tolist() == list(range(100))
    assert np.array_equal(data.train.inputs.numpy().reshape(100, -1), images(100, 0))


class Evil:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path("evil"),))


class EvilCodec:
    def __reduce__(self) -> Any:
        import codecs

        return (codecs.encode, ("x", "rot13"))


GOOD = images(4, 0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"expected the file data_batch_3 in .*cifar-10-batches-py; from https://www.cs"),
        (b"", "data_batch_3 is damaged or no such file: EOFError.*get it anew from https"),
        (python_2(GOOD, [1, 2, 3, 4])[:-900], "data_batch_3 is damaged"),
        (b"<html>not found</html>", "data_batch_3 is damaged"),
        (pickle.dumps([1, 2]), "data_batch_3 is damaged"),
        (pickle.dumps({b"data": GOOD}), "damaged.*KeyError"),
        (pickle.dumps({b"data": GOOD, b"fine_labels": [1] * 4}), "damaged.*KeyError"),
        (python_2(GOOD, [1, 2, 3]), "data_batch_3 does not hold what was expected: rows of 3072 bytes, one per label"),
        (python_2(GOOD[:, :100], [1, 2, 3, 4]), "rows of 3072 bytes"),
        (pickle.dumps({b"data": GOOD.astype(float), b"labels": [1] * 4}), "rows of 3072 bytes"),
        (python_2(GOOD, [1, 2, 3, 10]), "labels 0 to 9"),
        (python_2(GOOD, [1, 2, 3, -1]), "labels 0 to 9"),
        (pickle.dumps({b"data": GOOD, b"labels": [0.5] * 4}), "damaged.*TypeError"),
        (pickle.dumps({b"data": GOOD, b"labels": Evil()}), "damaged.*it asks for .*touch, which CIFAR's files do not"),
        (pickle.dumps({b"data": GOOD, b"labels": EvilCodec()}, protocol=2), "damaged.*holds bytes as 'rot13'"),
    ],
)
def test_a_damaged_file_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    inner = cifar_10(tmp_path, count=4)
    if content is None:
        (inner / "data_batch_3").unlink()
    else:
        (inner / "data_batch_3").write_bytes(content)
    with pytest.raises(TaskError, match=message) as caught:
        cifar10(str(tmp_path))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "evil").exists()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    packed = tmp_path / "cifar-10-python.tar.gz"
    packed.write_bytes(b"x")
    for value, message in [
        (None, r"needs --task-option data=DIR, the folder that holds cifar-10-batches-py; from https"),
        (str(tmp_path / "no"), r"is not a folder; expected one that holds cifar-10-batches-py, from https"),
        (str(packed), "is not a folder: unpack it"),
        (3, "data = 3: expected the name of the folder"),
        ([], r"data = \[\]: expected a path"),
    ]:
        with pytest.raises(TaskError, match=message):
            load_task("cifar10", 0, 2, 0, {} if value is None else {"data": value})


def test_a_task_of_some_of_the_images(tmp_path: Path) -> None:
    cifar_10(tmp_path)
    options = {"data": str(tmp_path), "train_samples": 100, "test_samples": 20}
    tasks = [load_task("cifar10", rank, 2, 3, options, Choices(partition="iid")) for rank in range(2)]
    assert [len(task.train) for task in tasks] == [50, 50]
    assert sum(len(task.test) for task in tasks) == 20
    assert tasks[0].train[0][0].shape == (3, 32, 32)
    for option, value in (
        ("train_samples", 151),
        ("test_samples", 0),
        ("train_samples", "many"),
        ("test_samples", [3]),
    ):
        with pytest.raises(TaskError, match=f"task option {option} = "):
            load_task("cifar10", 0, 2, 3, {**options, option: value})


@pytest.mark.slow
@pytest.mark.long
def test_the_real_one(tmp_path: Path, shared: Path, run_program: Any) -> None:
    pytest.importorskip("PIL", reason="cifar10.py needs Pillow")
    run_program(shared / "cifar10.py", tmp_path)
    data = cifar10(str(tmp_path))
    assert data.test is not None
    labels = np.load(shared / "cifar10" / "labels.npz")
    assert np.array_equal(data.train.targets.numpy(), labels["y_train"])
    assert np.array_equal(data.test.targets.numpy(), labels["y_test"])
    assert np.bincount(data.train.labels()).tolist() == [5000] * 10
    assert np.bincount(data.test.labels()).tolist() == [1000] * 10
    from PIL import Image

    mosaic = np.asarray(Image.open(shared / "cifar10" / "data_batch_2.webp").convert("RGB"))
    image = mosaic[32:64, 5 * 32 : 6 * 32]  # number 105 of the batch
    assert np.array_equal(data.train.inputs[10_105].numpy().transpose(1, 2, 0), image)


@pytest.mark.slow
def test_a_shortened_real_one(tmp_path: Path, shared: Path, run_program: Any) -> None:
    """Its later batches are empty."""
    pytest.importorskip("PIL", reason="cifar10.py needs Pillow")
    run_program(shared / "cifar10.py", tmp_path, "--train", "2000", "--test", "500")
    data = cifar10(str(tmp_path))
    assert data.test is not None
    assert (len(data.train), len(data.test)) == (2000, 500)
