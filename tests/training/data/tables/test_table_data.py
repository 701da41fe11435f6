"""Data set of a csv file: columns, classes, spellings, and what options name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dpeer.exceptions import ConfigurationError
from dpeer.training import load_task
from dpeer.training.data.tables.table_data import table
from tests.error_texts import refused


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
    data = table(path=str(patients(tmp_path)), target="diagnosis", group="patient", ignore=("score",))
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


def test_files_of_spreadsheets_are_read(tmp_path: Path) -> None:
    """A mark in front, quotes, Windows' line ends, spaces, blank lines, accents, numbers in every form."""
    path = tmp_path / "x.csv"
    path.write_bytes(
        '\ufeff"a", b ,"Größe, cm",y\r\n1,2.0e3,-.5,"no, ""never"""\r\n\r\n +4 ,0,1E-2,yes\r\n,,,\r\n'.encode()
    )
    data = table(path=str(path), target="y")
    assert np.allclose(data.train.inputs.numpy(), [[-0.5, 1, 2000], [0.01, 4, 0]]), "columns go by name"
    assert data.train.targets.tolist() == [0, 1]
    assert table(path=str(path), target="y", ignore=("a", "Größe, cm")).train.inputs.tolist() == [[2000], [0]]


def test_spellings_of_a_class_are_one_and_are_remarked(tmp_path: Path) -> None:
    """Row numbers that pandas wrote are no input."""
    path = tmp_path / "x.csv"
    path.write_text(",Unnamed: 0,a,y\n0,5,1,yes\n1,6,2,YES\n2,7,3,yes\n3,9,4,no\n")
    data = table(path=str(path), target="y")
    assert data.names == {"input columns": ("a",), "classes": ("no", "yes")}
    assert data.train.targets.tolist() == [1, 1, 1, 0]
    assert data.remarks == (
        "4 rows in x.csv; classes of y: no 1, yes 3 (also written 'YES')",
        "1 input: a; left out: (no name), Unnamed: 0",
    )
    path.write_text("a,y\n1,0\n2,0.0\n3,1.0\n4,1\n")
    assert table(path=str(path), target="y").train.targets.tolist() == [0, 0, 1, 1]
    path.write_text("a,y\n1,yes\n2,YES\n")
    assert table(path=str(path), target="y", classes=("yes", "YES")).train.targets.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("texts", "classes", "expected"),
    [
        (["b", "a", "c", "a"], None, [1, 0, 2, 0]),
        (["1.5", "-3", "1.5", "0"], None, [2, 0, 2, 1]),
        (["b", "a", "b", "a"], ("z", "b", "a"), [1, 2, 1, 2]),
    ],
)
def test_class_numbers(tmp_path: Path, texts: list[str], classes: tuple[str, ...] | None, expected: list[int]) -> None:
    path = tmp_path / "x.csv"
    path.write_text("y,a\n" + "".join(f"{text},1\n" for text in texts))
    data = table(path=str(path), target="y", classes=classes)
    assert data.train.targets.tolist() == expected
    assert data.classes == (len(classes) if classes else len(set(texts)))


