from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dpeer.exceptions import ConfigurationError, PartitionError, TaskError, UnknownName
from dpeer.training import Choices, build_learner, load_task
from dpeer.training.data.tables.table import Table, table
from dpeer.training.tasks.options import check_own_data


def patients(folder: Path, name: str = "x.csv", rows: int = 120, groups: int = 12) -> Path:
    """Rows in random order, ten of each patient, two classes; the first feature is the row's number."""
    rng = np.random.default_rng(len(name))
    patient = rng.permutation(np.arange(rows) % groups)
    lines = ["a_number,age,patient,diagnosis,score"]
    lines += [f"{n},{20 + n % 50},p{patient[n]},{'ill' if patient[n] % 2 else 'well'},{n / 2}" for n in range(rows)]
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def test_reads_numbers_and_classes(tmp_path: Path) -> None:
    data = table(Table(str(patients(tmp_path)), "diagnosis", "patient", ignore=("score",)))
    assert data.test is None
    assert data.classes == 2
    assert data.train.inputs.dtype == torch.float32
    assert data.names == {"input columns": ("a_number", "age"), "classes": ("ill", "well")}
    assert data.train.inputs.tolist() == [[n, 20 + n % 50] for n in range(120)], "columns go by name"
    lines = (tmp_path / "x.csv").read_text().splitlines()[1:]
    assert data.train.targets.tolist() == [["ill", "well"].index(line.split(",")[3]) for line in lines]
    names = [line.split(",")[2] for line in lines]
    groups = np.asarray(data.train.groups).tolist()
    assert len(set(zip(groups, names, strict=True))) == 12
    assert data.group == "group"


def test_what_spreadsheets_write(tmp_path: Path) -> None:
    """A mark in front, quotes, Windows' line ends, spaces, blank lines, accents, numbers in every form."""
    path = tmp_path / "x.csv"
    path.write_bytes(
        '\ufeff"a", b ,"Größe, cm",y\r\n1,2.0e3,-.5,"no, ""never"""\r\n\r\n +4 ,0,1E-2,yes\r\n,,,\r\n'.encode()
    )
    data = table(Table(str(path), "y"))
    assert np.allclose(data.train.inputs.numpy(), [[-0.5, 1, 2000], [0.01, 4, 0]]), "columns go by name"
    assert data.train.targets.tolist() == [0, 1]
    assert table(Table(str(path), "y", ignore=("a", "Größe, cm"))).train.inputs.tolist() == [[2000], [0]]


def test_spellings_of_a_class_are_one_and_the_first_lines_say_so(tmp_path: Path) -> None:
    """Row numbers that pandas wrote are no input."""
    path = tmp_path / "x.csv"
    path.write_text(",Unnamed: 0,a,y\n0,5,1,yes\n1,6,2,YES\n2,7,3,yes\n3,9,4,no\n")
    data = table(Table(str(path), "y"))
    assert data.names == {"input columns": ("a",), "classes": ("no", "yes")}
    assert data.train.targets.tolist() == [1, 1, 1, 0]
    assert data.remarks == (
        "4 rows in x.csv; classes of y: no 1, yes 3 (also written 'YES')",
        "1 input: a; left out: (no name), Unnamed: 0",
    )
    path.write_text("a,y\n1,0\n2,0.0\n3,1.0\n4,1\n")
    assert table(Table(str(path), "y")).train.targets.tolist() == [0, 0, 1, 1]
    path.write_text("a,y\n1,yes\n2,YES\n")
    assert table(Table(str(path), "y", classes=("yes", "YES"))).train.targets.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("texts", "classes", "expected"),
    [
        (["b", "a", "c", "a"], None, [1, 0, 2, 0]),
        (["10", "9", "2", "9"], None, [2, 1, 0, 1]),
        (["1.5", "-3", "1.5", "0"], None, [2, 0, 2, 1]),
        (["b", "a", "b", "a"], ("z", "b", "a"), [1, 2, 1, 2]),
        (["a", "a", "a", "a"], ("b", "a"), [1, 1, 1, 1]),
    ],
)
def test_class_numbers(tmp_path: Path, texts: list[str], classes: tuple[str, ...] | None, expected: list[int]) -> None:
    path = tmp_path / "x.csv"
    path.write_text("y,a\n" + "".join(f"{text},1\n" for text in texts))
    data = table(Table(str(path), "y", classes=classes))
    assert data.train.targets.tolist() == expected
    assert data.classes == (len(classes) if classes else len(set(texts)))


