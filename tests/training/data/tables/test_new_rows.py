"""Reading new rows as the training rows were read: tables without a schema."""

import json
from pathlib import Path
from typing import Any

import torch

from dpeer.exceptions import TaskError
from dpeer.federation.build import build
from dpeer.federation.config import resolve
from dpeer.federation.settings import Settings
from dpeer.training import load_task
from dpeer.training.data.tables.prepare import Preparation
from dpeer.training.use.new_data import read_rows
from tests.error_texts import refused

OPTIONS = {"target": "y", "ignore": "id"}


def write(path: Path, header: str = "b,id,a,y", rows: int = 40) -> Path:
    """Rows whose cells follow from the column's name, so that columns may stand in any order."""
    names = header.split(",")
    made = [
        {"a": str(n / 7), "b": str(-n), "id": f"p{n}", "y": "ill" if n % 3 else "well", "z": "x"} for n in range(rows)
    ]
    path.write_text("\n".join([header, *(",".join(row[name] for name in names) for row in made)]) + "\n")
    return path


def trained(path: Path) -> Any:
    return load_task("csv", 0, 2, 0, {"path": str(path), **OPTIONS})


def restored(preparation: Preparation) -> Preparation:
    return Preparation.from_json(json.loads(json.dumps(preparation.to_json())))


def test_rows_are_read_by_name_whatever_their_order(tmp_path: Path) -> None:
    task = trained(write(tmp_path / "x.csv"))
    again = restored(task.preparation)
    found = read_rows(again, tmp_path / "x.csv", labels=True)
    other = read_rows(again, write(tmp_path / "other.csv", "y,z,a,id,b"), labels=True)
    assert torch.equal(found.inputs, other.inputs)
    assert torch.equal(found.inputs[task.indices["train"]], task.train.tensors[0])
    assert torch.equal(found.labels[task.indices["test"]], task.test.tensors[1])
    assert again.names == ("a", "b")
    assert found.keys == {"row": tuple(str(n + 2) for n in range(40)), "id": tuple(f"p{n}" for n in range(40))}
    assert [*other.keys] == ["row", "z", "id"]
    assert again.schema.target.classes == ("ill", "well")


def test_labels_are_read_where_they_are_wanted(tmp_path: Path) -> None:
    preparation = trained(write(tmp_path / "x.csv")).preparation
    without = write(tmp_path / "without.csv", "a,b")
    assert read_rows(preparation, without, labels=False).labels is None
    with refused(TaskError, "without.csv' has no column 'y'"):
        read_rows(preparation, without, labels=True)
    (tmp_path / "strange.csv").write_text("a,b,y\n1,2,dead\n")
    assert read_rows(preparation, tmp_path / "strange.csv", labels=False).labels is None
    with refused(TaskError, "column 'y', 1 of 1 cells: expected one of the classes ill, well: row 2: 'dead'"):
        read_rows(preparation, tmp_path / "strange.csv", labels=True)
    (tmp_path / "gap.csv").write_text("a,b\n1,\n")
    with refused(TaskError, "gap.csv': column 'b', 1 of 1 cells: a gap: fill it or drop the row: row 2"):
        read_rows(preparation, tmp_path / "gap.csv", labels=False)


def test_a_peer_has_a_preparation_among_its_parts(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv")
    settings = Settings(task="csv", task_options={"path": str(path), **OPTIONS}, size=2, out=tmp_path / "run")
    parts = build(resolve(settings, 0))
    assert parts.preparation is not None
    assert Preparation.from_json(parts.preparation).names == ("a", "b")
    assert build(resolve(Settings(size=2, out=tmp_path / "run"), 0)).preparation is None
