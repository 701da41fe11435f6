"""Schemas: what a file holds, which definitions differ, and what of a table does not fit."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.training.data.tables.check import Checked, check
from dpeer.training.data.tables.schema import WORDS, read_schema
from dpeer.training.data.tables.sheet import read_sheet
from tests.error_texts import refused

from .conftest import HEADER, SCHEMA, rows


def test_the_columns_of_a_file(schema_file: Path) -> None:
    schema = read_schema(schema_file)
    assert [*schema.inputs] == ["admitted", "age", "blood", "complaint", "smoker", "weight kg"]
    assert schema.group == "patient"
    assert schema.columns["blood"].values == ("B", "A", "AB", "0")
    assert schema.columns["smoker"].no == ("no", "nein", "0")
    assert schema.target.classes == ("well", "ill")
    assert schema.without_range == []


def test_the_example_of_the_documents_can_be_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "docs" / "tasks.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(# schema.toml\n.*?)```", page, flags=re.DOTALL)
    (tmp_path / "s.toml").write_text(example)
    schema = read_schema(tmp_path / "s.toml")
    assert len(schema.inputs) == 6
    assert schema.without_range == []


@pytest.mark.parametrize(
    ("old", "new", "differ"),
    [
        ("[0, 120]", "[0, 121]", {"age"}),
        ('["B", "A", "AB", 0]', '["A", "B", "AB", "0"]', set()),
        ('["B", "A", "AB", 0]', '["A", "B", "AB"]', {"blood"}),
        ("since = 2020-01-01", "since = 2021-01-01", {"admitted"}),
        ('["%Y-%m-%d", "%d.%m.%Y"]', '["%d.%m.%Y", "%Y-%m-%d"]', {"admitted"}),
        ('["well", "ill"]', '["ill", "well"]', {"outcome"}),
        ('["NA", "?"]', '["NA"]', {WORDS}),
        ('[columns.note]\nkind = "ignore"', "", set()),
        ("[columns.age]", '[columns."the age"]', {"age", "the age"}),
    ],
)
def test_definitions_differ_where_columns_mean_something_else(
    tmp_path: Path, schema_file: Path, old: str, new: str, differ: set[str]
) -> None:
    path = tmp_path / "other.toml"
    path.write_text(f"# nothing{SCHEMA}".replace(old, new, 1))
    one, other = read_schema(schema_file).definitions(), read_schema(path).definitions()
    assert {name for name in {*one, *other} if one.get(name) != other.get(name)} == differ


def test_limits_of_a_target_are_refused_with_their_reason(tmp_path: Path) -> None:
    lines = ("format = 1", "[target]", 'column = "y"', 'kind = "regression"', "limits = true")
    (tmp_path / "s.toml").write_text("\n".join([*lines, "[columns.x]", 'kind = "number"', 'unit = "kg"']))
    with refused(ConfigurationError, "target: limits is for inputs, because no loss counts how far beyond a bound"):
        read_schema(tmp_path / "s.toml")


CLASSES = 'classes = ["well", "ill"]'


@pytest.mark.parametrize(
    ("old", "new", "fragment"),
    [
        ("format = 1", "format = 2", "format = 2"),
        ("format = 1", "", "format is missing"),
        ("format = 1", "format = 1\ncolours = 3", "unknown key 'colours' in the top of "),
        ("[0, 120]", "[120, 0]", "columns.age.range = [120, 0]: the first must be below the second"),
        ("[0, 120]", "[0, inf]", "columns.age.range.1 = inf: input should be a finite number"),
        ("[0, 120]", '"0 to 120"', "columns.age.range = '0 to 120'"),
        ("range = [0, 120]", "rnge = [0, 120]", "unknown key 'rnge' in columns.age of "),
        (
            "[columns.age]",
            "[columns.int]\nkind = 'number'\nrnge = 1\n[columns.age]",
            "unknown key 'rnge' in columns.int",
        ),
        ('kind = "ignore"', 'kind = "ignor"', "unknown kind 'ignor' in columns.note of "),
        ('kind = "ignore"', 'unit = "x"', "columns.note has no kind"),
        ('kind = "ignore"', 'kind = "group"', "columns patient, note are of kind group"),
        ('["B", "A", "AB", 0]', "[]", "columns.blood.values = []"),
        ('["B", "A", "AB", 0]', '["B", "A", "B"]', "columns.blood.values = ['B', 'A', 'B']: 'B' stands there twice"),
        ('["no", "nein", 0]', '["YES"]', "columns.smoker: 'yes' is a word for yes and for no"),
        ("filling = 70", "filling = 0.5", "columns.weight kg: filling = 0.5 is outside range = [1.0, 301.0]"),
        ("since = 2020-01-01", "since = 5.5", "columns.admitted.since = 5.5"),
        ("size = 16", "size = 3", "columns.complaint.size = 3"),
        ('column = "outcome"', 'column = "age"', "column 'age' is the target: leave out [columns.age]"),
        ('column = "outcome"', "", "target.column is missing"),
        (CLASSES, 'classes = ["well"]', "target: a classification needs two classes or more"),
        (CLASSES, 'kind = "regression"\nclasses = [1, 2]', "target: classes are for kind"),
        (CLASSES, 'kind = "regresion"', "target.kind = 'regresion'"),
        (CLASSES, "classes = [1, 2]\nrange = [0, 2]", "target: range and unit are for kind"),
        (SCHEMA, "[target", "is not valid TOML"),
        (SCHEMA[SCHEMA.index("[columns.age]") :], '[columns.a]\nkind = "ignore"\n', "no column to learn from"),
    ],
)
def test_a_schema_with_a_mistake_is_refused(old: str, new: str, fragment: str, tmp_path: Path) -> None:
    assert old in SCHEMA
    (tmp_path / "s.toml").write_text(SCHEMA.replace(old, new, 1))
    with refused(ConfigurationError, f"{tmp_path}/s.toml", fragment):
        read_schema(tmp_path / "s.toml")


def checked(schema_file: Path, path: Path) -> Checked:
    return check(read_schema(schema_file), read_sheet(str(path)))


def test_everything_that_does_not_fit_is_found_at_once(write: Callable[..., Path], schema_file: Path) -> None:
    found = [{**row, "extra": "1", "Blood": row["blood"]} for row in rows()]
    found[0] |= {"age": "old", "outcome": ""}
    found[3] |= {"age": "300", "admitted": "2040-01-01", "smoker": "maybe"}
    found[9] |= {"age": "-1", "outcome": "dead", "patient": ""}
    header = ("extra", *(name for name in HEADER if name != "blood"), "Blood")
    result = checked(schema_file, write("x.csv", found, header))
    seen = {(problem.column, problem.cells) for problem in result.problems}
    assert seen == {
        ("blood", ()),
        ("age", ((2, "old"),)),
        ("age", ((5, "300"), (11, "-1"))),
        ("admitted", ((5, "2040-01-01"),)),
        ("smoker", ((5, "maybe"),)),
        ("outcome", ((11, "dead"),)),
        ("outcome", ((2, ""),)),
        ("patient", ((11, ""),)),
    }
    (absent,) = [problem for problem in result.problems if problem.column == "blood"]
    assert absent.what == "is not in the file (is it the column 'Blood'?)"
    assert result.unknown == ["extra", "Blood"]


def test_words_for_a_gap_of_one_column(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        'format = 1\nmissing = []\n[target]\ncolumn = "y"\nclasses = [0, 1]\n'
        '[columns.a]\nkind = "number"\nrange = [0, 9]\nmissing = [-999]\n[columns.b]\nkind = "number"\n'
    )
    (tmp_path / "x.csv").write_text("a,b,y\n-999,-999,0\n1,NA,1\n")
    result = checked(tmp_path / "s.toml", tmp_path / "x.csv")
    assert result.gaps == {"a": 1}
    assert [(problem.column, problem.cells) for problem in result.problems] == [("b", ((3, "NA"),))]
