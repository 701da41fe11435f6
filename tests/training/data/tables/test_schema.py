"""Reading a schema.toml, and what is said of mistakes in one."""

import re
from pathlib import Path

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.training.data.tables.schema import WORDS, read_schema

from .conftest import SCHEMA


def test_what_a_file_says(schema_file: Path) -> None:
    schema = read_schema(schema_file)
    assert [*schema.inputs] == ["admitted", "age", "blood", "complaint", "smoker", "weight kg"]
    assert schema.group == "patient"
    assert schema.columns["blood"].values == ("B", "A", "AB", "0")
    assert schema.columns["smoker"].no == ("no", "nein", "0")
    assert schema.target.classes == ("well", "ill")
    assert schema.without_range == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("format = 1", "format = 2", "format = 2: input should be 1"),
        ("format = 1", "", "format is missing"),
        ("format = 1", "format = 1\ncolours = 3", "unknown key 'colours' in the top of .*: did you mean 'columns'"),
        ("[0, 120]", "[120, 0]", r"columns.age.range = \[120, 0\]: the first must be below the second; expected two"),
        ("[0, 120]", "[0, inf]", "both ends must be finite numbers"),
        ("[0, 120]", "[0]", r"columns.age.range.1 is missing|columns.age.range = \[0\]"),
        ("[0, 120]", '"0 to 120"', "columns.age.range = '0 to 120': .*; expected two of them, such as"),
        ("range = [0, 120]", "rnge = [0, 120]", "unknown key 'rnge' in columns.age of .*: did you mean 'range'"),
        ('kind = "ignore"', 'kind = "ignor"', "unknown kind 'ignor' in columns.note of .*: did you mean 'ignore'"),
        ('kind = "ignore"', 'unit = "x"', r"columns.note has no kind: write kind = \"number\" \(or category, yes-no,"),
        ('["B", "A", "AB", 0]', "[]", r"columns.blood.values = \[\]: .*; expected a list of words"),
        ('["B", "A", "AB", 0]', '["B", "A", "B"]', "columns.blood.values = .*: 'B' stands there twice"),
        ('["no", "nein", 0]', '["YES"]', "columns.smoker: 'yes' is a word for yes and for no"),
        ("filling = 70", "filling = 0.5", r"columns.weight kg: filling = 0.5 is outside range = \[1.0, 301.0\]"),
        ("since = 2020-01-01", "since = 5.5", "columns.admitted.since = 5.5: .*; expected a day without quotes"),
        ("size = 16", "size = 3", "columns.complaint.size = 3: input should be greater than or equal to 8"),
        ('column = "outcome"', 'column = "age"', r"column 'age' is the target: leave out \[columns.age\]"),
        ('column = "outcome"', "", "target.column is missing"),
        ('column = "outcome"', 'column = "outcome"\ncolor = 1', "unknown key 'color' in target of .*: did you mean"),
        ('classes = ["well", "ill"]', 'classes = ["well"]', "target: a classification needs two classes or more"),
        (
            'classes = ["well", "ill"]',
            'kind = "regression"\nclasses = [1, 2]',
            "classes are for kind = .classification",
        ),
        ('classes = ["well", "ill"]', 'kind = "regresion"', "target.kind = 'regresion': .* 'regression'"),
        ('classes = ["well", "ill"]', "classes = [1, 2]\nrange = [0, 2]", "range and unit are for kind"),
        ('kind = "ignore"', 'kind = "group"', "columns patient, note are of kind group: one column can say"),
        ("[target]", "[target", "is not valid TOML"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "s.toml"
    assert old in SCHEMA
    path.write_text(SCHEMA.replace(old, new, 1))
    with pytest.raises(ConfigurationError, match=message) as caught:
        read_schema(path)
    assert "\n" not in str(caught.value)
    assert "s.toml" in str(caught.value)


def test_the_example_of_the_documents_can_be_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "docs" / "tasks.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(# schema.toml\n.*?)```", page, flags=re.DOTALL)
    (tmp_path / "s.toml").write_text(example)
    schema = read_schema(tmp_path / "s.toml")
    assert len(schema.inputs) == 6
    assert schema.without_range == []


def test_a_schema_needs_something_to_learn_from(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text('format = 1\n[target]\ncolumn = "y"\nclasses = [0, 1]\n[columns.a]\nkind = "ignore"\n')
    with pytest.raises(ConfigurationError, match="no column to learn from"):
        read_schema(path)
    with pytest.raises(ConfigurationError, match=r"No such file or directory; .dpeer schema init"):
        read_schema(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("old", "new", "differ"),
    [
        ("[0, 120]", "[0, 121]", {"age"}),
        ('unit = "years"', 'unit = "months"', {"age"}),
        ('["B", "A", "AB", 0]', '["A", "B", "AB", "0"]', set()),
        ('["B", "A", "AB", 0]', '["A", "B", "AB"]', {"blood"}),
        ('["yes", "ja", 1]', '["yes", "ja"]', {"smoker"}),
        ("since = 2020-01-01", "since = 2021-01-01", {"admitted"}),
        ('["%Y-%m-%d", "%d.%m.%Y"]', '["%d.%m.%Y", "%Y-%m-%d"]', {"admitted"}),
        ("size = 16", "size = 17", {"complaint"}),
        ('["well", "ill"]', '["ill", "well"]', {"outcome"}),
        ('["NA", "?"]', '["NA"]', {WORDS}),
        ('["NA", "?"]', '["?", "NA"]', set()),
        ("# nothing", "# a comment", set()),
        ('[columns.note]\nkind = "ignore"', "", set()),
        ("[columns.patient]", "[columns.person]", set()),
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