def test_columns_that_are_named_are_those_that_are_used(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("b,c,y,a\n1,text,u,2\n3,,v,4\n")
    data = table(Table(str(path), "y", columns=("b", "a")))
    assert data.names["input columns"] == ("a", "b")
    assert data.train.inputs.tolist() == [[2, 1], [4, 3]]


def test_what_no_option_says_is_found_in_the_data_and_told(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("b,y,a\n1,2,2\n3,1,4\n")
    columns = {"columns": ("a", "b")}
    assert table(Table(str(path), "y")).found == {**columns, "classes": ("1", "2")}
    assert table(Table(str(path), "y", classes=("1", "2"))).found == columns
    assert table(Table(str(path), "y", regression=True)).found == columns
    assert table(Table(str(path), "y", classes=("1", "2"), columns=("a", "b"))).found == {}
    options = {"path": str(patients(tmp_path, "p.csv")), "target": "diagnosis", "ignore": "score,patient"}
    assert set(load_task("csv", 0, 2, 0, options).found) == {"columns", "classes"}


GOOD = "a,b,y\n1,2,u\n3,4,v\n"


@pytest.mark.parametrize(
    ("content", "changes", "message"),
    [
        (
            "a,b,y\n1,2,u\n3,x,v\n",
            {},
            "row 3, column 'b': expected a finite number, not 'x'; a schema reads words and dates "
            r"\(`dpeer schema init`\); or leave it out with ignore=b",
        ),
        (
            "a,b,y\n1,2,u\n3,,v\n",
            {},
            "row 3, column 'b' is empty: fill it or drop the row; a schema reads gaps "
            r"\(`dpeer schema init`\); or leave it out with ignore=b",
        ),
        ("a,b,y\n1,2,u\n\n3,nan,v\n", {}, "row 4, column 'b' is a gap .'nan'.: fill it"),
        ("a,b,y\ninf,2,u\n3,4,v\n", {}, "row 2, column 'a': expected a finite number, not 'inf'"),
        (
            "a,b,y\n1e99,2,u\n3,4,v\n",
            {},
            r"row 2, column 'a': '1e99' does not fit float32, which ends at 3.4e\+38: "
            "give the column in another unit; or leave it out with ignore=a",
        ),
        (
            "a,b,y\n1,2,3\n3,4,-1e300\n",
            {"regression": True},
            "row 3, column 'y': '-1e300' does not fit float32, .* another unit$",
        ),
        ("a,b,y\n1e999,2,u\n3,4,v\n", {}, "row 2, column 'a': expected a finite number, not '1e999'"),
        ('a,b,y\n"1,5",2,u\n3,4,v\n', {}, "row 2, column 'a': expected a finite number, not '1,5'"),
        ("a,b,y\n1,2,\n3,4,v\n", {}, "row 2, column 'y' is empty"),
        ("a,b,y\n1,2,u\n,,v\n", {"group": "a"}, "row 3, column 'b' is empty"),
        ("a,b,y\n1,2,u\n,4,v\n", {"group": "a"}, "row 3, column 'a' is empty: fill it or drop the row$"),
        (GOOD, {"target": "yy"}, "unknown column of target= 'yy' in .*x.csv': did you mean 'y'. valid: a, b, y"),
        (GOOD, {"group": "c"}, "unknown column of group= 'c' in"),
        (GOOD, {"ignore": ("Y",)}, "unknown column of ignore= 'Y' in"),
        (GOOD, {"group": "y"}, "column 'y' can be one of target=, group=, ignore= and columns= only"),
        (GOOD, {"ignore": ("y",)}, "column 'y' can be one of"),
        (GOOD, {"columns": ("a", "c")}, "unknown column of columns= 'c' in"),
        (GOOD, {"columns": ("a",), "ignore": ("a",)}, "column 'a' can be one of target=, group=, ignore= and columns="),
        (GOOD, {"columns": ("a", "y")}, "column 'y' can be one of"),
        ("a,b,y\n1,x,u\n2,3,v\n", {"columns": ("b",)}, "not 'x'; a schema .*; or leave out of columns= the column b$"),
        (GOOD, {"ignore": ("a", "b")}, "no column to learn from besides y, a, b"),
        (GOOD, {"classes": ("u", "w")}, "row 3, column 'y': 'v' is none of the classes u, w"),
        (GOOD, {"regression": True}, "row 2, column 'y': expected a finite number, not 'u'$"),
        ("a,b,a,y\n1,2,3,u\n", {}, "has two columns 'a': name one otherwise"),
        (",b,y\n1,2,u\n3,4,v\n", {}, r"column 1 has no name: name it, or leave it out with ignore=\[''\]"),
        ("a,b,y\n1,2,u\n3,v\n", {}, "row 3 has 2 cells, the header 3"),
        ("a,b,y\n1,2,u,\n3,4,v\n", {}, "row 2 has 4 cells, the header 3"),
        ("a,b,y\n1,2,u\n3,4,u\n", {}, "shows one class only .'u' in column 'y'.: name all there are with classes=A,B"),
        ("a,y\n" + "".join(f"1,{n}.5\n" for n in range(30)), {}, "30 classes in 30 rows: .* then kind=regression"),
        ("a;b;y\n1;2;u\n", {}, "is divided by ';': save it with commas"),
        ("a\tb\ty\n1\t2\tu\n", {}, "is divided by"),
        ("", {}, "has no rows"),
        ("a,b,y\n", {}, "has no rows"),
        ("\n\n", {}, "has no rows"),
        ("a,b,y\n07,2,u\n7,4,v\n", {}, "row 2, column 'a': '07' is a code and would become 7"),
        ("a,b,y\n1E2,2,u\n7,4,v\n", {}, "row 2, column 'a': '1E2' is a code and would become 100"),
        ("a,b,y\n1,2,NA\n3,4,v\n", {}, r"row 2, column 'y' is a gap .'NA'.: fill it or drop the row"),
        ("a,b,y\n1700000000001,2,u\n1700000000002,4,v\n", {}, "column 'a': its numbers are about 1.7e.12 and differ"),
        (b"a,b,y\n1,2,\xe4\n", {}, "is not UTF-8 text: save it as 'CSV UTF-8'"),
        (b"\x00\x01\x02,\n,", {}, "."),
        ('a,b,y\n1,"2,u\n3,4,v\n', {}, "is no valid csv after row 1: "),
        ("a,p,y\n1,a,u\n2,a\0,v\n", {"group": "p"}, r"row 3, column 'p': 'a\\x00' has a NUL character: leave it out"),
        (None, {}, "there is no file"),
    ],
)
def test_damaged(tmp_path: Path, content: str | bytes | None, changes: dict[str, Any], message: str) -> None:
    path = tmp_path / "x.csv"
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ConfigurationError, match=message) as caught:
        table(Table(**{"path": str(path), "target": "y"} | changes))
    assert "\n" not in str(caught.value)
    assert "x.csv" in str(caught.value) or "can be one of" in str(caught.value)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="is a folder; expected a csv or parquet file"):
        table(Table(str(tmp_path), "y"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "task 'csv' needs --task-option path=FILE.csv"),
        ({"path": "x.csv"}, "task 'csv' needs --task-option target=COLUMN"),
        ({"path": True, "target": "y"}, "task option path = True: expected text"),
        ({"path": ["x"], "target": "y"}, r"task option path = \['x'\]: expected text"),
        ({"path": "x.csv", "target": 1.5}, "task option target = 1.5: expected text"),
        ({"path": "x.csv", "target": "y", "group": []}, r"task option group = \[\]: expected text"),
        (
            {"path": "x.csv", "target": "y", "kind": "regresion"},
            "kind of task 'csv' 'regresion': did you mean 'regression'",
        ),
        ({"path": "x.csv", "target": "y", "kind": []}, r"kind of task 'csv' '\[\]'"),
        ({"path": "x.csv", "target": "y", "classes": "a"}, "classes = 'a': expected 2 different names or more"),
        (
            {"path": "x.csv", "target": "y", "classes": ["a", "a"]},
            "expected 2 different names or more, such as classes=A,B",
        ),
        ({"path": "x.csv", "target": "y", "classes": 3}, "classes = 3: expected 2 different names"),
        ({"path": "x.csv", "target": "y", "columns": []}, r"columns = \[\]: expected one name or more"),
        ({"path": "x.csv", "target": "y", "ignore": {"a": 1}}, "ignore = .*: expected different names"),
        (
            {"path": "x.csv", "target": "y", "kind": "regression", "classes": "a,b"},
            "classes= is for kind=classification",
        ),
        (
            {"path": "x.csv", "target": "y", "taget": "y"},
            "unknown task option 'taget' in task 'csv': did you mean 'target'?",
        ),
    ],
)
def test_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load_task("csv", 0, 2, 0, options)


