import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpeer.exceptions import PartitionError, TaskError
from dpeer.training import Choices, load_task
from dpeer.training.data.images.leaf import femnist

WRITERS = ["f0000_14", "f0001_41", "f0002_02", "f0003_10"]


def sample(writer: str, number: int) -> tuple[list[float], int]:
    """An image as LEAF writes it: bytes over 255, paper white; the first pixel tells writer and number."""
    pixels = np.full(784, 255)
    pixels[:2] = WRITERS.index(writer), number
    return (pixels / 255).tolist(), number % 62


def content(samples: dict[str, range]) -> dict[str, Any]:
    user_data = {}
    for writer, numbers in samples.items():
        drawn = [sample(writer, number) for number in numbers]
        user_data[writer] = {"x": [x for x, _ in drawn], "y": [y for _, y in drawn]}
    return {"users": list(samples), "num_samples": [len(n) for n in samples.values()], "user_data": user_data}


def write(path: Path, *files: dict[str, Any]) -> None:
    path.mkdir(parents=True)
    for number, file in enumerate(files):
        (path / f"all_data_{number}_niid_0_keep_0_train_9.json").write_text(json.dumps(file))


def by_sample(folder: Path) -> None:
    """Four writers in two files a part, the last tenth of each writer for testing."""
    for name, numbers in (("train", range(45)), ("test", range(45, 50))):
        write(folder / name, *(content(dict.fromkeys(WRITERS[half : half + 2], numbers)) for half in (0, 2)))


def origin(inputs: Any) -> list[tuple[int, int]]:
    """Writer and number of each image that a model gets."""
    pixels = np.rint((inputs.numpy().reshape(len(inputs), -1)[:, :2] + 1) * 127.5).astype(int)
    return [(int(writer), int(number)) for writer, number in pixels]


@pytest.mark.parametrize("inner", ["", "data", "femnist/data", "data/femnist/data"])
def test_reads_leafs_folder(tmp_path: Path, inner: str) -> None:
    by_sample(tmp_path / inner)
    data = femnist(str(tmp_path))
    assert data.test is not None
    assert data.train.inputs.shape == (180, 1, 28, 28)
    assert (data.classes, data.group, data.same_groups, data.mirrored) == (62, "writer", True, False)
    rows = np.arange(180)
    inputs, targets = data.train.rows(rows)
    assert origin(inputs) == [(writer, number) for writer in range(4) for number in range(45)]
    assert targets.tolist() == list(range(45)) * 4
    assert inputs[0, 0, 0, 2] == 1.0
    assert np.asarray(data.train.groups)[[0, 45, 90, 135]].tolist() == WRITERS


def test_pixels_are_exact(tmp_path: Path) -> None:
    by_sample(tmp_path)
    file = content({WRITERS[0]: range(256)})
    file["user_data"][WRITERS[0]]["x"] = [[(number / 255)] * 784 for number in range(256)]
    (tmp_path / "train" / "all_data_0_niid_0_keep_0_train_9.json").write_text(json.dumps(file))
    pool = femnist(str(tmp_path)).train
    assert pool.inputs.element_size() == 1
    assert pool.inputs[:256, 0, 0, 0].tolist() == list(range(256))


def test_other_pixels_are_kept_as_they_are_and_scaled_alike(tmp_path: Path) -> None:
    by_sample(tmp_path)
    file = content({WRITERS[0]: range(20)})
    file["user_data"][WRITERS[0]]["x"][3] = [0.12345] * 783 + [0.9]
    (tmp_path / "train" / "all_data_0_niid_0_keep_0_train_9.json").write_text(json.dumps(file))
    data = femnist(str(tmp_path))
    assert data.test is not None
    inputs, _ = data.train.rows(np.arange(110))
    assert inputs[3, 0, 0, 0] == pytest.approx(2 * 0.12345 - 1)
    assert origin(inputs[4:6]) == [(0, 4), (0, 5)]
    assert origin(inputs[20:22]) == [(2, 0), (2, 1)]
    assert data.test.inputs.dtype == data.train.inputs.dtype
    assert origin(data.test.rows(np.arange(2))[0]) == [(0, 45), (0, 46)]
    assert data.together.inputs.min() >= -1


