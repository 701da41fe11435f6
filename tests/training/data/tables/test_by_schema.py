"""From the cells of a table to the inputs of a model: what a schema says, and what a trained model reads again."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dpeer.exceptions import CheckpointError, ConfigurationError, TaskError
from dpeer.training import Choices, load_task
from dpeer.training.data.tables.prepare import Preparation
from dpeer.training.use.new_data import read_rows
from tests.error_texts import refused

from .conftest import HEADER, SCHEMA, rows


def trained(path: Path, schema: Path, **choices: Any) -> Any:
    return load_task("csv", 0, 2, 0, {"path": str(path)}, Choices(schema=schema, **choices))


def test_statistics_are_of_the_training_rows_alone(site: dict[str, Any], write: Any, schema_file: Path) -> None:
    task = trained(site["path"], schema_file)
    patients = [{site["rows"][n]["patient"] for n in task.indices[part]} for part in ("train", "test")]
    assert not patients[0] & patients[1]
    assert len(set(task.groups.tolist())) == len(patients[0])
    changed = [dict(row) for row in site["rows"]]
    for place in task.indices["test"]:
        changed[place]["age"] = "119"
    again = trained(write("changed.csv", changed), schema_file)
    assert again.indices["test"].tolist() == task.indices["test"].tolist()
    assert again.preparation.statistics == task.preparation.statistics
    assert not torch.equal(again.test.tensors[0], task.test.tensors[0])


@pytest.mark.parametrize("own", [True, False])
def test_it_is_made_again_from_its_json_to_the_bit(site: dict[str, Any], schema_file: Path, own: bool) -> None:
    task = trained(site["path"], schema_file, standardize=own)
    again = Preparation.from_json(json.loads(json.dumps(task.preparation.to_json())))
    found = read_rows(again, site["path"], labels=True)
    for part in ("train", "test"):
        inputs, targets = getattr(task, part).tensors
        assert torch.equal(found.inputs[task.indices[part]], inputs)
        assert torch.equal(found.labels[task.indices[part]], targets)
    assert again == task.preparation
    for name, column, cell in (
        ("complaint is missing", "complaint", ""), ("smoker is missing", "smoker", ""), ("blood = AB", "blood", "AB"),
        ("blood is missing", "blood", "?"), ("admitted is missing", "admitted", ""),
    ):  # fmt: skip
        assert found.inputs[:, again.names.index(name)].tolist() == [row[column] == cell for row in site["rows"]], name
    alone = [read_rows(again, path, labels=False).inputs for path in single_rows(site["path"])]
    assert torch.equal(torch.cat(alone), found.inputs[:5]), "a row's inputs do not depend on the others"


def single_rows(path: Path) -> list[Path]:
    header, *lines = path.read_text().splitlines()
    made = []
    for place, line in enumerate(lines[:5]):
        made.append(path.with_name(f"row-{place}.csv"))
        made[-1].write_text(f"{header}\n{line}\n")
    return made


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_the_order_of_columns_means_nothing(write: Any, schema_file: Path, tmp_path: Path, seed: int) -> None:
    found, header, draw = rows(40, seed), [*HEADER], random.Random(seed)
    first = trained(write("first.csv", found), schema_file)
    draw.shuffle(header)
    second = trained(write("second.csv", found, tuple(header)), schema_file)
    assert torch.equal(first.train.tensors[0], second.train.tensors[0])
    blocks = SCHEMA.strip().split("\n\n")
    draw.shuffle(columns := blocks[2:])
    (tmp_path / "moved.toml").write_text(
        "\n\n".join(blocks[:2] + columns).replace('["B", "A", "AB", 0]', '[0, "AB", "A", "B"]')
    )
    third = trained(write("second.csv", found, tuple(header)), tmp_path / "moved.toml")
    assert torch.equal(first.test.tensors[0], third.test.tensors[0])
    assert first.preparation.definitions == third.preparation.definitions


def test_new_rows_need_no_truth_no_group_and_no_ignored_column(
    site: dict[str, Any], write: Any, schema_file: Path
) -> None:
    task = trained(site["path"], schema_file)
    found = read_rows(task.preparation, write("new.csv", site["rows"], HEADER[:6]), labels=False)
    assert found.labels is None
    assert [*found.keys] == ["row"]
    assert torch.equal(found.inputs, read_rows(task.preparation, site["path"], labels=False).inputs)
    everything = read_rows(task.preparation, site["path"], labels=True)
    assert [*everything.keys] == ["row", "patient", "note"]
    assert any("of 'blood' are not in the schema and become other: 'XX'" in remark for remark in everything.remarks)


def test_new_values_beyond_the_range_are_cut_and_remarked(site: Any, write: Any, schema_file: Path) -> None:
    task, found = trained(site["path"], schema_file, standardize=False), rows(40)
    found[0]["age"], found[1]["age"] = "200", "-3"
    new = read_rows(task.preparation, write("x.csv", found), labels=True)
    assert new.inputs[:2, task.preparation.names.index("age")].tolist() == [1.0, -1.0]
    assert new.remarks[0] == "2 values lie outside the range of 'age', [0, 120] years: cut to its nearer end"


def test_bounds_are_values_with_an_input_of_their_own(site: Any, write: Any, schema_file: Path) -> None:
    found = [dict(row) for row in site["rows"]]
    found[0]["age"], found[1]["age"], found[2]["age"] = "<20", "> 90", ""
    path = write("bounds.csv", found)
    with refused(
        TaskError, "'age', 2 of 60 cells: a bound, not a value: limits = true reads it: row 2: '<20', row 3: '> 90'"
    ):
        trained(path, schema_file)
    before = trained(site["path"], schema_file).preparation.to_json()
    schema_file.write_text(SCHEMA.replace('unit = "years"', 'unit = "years"\nlimits = true'))
    task = trained(path, schema_file, standardize=False)
    names = task.preparation.names
    assert names[-1] == "age is a bound"
    assert [name for name in names if name not in before["inputs"]] == ["age is a bound"]
    new = read_rows(task.preparation, path, labels=True)
    assert new.inputs[:4, -1].tolist() == [-1, 1, 0, 0]
    age = new.inputs[:2, names.index("age")]
    assert age.tolist() == pytest.approx([20 / 60 - 1, 90 / 60 - 1])
    assert new.flags[2].startswith("age: gap")
    assert "age: bound" in new.flags[0]
    assert "2 cells of 'age' read as bounds (< or >)" in new.remarks
    content = json.loads(json.dumps(task.preparation.to_json()))
    again = Preparation.from_json(content)
    assert torch.equal(read_rows(again, path, labels=True).inputs, new.inputs)
    with refused(CheckpointError, "the preparation has format 4, this dpeer reads 3"):
        Preparation.from_json({**content, "format": 4})
    del content["statistics"]["age"]
    with pytest.raises(CheckpointError):
        Preparation.from_json(content)


def test_rows_that_cannot_be_read_are_left_out_where_they_may_be(site: Any, write: Any, schema_file: Path) -> None:
    task, found = trained(site["path"], schema_file), [dict(row) for row in site["rows"][:6]]
    found[1]["age"], found[3]["admitted"], found[4]["age"] = "old", "31.02.2020", "200"
    path = write("new.csv", found)
    with refused(
        TaskError, "column 'admitted', 1 of 6 cells: expected kind = \"date\", format", "; 1 more problem, in 'age'"
    ):
        read_rows(task.preparation, path, labels=False)
    new = read_rows(task.preparation, path, labels=False, leave_out=True)
    assert (len(new), new.left_out) == (4, 2)
    assert new.keys["row"] == ("2", "4", "6", "7")
    assert new.remarks[0].startswith("rows left out: column 'admitted', 1 of 6 cells: expected kind = \"date\"")
    assert "age: cut" in new.flags[2]
    for row in found:
        row |= {"age": "old", "admitted": ""}
    with refused(TaskError, "6 of 6 cells: expected kind = ", "range = [0, 120]: 'old' 6 times, first in row 2"):
        read_rows(task.preparation, write("none.csv", found), labels=False, leave_out=True)


@pytest.mark.parametrize(
    ("changes", "fragment"),
    [
        ({"age": "old"}, "range = [0, 120]: row 3: 'old'; `dpeer schema"),
        ({"age": "1_0"}, 'of 40 cells: expected kind = "number", unit = "years", range = [0, 120]: row 3: '),
        ({"age": "1020"}, "column 'age', 1 of 40 cells: outside the range [0, 120] years: row 3: '1020'"),
        ({"smoker": "maybe"}, 'expected kind = "yes-no", yes = ["yes", "ja", "1"], no = ["no", "nein", "0"]: row 3'),
        ({"admitted": "31.02.2020"}, 'expected kind = "date", format = ["%Y-%m-%d", "%d.%m.%Y"]'),
        ({"outcome": "dead"}, '1 of 40 cells: expected classes = ["well", "ill"]: row 3: '),
        ({"outcome": ""}, "column 'outcome', 1 of 40 cells: a gap: fill it or drop the row: row 3"),
        ({"patient": ""}, "column 'patient', 1 of 40 cells: a gap: fill it or drop the row: row 3"),
        ({"outcome": "dead", "age": "old"}, "'old'; 1 more problem, in 'outcome'; `dpeer schema check` lists all"),
    ],
)
def test_a_cell_that_does_not_fit_the_schema(
    changes: dict[str, str], fragment: str, write: Callable[..., Path], schema_file: Path
) -> None:
    found = rows(40)
    found[1] |= changes
    with refused(TaskError, "x.csv' does not fit the schema: ", fragment):
        trained(write("x.csv", found), schema_file)


def test_what_a_schema_leaves_no_place_for(write: Callable[..., Path], schema_file: Path) -> None:
    options = {"path": str(write("x.csv", rows(40))), "target": "outcome"}
    with refused(TaskError, f"the schema '{schema_file}' says it: leave out --task-option target"):
        load_task("csv", 0, 2, 0, options, Choices(schema=schema_file))
    with refused(ConfigurationError, f"--schema {schema_file} is for --task csv"):
        load_task("digits", 0, 2, 0, {}, Choices(schema=schema_file))


def test_labels_are_read_where_they_are_wanted(tmp_path: Path) -> None:
    """Without a schema, too: what was found in the training rows is one."""
    rows = "".join(f"{n / 7},{-n},{'ill' if n % 3 else 'well'}\n" for n in range(40))
    contents = {"x": f"a,b,y\n{rows}", "without": "b,a\n1,2\n", "strange": "a,b,y\n1,2,dead\n", "gap": "a,b\n1,\n"}
    for name, content in contents.items():
        (tmp_path / f"{name}.csv").write_text(content)
    made = load_task("csv", 0, 2, 0, {"path": str(tmp_path / "x.csv"), "target": "y"}).preparation
    preparation = Preparation.from_json(json.loads(json.dumps(made.to_json())))
    assert read_rows(preparation, tmp_path / "without.csv", labels=False).inputs.tolist() == [[2, 1]]
    assert read_rows(preparation, tmp_path / "strange.csv", labels=False).labels is None
    for name, labels, fragment in (
        ("without", True, "without.csv' has no column 'y'"),
        ("strange", True, "column 'y', 1 of 1 cells: expected classes = [\"ill\", \"well\"]: row 2: 'dead'"),
        ("gap", False, "gap.csv': column 'b', 1 of 1 cells: a gap: fill it or drop the row: row 2"),
    ):
        with refused(TaskError, fragment):
            read_rows(preparation, tmp_path / f"{name}.csv", labels=labels)