def test_a_file_a_rank_and_all_of_it(tmp_path: Path) -> None:
    for rank in range(3):
        patients(tmp_path, f"site-{rank}.csv", 60 + 30 * rank)
    options = {"path": f"{tmp_path}/site-{{rank}}.csv", "target": "diagnosis", "ignore": "score,patient"}
    for rank in range(3):
        task = load_task("csv", rank, 3, 0, options, Choices(validation=0.25))
        assert task.validation is not None
        rows = torch.cat([part.tensors[0][:, 0] for part in (task.train, task.validation, task.test)])
        assert sorted(rows.tolist()) == list(range(60 + 30 * rank))
        assert len(task.test) == 12 + 6 * rank
        assert abs(len(task.validation) - 0.25 * (48 + 24 * rank)) <= 1
    said = r"there is no '.*site-3.csv': with path = '.*site-{rank}.csv' every rank, 0 to 3, .* own; this is rank 3"
    with pytest.raises(TaskError, match=said):
        load_task("csv", 3, 4, 0, options)


def test_a_share_of_ones_own_file_is_refused(tmp_path: Path) -> None:
    """With privacy it would be taken for part of a common pool, whose division may depend on every record."""
    path = patients(tmp_path, "site-1.csv").with_name("site-{rank}.csv")
    options = {"path": str(path), "target": "diagnosis", "ignore": "patient"}
    with pytest.raises(
        TaskError, match=r"reads data of its own, of which --partition iid would leave it one share in 4"
    ):
        load_task("csv", 1, 4, 0, options, Choices(partition="iid"))
    assert len(load_task("csv", 1, 4, 0, options, Choices(partition="own")).train) == 96