def test_columns_that_are_named_are_those_that_are_used(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("b,c,y,a\n1,text,u,2\n3,,v,4\n")
    data = table(path=str(path), target="y", columns=("b", "a"))
    assert data.names["input columns"] == ("a", "b")
    assert data.train.inputs.tolist() == [[2, 1], [4, 3]]


def test_what_no_option_names_is_found_in_the_data(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("b,y,a\n1,2,2\n3,1,4\n")
    columns = {"columns": ("a", "b")}
    assert table(path=str(path), target="y").found == {**columns, "classes": ("1", "2")}
    assert table(path=str(path), target="y", classes=("1", "2")).found == columns
    assert table(path=str(path), target="y", kind="regression").found == columns
    assert table(path=str(path), target="y", classes=("1", "2"), columns=("a", "b")).found == {}
    options = {"path": str(patients(tmp_path, "p.csv")), "target": "diagnosis", "ignore": "score,patient"}
    assert set(load_task("csv", 0, 2, 0, options).found) == {"columns", "classes"}


def test_numbers_that_32_bits_tell_apart_are_targets(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    for numbers in ([10**9 + 10**5 * n for n in range(20)], [10**9] * 4):
        path.write_text("a,y\n" + "".join(f"1,{number}\n" for number in numbers))
        found = table(path=str(path), target="y", kind="regression").train.targets
        assert found.flatten().tolist() == np.float32(numbers).tolist()


def test_a_word_for_a_gap_may_be_a_class(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,y\n1,NA\n2,yes\n")
    assert table(path=str(path), target="y", classes=("NA", "yes")).train.targets.tolist() == [0, 1]


GOOD = "a,b,y\n1,2,u\n3,4,v\n"


@pytest.mark.parametrize(
    ("content", "more", "fragment"),
    [
        ("a,b,y\n1,2,u\n\n3,,v\n", {}, "column 'b', 1 of 2 cells: a gap: fill it or drop the row: row 4; "),
        ("a,b,y\n1,2,u\n3,x,v\n", {}, "'x'; a schema reads gaps, codes, words and dates (`dpeer schema init`), or"),
        ("a,b,y\n1,2,u\n3,4,NA\n", {"classes": ("u", "v")}, "column 'y', 1 of 2 cells: a gap: fill it or drop the row"),
        ("a,b,y\ninf,2,u\n3,4,v\n", {}, "column 'a', 1 of 2 cells: expected kind = \"number\": row 2: 'inf'"),
        ("a,b,y\n1,2,3\n3,4,-1e300\n", {"kind": "regression"}, "'y', 1 of 2 cells: expected kind = \"regression\""),
        ("a,b,y\n1E2,2,u\n7,4,v\n", {}, "column 'a', 1 of 2 cells: a code, not a number: row 2: '1E2'"),
        ("a;b;y\n1.789;2;u\n0,5;4;v\n", {}, "column 'a', 1 of 2 cells: two readings"),
        ("a,p,y\n1,a,u\n2,a\0,v\n", {"group": "p"}, "column 'p', 1 of 2 cells: expected kind = \"group\""),
        (GOOD, {"target": "yy"}, "unknown column of target= 'yy' in "),
        (GOOD, {"columns": ("a", "c")}, "unknown column of columns= 'c' in "),
        (GOOD, {"group": "y"}, "task 'csv': column 'y' can be one of target=, group="),
        (GOOD, {"ignore": ("a", "b")}, "has no column to learn from besides y, a, b"),
        ("a,b,a,y\n1,2,3,u\n", {}, "x.csv' has two columns 'a'"),
        (",b,y\n1,2,u\n3,4,v\n", {}, "column 1 has no name"),
        ("a,b,y\n1,2,u\n3,v\n", {}, "row 3 has 2 cells, the header 3"),
        ("a,b,y\n1,2,u\n3,4,u\n", {}, "shows one class only ('u' in column 'y')"),
        ("a,y\n" + "".join(f"1,{n}.5\n" for n in range(30)), {}, "column 'y' has 30 classes in 30 rows"),
        ("a,b,y\n1700000000001,2,u\n1700000000002,4,v\n", {}, "column 'a' has numbers about 1.7e+12"),
        ("a,y\n1,1000000001\n1,1000000002\n", {"kind": "regression"}, "column 'y' has numbers about 1e+09"),
        ('a,b,y\n1,"2,u\n3,4,v\n', {}, "x.csv' is no valid csv after row 1"),
    ],
)
def test_a_table_that_cannot_be_learned_from(content: str, more: dict[str, Any], fragment: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(content)
    with refused(ConfigurationError, fragment):
        table(**{"path": str(tmp_path / "x.csv"), "target": "y"} | more)
