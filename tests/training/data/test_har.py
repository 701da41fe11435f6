import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpeer.exceptions import PartitionError, TaskError
from dpeer.training import Choices, load_task
from dpeer.training.data.har import CHANNELS, har, stretches

FOLDER = "UCI HAR Dataset"
PEOPLE = {"train": (1, 3, 5), "test": (2, 4)}


def recording(person: int, activity: int, windows: int) -> np.ndarray[Any, Any]:
    """Windows (windows, 128, 9) that overlap by half, of one recording."""
    signal = np.random.default_rng((person, activity)).normal(size=(64 * (windows + 1), 9)).astype(np.float32)
    return np.stack([signal[64 * n : 64 * n + 128] for n in range(windows)])


def part(people: tuple[int, ...]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Each person does each of six activities once, for 3 to 5 windows."""
    pieces = [(person, y, recording(person, y, 3 + (person + y) % 3)) for person in people for y in range(6)]
    x = np.concatenate([windows for _, _, windows in pieces])
    y = np.concatenate([[y] * len(windows) for _, y, windows in pieces])
    return x, y, np.concatenate([[person] * len(windows) for person, _, windows in pieces])


def write(folder: Path) -> Path:
    """The published layout, numbers written as there."""
    for name, people in PEOPLE.items():
        x, y, subject = part(people)
        inner = folder / FOLDER / name / "Inertial Signals"
        inner.mkdir(parents=True)
        np.savetxt(inner.parent / f"y_{name}.txt", y + 1, fmt="%d")
        np.savetxt(inner.parent / f"subject_{name}.txt", subject, fmt="%d")
        for number, channel in enumerate(CHANNELS):
            lines = ["".join(f" {value: .7e}" for value in row) for row in x[:, :, number]]
            (inner / f"{channel}_{name}.txt").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("har"))


def test_the_channels_are_the_published_files() -> None:
    assert CHANNELS[0] == "body_acc_x"
    assert CHANNELS[5] == "body_gyro_z"
    assert CHANNELS[6:] == ("total_acc_x", "total_acc_y", "total_acc_z")


@pytest.mark.parametrize("inner", ["", FOLDER])
def test_the_text_folder(folder: Path, inner: str) -> None:
    data = har(str(folder / inner))
    assert data.test is not None
    for pool, name in ((data.train, "train"), (data.test, "test")):
        x, y, subject = part(PEOPLE[name])
        assert pool.inputs.shape == (len(x), 9, 128)
        assert np.allclose(pool.inputs.numpy(), x.transpose(0, 2, 1), rtol=1e-6)
        assert np.array_equal(pool.targets.numpy(), y)
        assert np.array_equal(np.asarray(pool.groups), subject)
        assert pool.stretches is not None
        assert len(np.unique(pool.stretches)) == 6 * len(PEOPLE[name])
        assert len(set(zip(pool.stretches.tolist(), subject.tolist(), y.tolist(), strict=True))) == 6 * len(
            PEOPLE[name]
        )
    assert (data.classes, data.group) == (6, "subject")


def arrays(**changes: Any) -> dict[str, Any]:
    parts = [part(people) for people in PEOPLE.values()]
    x, y, subject = (np.concatenate([found[i] for found in parts]) for i in range(3))
    is_test = np.repeat([False, True], [len(found[0]) for found in parts])
    return {"x": x, "y": y, "subject": subject, "is_test": is_test} | changes


def test_the_npz_in_any_order(tmp_path: Path) -> None:
    whole = arrays()
    order = np.random.default_rng(0).permutation(len(whole["x"]))
    others = {"names": np.array(["walking"], dtype=object)}  # of no use here, and never unpickled
    np.savez(tmp_path / "har.npz", **{name: array[order] for name, array in whole.items()}, **others)
    data = har(str(tmp_path / "har.npz"))
    assert data.test is not None
    x, y, subject = (whole[name][order] for name in ("x", "y", "subject"))
    rows = ~whole["is_test"][order]
    assert np.array_equal(data.train.inputs.numpy(), x[rows].transpose(0, 2, 1))
    assert np.array_equal(data.train.targets.numpy(), y[rows])
    found = stretches(x, y, subject)
    assert len(np.unique(found)) == 30
    assert len(set(zip(found.tolist(), subject.tolist(), y.tolist(), strict=True))) == 30


def test_without_overlap_rows_that_follow_each_other_are_a_stretch() -> None:
    x = np.random.default_rng(0).normal(size=(7, 128, 9))
    found = stretches(x, np.array([0, 0, 1, 1, 1, 0, 0]), np.array([1, 1, 1, 1, 2, 2, 2]))
    assert [found.tolist().index(number) for number in found] == [0, 0, 2, 2, 4, 5, 5]


def check_apart(tasks: list[Any]) -> None:
    """No half of a window that somebody tests or validates on is in a window that anybody trains on."""
    trained = {half for task in tasks for half in halves(task.train)}
    for task in tasks:
        validated = halves(task.validation) if task.validation is not None else set()
        assert not halves(task.test) & (trained | validated)
        assert not validated & trained


def halves(dataset: Any) -> set[bytes]:
    x = dataset.tensors[0].numpy()
    return {np.ascontiguousarray(part).tobytes() for part in (*x[:, :, :64], *x[:, :, 64:])}


def test_a_person_a_peer(folder: Path) -> None:
    tasks = [load_task("har", rank, 5, 0, {"data": str(folder)}, Choices(validation=0.3)) for rank in range(5)]
    check_apart(tasks)
    subjects = np.asarray(har(str(folder)).groups)
    for rank, task in enumerate(tasks):
        assert task.indices is not None
        assert {rank + 1} == {int(subjects[row]) for rows in task.indices.values() for row in rows}
        assert task.groups.tolist() == [rank + 1] * len(task.train)
    with pytest.raises(PartitionError, match="the data are from 5 subjects, too few for 6 peers; at most --size 5"):
        load_task("har", 0, 6, 0, {"data": str(folder)})
    with pytest.raises(PartitionError, match=r"do not say which writer .*; these know each sample's subject"):
        load_task("har", 0, 2, 0, {"data": str(folder)}, Choices(partition="writer"))


@pytest.mark.parametrize("partition", ["subject", "iid"])
def test_the_task_says_whose_each_training_window_is(folder: Path, partition: str) -> None:
    """Also where a person's windows go to several peers, and where some are held out."""
    whose = {tuple(x[:, 0]): person for people in PEOPLE.values() for x, _, person in zip(*part(people), strict=True)}
    seen = set()
    for rank in range(2):
        task = load_task("har", rank, 2, 0, {"data": str(folder)}, Choices(partition=partition, validation=0.2))
        windows = task.train.tensors[0][:, 0].numpy()
        near = [min(whose, key=lambda x: np.abs(x - window).max()) for window in windows]  # the files have 8 digits
        assert task.groups.tolist() == [whose[x] for x in near]
        seen |= set(task.groups.tolist())
    assert len(seen) == (5 if partition == "subject" else 3)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train/y_train.txt", None, r"expected the file y_train.txt in .*train; from https://archive.ics.uci.edu"),
        ("test/Inertial Signals/body_gyro_y_test.txt", None, "expected the file body_gyro_y_test.txt in"),
        ("train/y_train.txt", "", "y_train.txt does not hold what was expected: rows of 1 numbers"),
        ("train/y_train.txt", "1\n2\n3\n", "subject_train.txt does not hold what was expected: 3 rows, as y_train.txt"),
        ("test/subject_test.txt", "1\n1\n", "subject_test.txt does not hold what was expected: 48 rows"),
        ("train/y_train.txt", "1 2\n3 4\n", "rows of 1 numbers"),
        ("test/y_test.txt", "7\n" * 48, "activities 1 to 6"),
        ("test/y_test.txt", "0\n" * 48, "activities 1 to 6"),
        ("train/Inertial Signals/body_acc_x_train.txt", "1 2 3\n" * 72, "rows of 128 numbers"),
        ("train/Inertial Signals/body_acc_x_train.txt", ("1 " * 128 + "\n") * 71, "72 rows, as y_train.txt has"),
        ("train/Inertial Signals/body_acc_x_train.txt", "1 2\n3\n", "is damaged.*get it anew"),
        ("train/Inertial Signals/body_acc_x_train.txt", ("nan " * 128 + "\n") * 72, "finite numbers"),
        ("train/Inertial Signals/body_acc_x_train.txt", "<html>", "is damaged"),
    ],
)
def test_damaged_text(folder: Path, tmp_path: Path, name: str, content: str | None, message: str) -> None:
    shutil.copytree(folder / FOLDER, tmp_path / FOLDER)
    path = tmp_path / FOLDER / name
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    with pytest.raises(TaskError, match=message) as caught:
        har(str(tmp_path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": np.zeros((119, 128, 9), np.float32)}, r"x \(windows, 128, 9\), y, subject, is_test"),
        ({"x": np.zeros((120, 9, 128), np.float32)}, r"x \(windows, 128, 9\)"),
        ({"y": np.full(120, 6)}, "activities y from 0 to 5"),
        ({"x": np.full((120, 128, 9), np.nan, np.float32)}, "finite numbers"),
        ({"subject": np.array(["a"] * 120)}, r"x \(windows"),
    ],
)
def test_damaged_npz(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "har.npz", **arrays(**changes))
    with pytest.raises(TaskError, match=message):
        har(str(tmp_path / "har.npz"))


