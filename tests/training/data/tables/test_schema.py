"""Schemas: what a file holds, and which definitions differ."""

import re
from pathlib import Path

import pytest

from dpeer.training.data.tables.schema import WORDS, read_schema

from .conftest import SCHEMA


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