@pytest.mark.parametrize("word", ["{rnk}", "{}", "{rank:02d}", "{RANK}"])
def test_what_stands_in_braces_and_is_not_the_rank(tmp_path: Path, word: str) -> None:
    path = str(tmp_path / f"site-{word}.csv")
    said = f"unknown placeholder {word!r} in task option path = {path!r} of task 'csv': "
    for loads in (
        lambda: load_task("csv", 1, 2, 0, {"path": path, "target": "diagnosis"}),
        lambda: check_own_data([("csv", {"path": path, "target": "diagnosis"})] * 2, None),
    ):
        with pytest.raises(UnknownName) as caught:
            loads()
        assert str(caught.value).startswith(said)
        assert str(caught.value).endswith("valid: {rank}")
    patients(tmp_path, f"site-{word}.csv")  # a strange name for a file, but one that is there
    assert len(load_task("csv", 1, 2, 0, {"path": path, "target": "diagnosis", "ignore": "patient"}).train) == 96


def groups_of(task: Any, path: Path) -> dict[str, set[str]]:
    """Each part's patients, by the first feature: the row's number."""
    lines = path.read_text().splitlines()[1:]
    parts = {"train": task.train, "test": task.test} | ({} if task.validation is None else {"val": task.validation})
    return {
        name: {lines[int(row)].split(",")[2] for row in part.tensors[0][:, 0].tolist()} for name, part in parts.items()
    }


