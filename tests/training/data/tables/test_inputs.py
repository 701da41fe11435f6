"""Reading new rows as the training rows were read: tables without a schema."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from dpeer.exceptions import TaskError
from dpeer.federation.build import build
from dpeer.federation.config import resolve
from dpeer.federation.settings import Settings
from dpeer.training import load_task
from dpeer.training.data.tables.inputs import TableInputs

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


def restored(reading: TableInputs) -> TableInputs:
    return TableInputs.from_json(json.loads(json.dumps(reading.to_json())))


def test_rows_are_read_by_name_whatever_their_order(tmp_path: Path) -> None:
    task = trained(write(tmp_path / "x.csv"))
    found = restored(task.reading).read(tmp_path / "x.csv")
    other = restored(task.reading).read(write(tmp_path / "other.csv", "y,z,a,id,b"))
    assert torch.equal(found.inputs, other.inputs)
    assert torch.equal(found.inputs[task.indices["train"]], task.train.tensors[0])
    assert torch.equal(found.labels[task.indices["test"]], task.test.tensors[1])
    assert found.columns == ("a", "b")
    assert found.others == {"id": tuple(f"p{n}" for n in range(40))}
    assert [*other.others] == ["z", "id"]
    assert found.places == tuple(range(2, 42))
    assert task.reading.classes == ("ill", "well")


def test_labels_are_read_where_they_are_there_and_wanted(tmp_path: Path) -> None:
    reading = trained(write(tmp_path / "x.csv")).reading
    assert reading.read(write(tmp_path / "without.csv", "a,b")).labels is None
    (tmp_path / "strange.csv").write_text("a,b,y\n1,2,dead\n")
    assert reading.read(tmp_path / "strange.csv", labels=False).labels is None
    with pytest.raises(TaskError):
        reading.read(tmp_path / "strange.csv")


def test_a_peer_has_a_preparation_among_its_parts(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv")
    settings = Settings(task="csv", task_options={"path": str(path), **OPTIONS}, size=2, out=tmp_path / "run")
    parts = build(resolve(settings, 0))
    assert parts.preparation is not None
    assert TableInputs.from_json(parts.preparation).columns == ("a", "b")
    assert build(resolve(Settings(size=2, out=tmp_path / "run"), 0)).preparation is None