def test_npz_without_an_array(tmp_path: Path) -> None:
    expected = "har.npz does not hold what was expected: arrays x, y, subject, is_test; there are "
    np.savez(tmp_path / "har.npz", x=np.zeros(3), x_train=np.zeros(3))
    with pytest.raises(TaskError, match=f"{expected}x, x_train$"):
        har(str(tmp_path / "har.npz"))
    np.savez(tmp_path / "har.npz", **{f"a{number}": np.zeros(1) for number in range(99)})
    with pytest.raises(TaskError, match=f"{expected}a0, .*, a9, ...$"):
        har(str(tmp_path / "har.npz"))
    np.savez(tmp_path / "har.npz")
    with pytest.raises(TaskError, match=f"{expected}none$"):
        har(str(tmp_path / "har.npz"))
    with pytest.raises(TaskError, match="data = '/no/such' is not a folder; expected one that holds UCI HAR Dataset"):
        har("/no/such")


def test_the_real_one(shared: Path) -> None:
    """30 peers of one person each; what is apart is checked on the windows' contents."""
    path = shared / "uci_har_f16.npz"
    tasks = [load_task("har", rank, 30, 0, {"data": str(path)}, Choices(validation=0.2)) for rank in range(30)]
    check_apart(tasks)
    with np.load(path) as found:
        subject, is_test, y = found["subject"], found["is_test"], found["y"]
    order = np.argsort(is_test, kind="stable")
    indices = [task.indices for task in tasks if task.indices is not None]
    assert len(np.unique(np.concatenate([rows for parts in indices for rows in parts.values()]))) == 10_299
    for rank, parts in enumerate(indices):
        everything = np.concatenate(list(parts.values()))
        assert set(subject[order][everything].tolist()) == {rank + 1}
        assert len(everything) == (subject == rank + 1).sum()
        for rows in parts.values():
            assert len(rows) > 10
        assert set(y[order][parts["train"]].tolist()) == set(range(6))
    shares = [len(parts["test"]) / sum(map(len, parts.values())) for parts in indices]
    assert abs(np.mean(shares) - 0.2) < 0.02


def test_the_real_published_split(shared: Path) -> None:
    data = har(str(shared / "uci_har_f16.npz"))
    assert data.test is not None
    assert (len(data.train), len(data.test)) == (7352, 2947)
    assert sorted(set(np.asarray(data.test.groups).tolist())) == [2, 4, 9, 10, 12, 13, 18, 20, 24]
    tasks = [
        load_task("har", rank, 8, 0, {"data": str(shared / "uci_har_f16.npz")}, Choices(partition="dirichlet:1"))
        for rank in range(8)
    ]
    check_apart(tasks)
