"""Everything that does not fit a schema, and the counts of a table that does."""

from collections.abc import Callable
from pathlib import Path

from dpeer.training.data.tables.check import Checked, check
from dpeer.training.data.tables.schema import read_schema
from dpeer.training.data.tables.sheet import read_sheet

from .conftest import HEADER, rows


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