def test_leafs_split_is_kept(tmp_path: Path) -> None:
    by_sample(tmp_path)
    seen = set()
    for rank in range(2):
        task = load_task("femnist", rank, 2, 0, {"data": str(tmp_path)}, Choices(validation=0.2))
        train, test, validation = (origin(part.tensors[0]) for part in (task.train, task.test, task.validation))
        assert all(number >= 45 for _, number in test)
        assert all(number < 45 for _, number in train + validation)
        mine = {writer for writer, _ in train}
        assert {writer for writer, _ in test} == {writer for writer, _ in validation} == mine
        assert len(mine) == 2
        assert [WRITERS.index(writer) for writer in task.groups] == [writer for writer, _ in train]
        assert len(set(train + validation)) == 90
        assert len(test) == 10
        seen |= mine
    assert len(seen) == 4


def test_a_split_by_writer_is_merged_for_writers(tmp_path: Path) -> None:
    """With LEAF's `-t user` no test sample is from a writer to train on: each peer holds out some of its own."""
    write(tmp_path / "train", content(dict.fromkeys(WRITERS[:3], range(30))))
    write(tmp_path / "test", content({WRITERS[3]: range(30)}))
    assert not femnist(str(tmp_path)).same_groups
    for rank in range(4):
        task = load_task("femnist", rank, 4, 0, {"data": str(tmp_path)})
        assert {writer for writer, _ in origin(task.train.tensors[0])} == {rank}
        assert {writer for writer, _ in origin(task.test.tensors[0])} == {rank}
        assert len(task.test) == 6
    task = load_task("femnist", 0, 2, 0, {"data": str(tmp_path)}, Choices(partition="iid"))
    assert {writer for writer, _ in origin(task.test.tensors[0])} == {3}


@pytest.mark.parametrize("inner", ["data/all_data", "all_data", "."])
def test_all_in_one(tmp_path: Path, inner: str) -> None:
    write(tmp_path / "leaf" / inner, content(dict.fromkeys(WRITERS, range(40))))
    for rank in range(4):
        task = load_task("femnist", rank, 4, 0, {"data": str(tmp_path / "leaf")})
        assert (len(task.train), len(task.test)) == (32, 8)
        assert {writer for writer, _ in origin(task.train.tensors[0] + 0)} == {rank}
    with pytest.raises(PartitionError, match="from 4 writers, too few for 5 peers"):
        load_task("femnist", 0, 5, 0, {"data": str(tmp_path / "leaf")})


def changed(**changes: Any) -> str:
    file = content(dict.fromkeys(WRITERS[:2], range(5)))
    file["user_data"][WRITERS[1]] |= changes
    return json.dumps(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is damaged or no such file: JSONDecodeError.*get it anew from https://github.com/TalwalkarLab/leaf"),
        ('{"users": ["a"', "is damaged"),
        ("[]", "is damaged"),
        ("{}", "is damaged.*KeyError: 'users'"),
        (json.dumps({"users": ["a"], "num_samples": [1], "user_data": {}}), "is damaged.*KeyError: 'a'"),
        (json.dumps({"users": ["a"], "num_samples": [], "user_data": {}}), "is damaged"),
        (changed(y=[1, 2, 3, 4]), "writer 'f0001_41' has 5 images and 4 labels of 5 samples"),
        (changed(y=[1, 2, 3, 4, 62]), "labels 1 to 62, not 0 to 61"),
        (changed(y=[-1, 2, 3, 4, 6]), "labels -1 to 6"),
        (changed(y=[0.5] * 5), "is damaged.*TypeError"),
        (changed(x=[[0.0] * 783] * 5), "is damaged"),
        (changed(x=[[1.5] * 784] * 5), "pixels beyond 0 to 1"),
        (json.dumps({"users": ["a\0"], "num_samples": [0], "user_data": {}}), r"writer 'a\\x00' has a NUL character"),
        (changed(x=[[float("nan")] * 784] * 5), "pixels beyond 0 to 1"),
        (json.dumps({"users": [], "num_samples": [], "user_data": {}}), "at least one sample"),
    ],
)
def test_damaged_json(tmp_path: Path, text: str, message: str) -> None:
    by_sample(tmp_path)
    for path in (tmp_path / "train").iterdir():
        path.write_text(text)
    with pytest.raises(TaskError, match=message) as caught:
        femnist(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"expected json files in .*, or train/\*.json and test/\*.json; from https"):
        femnist(str(tmp_path))
    (tmp_path / "train").mkdir()
    with pytest.raises(TaskError, match=r"expected json files in .*train"):
        femnist(str(tmp_path))
    write(tmp_path / "train" / "x", content({WRITERS[0]: range(3)}))
    (tmp_path / "train" / "x").rename(tmp_path / "x")
    (tmp_path / "train").rmdir()
    (tmp_path / "x").rename(tmp_path / "train")
    with pytest.raises(TaskError, match=r"expected json files in .*test"):
        femnist(str(tmp_path))
