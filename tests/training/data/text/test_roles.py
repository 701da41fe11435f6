import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpeer.exceptions import PartitionError, TaskError
from dpeer.training import Choices, load_task
from dpeer.training.data.text.roles import Roles, read_texts, roles

LENGTH = 9
TEXTS = {
    name: "".join(f"{name} says {number:03d}.\n" for number in range(lines))
    for name, lines in (("HAMLET", 100), ("OPHELIA", 60), ("FIRST PLAYER", 30), ("GHOST", 1))
}


def leaf(texts: dict[str, str]) -> dict[str, Any]:
    """LEAF's samples: of each line, 80 characters and the one behind them, beginning with blanks."""
    data: dict[str, Any] = {}
    for role, text in texts.items():
        data[role] = {"x": [], "y": []}
        for line in text.splitlines(keepends=True):
            padded = " " * 80 + line
            data[role]["x"] += [padded[n : n + 80] for n in range(len(line))]
            data[role]["y"] += list(line)
    return {"users": list(texts), "num_samples": [len(one["y"]) for one in data.values()], "user_data": data}


def write(folder: Path, layout: str) -> Path:
    """The texts in one of the layouts that are read."""
    if layout == "leaf":
        (folder / "data" / "all_data").mkdir(parents=True)
        for number, names in enumerate((("HAMLET", "GHOST"), ("OPHELIA", "FIRST PLAYER"))):
            path = folder / "data" / "all_data" / f"all_data_{number}.json"
            path.write_text(json.dumps(leaf({name: TEXTS[name] for name in names})))
        return folder
    path = folder / f"texts.{layout}"
    if layout == "npz":
        parts = [text.encode() for text in TEXTS.values()]
        offsets = np.cumsum([0, *map(len, parts)])
        np.savez(path, speakers=np.array(list(TEXTS)), text=np.frombuffer(b"".join(parts), np.uint8), offsets=offsets)
    else:
        turns = [{"speaker": name, "text": line} for name, text in TEXTS.items() for line in text.split("\n")]
        order = np.random.default_rng(0).permutation(len(turns))
        turns = [turns[at] for at in sorted(order, key=lambda at: order[at] // 40)]  # turns of all, each in order
        path.write_text("\n".join(json.dumps(turn) for turn in turns) + "\n")
    return path


@pytest.mark.parametrize("layout", ["leaf", "npz", "jsonl"])
def test_every_layout_gives_the_same_texts(layout: str, tmp_path: Path) -> None:
    found = read_texts(str(write(tmp_path, layout)))
    if layout == "jsonl":  # turns of one speaker may lie in any order between those of others
        assert {name: sorted(text) for name, text in found.items()} == {n: sorted(t) for n, t in TEXTS.items()}
    else:
        assert found == TEXTS


def test_windows_are_the_text_and_share_no_token(tmp_path: Path) -> None:
    data = roles(Roles(str(write(tmp_path, "npz")), None, LENGTH, None))
    assert (data.group, data.classes, data.test) == ("role", 259, None)
    inputs, targets = data.train.rows(np.arange(len(data.train)))
    groups = np.asarray(data.train.groups)
    for name, text in TEXTS.items():
        mine = np.flatnonzero(groups == name)
        windows = [[*x, y[-1]] for x, y in zip(inputs[mine].tolist(), targets[mine].tolist(), strict=True)]
        whole = bytes(number - 3 for window in windows for number in window).decode()
        assert whole == text[: len(text) // (LENGTH + 1) * (LENGTH + 1)]
        assert inputs[mine][:, 1:].equal(targets[mine][:, :-1])


def test_whole_stretches_are_held_out_of_each_role(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    path = write(tmp_path, "npz")
    data = roles(Roles(str(path), None, LENGTH, 3))
    groups = np.asarray(data.train.groups)
    task = load_task("roles", 0, 1, 0, {"data": str(path), "length": LENGTH, "roles": 3}, Choices())
    train, test = task.indices["train"], task.indices["test"]
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(len(data.train)))
    for name in ("HAMLET", "OPHELIA", "FIRST PLAYER"):
        rows = np.flatnonzero(groups == name)
        held = np.isin(rows, test)
        assert held.mean() == pytest.approx(0.2, abs=0.06)
        # Windows lie in the order of the text: of random ones, a twentieth and more would border on others.
        sizes = np.diff(np.flatnonzero(np.diff(held.astype(int), prepend=2, append=2)))
        assert sizes[1:-1].min() >= len(rows) // 20


def test_roles_go_to_peers_as_a_whole(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    path = write(tmp_path, "npz")
    options = {"data": str(path), "length": LENGTH, "roles": 3}
    tasks = [load_task("roles", rank, 3, 0, options, Choices()) for rank in range(3)]
    assert [set(task.groups) for task in tasks] == [{"FIRST PLAYER"}, {"HAMLET"}, {"OPHELIA"}]
    inputs, targets = tasks[0].train[:4]
    assert tasks[0].model(inputs).shape == (4, 259, LENGTH)
    assert targets.shape == (4, LENGTH)
    with pytest.raises(PartitionError, match=r"partition 'iid' would divide one role's samples.*--partition role"):
        load_task("roles", 0, 3, 0, options, Choices(partition="iid"))


def test_leafs_random_division_of_a_roles_samples_is_refused(tmp_path: Path) -> None:
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "all_data.json").write_text(json.dumps(leaf({"HAMLET": TEXTS["HAMLET"]})))
    with pytest.raises(TaskError, match=r"test/all_data.json has samples of 'HAMLET', of which another.*all_data"):
        read_texts(str(tmp_path))
    (tmp_path / "test" / "all_data.json").write_text(json.dumps(leaf({"OPHELIA": TEXTS["OPHELIA"]})))
    assert read_texts(str(tmp_path)) == {name: TEXTS[name] for name in ("HAMLET", "OPHELIA")}


@pytest.mark.parametrize(("key", "message"), [("x", "sample 300 does not follow"), ("y", "has 1700 x and 1699 y")])
def test_samples_that_do_not_follow_each_other(key: str, message: str, tmp_path: Path) -> None:
    content = leaf({"HAMLET": TEXTS["HAMLET"]})
    mine = content["user_data"]["HAMLET"]
    if key == "x":
        for one in mine.values():
            one[:] = one[:300] + one[310:]
    else:
        del mine["y"][-1]
    (tmp_path / "a.json").write_text(json.dumps(content))
    with pytest.raises(TaskError, match=message):
        read_texts(str(tmp_path / "a.json"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'{"speaker": "A", "text": "b"}\n{"speaker": "A"}\n', r"a.jsonl, line 2: expected \{\"speaker\":"),
        ("a.jsonl", b"[1]\n", r"a.jsonl, line 1: expected"),
        ("a.jsonl", b"\n", r"does not hold what was expected: at least one role"),
        ("a.json", b'{"users": ["A"]}', r"a.json is damaged or no such file: KeyError"),
        ("a.npz", b"PK", r"a.npz is damaged"),
        ("a.txt", b"To be", r"data = '.*a.txt': expected a folder that holds LEAF's all_data"),
    ],
)
def test_damaged_files(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TaskError, match=message):
        read_texts(str(tmp_path / name))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offsets": np.array([0, 5, 3])}, "offsets that rise"),
        ({"offsets": np.array([0, 5, 99])}, "offsets that rise from 0 to at most 9"),
        ({"offsets": np.array([0, 9])}, r"offsets \(n \+ 1,\)"),
        ({"speakers": np.array(["A", "A"])}, "that differ"),
        ({"text": np.full(9, 0xFF, np.uint8)}, "damaged"),
        ({"text": np.full(9, 0.5)}, "uint8"),
    ],
)
def test_arrays_that_do_not_fit(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    arrays = {"speakers": np.array(["A", "B"]), "text": np.full(9, 65, np.uint8), "offsets": np.array([0, 4, 9])}
    np.savez(tmp_path / "a.npz", **(arrays | change))
    with pytest.raises(TaskError, match=message):
        read_texts(str(tmp_path / "a.npz"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"task 'roles' needs --task-option data=PATH"),
        ({"data": "nowhere"}, r"there is no data = 'nowhere'; expected a folder"),
        ({"roles": 0}, r"roles = 0: expected a number of roles"),
        ({"roles": 9}, r"roles = 9: expected 1 to 4, the roles that there are"),
        ({"length": 4000}, r"no role says 4001 tokens"),
        ({"length": 5}, r"length = 5: expected 8 to 4096"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    given = options if not options or "data" in options else {"data": str(write(tmp_path, "npz")), **options}
    with pytest.raises(TaskError, match=message):
        load_task("roles", 0, 2, 0, given, Choices())


def test_real_texts(shared: Path) -> None:
    texts = read_texts(str(shared / "tinyshakespeare_by_speaker.npz"))
    assert len(texts) == 299
    assert texts["GLOUCESTER"].startswith("Now is the winter of our discontent\nMade glorious summer")
    data = roles(Roles(str(shared / "tinyshakespeare_by_speaker.npz"), None, 80, 8))
    assert len(data.train) == sum(sorted((len(text.encode()) // 81 for text in texts.values()), reverse=True)[:8])