@pytest.mark.parametrize("seed", range(5))
def test_a_group_is_in_one_part_of_one_peer(tmp_path: Path, seed: int) -> None:
    path = patients(tmp_path, rows=300, groups=30)
    options = {"path": str(path), "target": "diagnosis", "group": "patient"}
    found: list[str] = []
    for rank in range(3):
        task = load_task("csv", rank, 3, seed, options, Choices(partition="group", validation=0.3))
        found += [patient for part in groups_of(task, path).values() for patient in part]
    assert len(found) == len(set(found)) == 30
    task = load_task("csv", 1, 3, seed, options, Choices(validation=0.3))
    parts = list(groups_of(task, path).values())
    assert sum(map(len, parts)) == len(set.union(*parts)) == 30
    with pytest.raises(PartitionError, match="would divide one group's samples among peers: use --partition group"):
        load_task("csv", 0, 3, seed, options, Choices(partition="iid"))


@pytest.mark.parametrize(("rank", "choices"), [(0, Choices(validation=0.3)), (1, Choices(partition="group"))])
def test_the_task_says_whose_each_training_row_is(tmp_path: Path, rank: int, choices: Choices) -> None:
    path = patients(tmp_path, rows=300, groups=30)
    options = {"path": str(path), "target": "diagnosis", "group": "patient"}
    task = load_task("csv", rank, 3, 0, options, choices)
    lines = path.read_text().splitlines()[1:]
    names = [lines[int(row)].split(",")[2] for row in task.train.tensors[0][:, 0].tolist()]
    # One number for a patient, and one patient for a number; and all ten rows of each patient are here.
    assert len(names) == len(task.groups) == 10 * len(set(names)) == 10 * len(set(task.groups.tolist()))
    assert len(set(zip(names, task.groups.tolist(), strict=True))) == len(set(names))
    del options["group"]
    assert load_task("csv", 0, 1, 0, {**options, "ignore": ["patient"]}).groups is None


def test_too_few_groups_say_so(tmp_path: Path) -> None:
    path = patients(tmp_path, rows=60, groups=2)
    options = {"path": str(path), "target": "diagnosis", "group": "patient"}
    for seed in range(10):  # of one group for training, nothing is held out
        with pytest.raises(PartitionError, match="one group: --validation has none to hold out; give it more data"):
            load_task("csv", 0, 2, seed, options, Choices(validation=0.5))
    with pytest.raises(
        PartitionError, match=r"partition 'own': rank 0 gets 60 training and 0 test .*give it more data"
    ):
        load_task("csv", 0, 2, 0, {**options, "path": str(patients(tmp_path, "y.csv", 60, 1)), "classes": "ill,well"})


def test_a_table_for_all_is_divided(tmp_path: Path) -> None:
    path = patients(tmp_path, rows=200)
    options = {"path": str(path), "target": "diagnosis", "ignore": ["patient", "score"]}
    rows: list[float] = []
    for rank in range(4):
        task = load_task("csv", rank, 4, 0, options, Choices(partition="iid"))
        rows += torch.cat([task.train.tensors[0], task.test.tensors[0]])[:, 0].tolist()
    assert sorted(rows) == list(range(200))
    with pytest.raises(PartitionError, match=r"do not say which group a sample is from.*name the column.*group="):
        load_task("csv", 0, 4, 0, options, Choices(partition="group"))


def test_regression_trains(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    y = x @ [1.0, -2.0, 0.5]
    np.savetxt(path, np.column_stack([x, y]), delimiter=",", header="a,b,c,y", comments="")
    task = load_task("csv", 0, 2, 0, {"path": str(path), "target": "y", "kind": "regression"})
    assert task.train.tensors[1].shape == (160, 1)
    assert task.train.tensors[1].dtype == torch.float32
    learner = build_learner(task, "local", rank=0, seed=0)
    before = learner.evaluate().test_loss
    for number in range(3):
        learner.train(number)
    after = learner.evaluate()
    assert after.test_loss < before / 4
    assert after.accuracy is None
