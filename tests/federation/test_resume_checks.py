"""partition.json and preparation.json of a run that is resumed: written anew, or refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import CheckpointError
from dpeer.federation.resume_checks import hashes, partition_of, save_data_files
from dpeer.peer import checkpoint

CONTENT = "b" * 64
PREPARATION = {"format": 1, "columns": [{"name": "age", "mean": 40.5}]}


def partition(*train: int, content: str = CONTENT) -> dict[str, Any]:
    return partition_of("digits", "iid", {"train": [*train], "test": [7, 8]}, content)


def begun(folder: Path, *files: dict[str, Any] | None) -> None:
    """A run of these two files that has completed a round."""
    save_data_files(folder, *files, resume=False)
    state = checkpoint.State(1, {"size": 2}, extra={"about": {"files": hashes(*files)}})
    checkpoint.write(folder / checkpoint.FOLDER, state, lambda directory: None)


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.glob("*.json")}


def test_files_of_the_same_data_are_written_anew_whatever_became_of_them(tmp_path: Path) -> None:
    begun(tmp_path, partition(1, 2), PREPARATION)
    before = contents(tmp_path)
    assert json.loads(before["partition.json"]) == partition(1, 2)
    assert json.loads(before["preparation.json"]) == PREPARATION
    (tmp_path / "partition.json").unlink()
    (tmp_path / "preparation.json").write_bytes(b"\xff{")
    save_data_files(tmp_path, partition(1, 2), PREPARATION, resume=True)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("began", "now"),
    [
        ((partition(1, 2), PREPARATION), (partition(1, 3), PREPARATION)),
        ((partition(1, 2), PREPARATION), (partition(1, 2, content="x"), PREPARATION)),
        ((partition(1, 2), PREPARATION), (partition(1, 2), PREPARATION | {"format": 2})),
        ((partition(1, 2), None), (None, None)),  # trains on what it held out
        ((None, None), (partition(1, 2), None)),  # holds out what it trained on
    ],
)
def test_other_data_are_refused_and_nothing_is_written(began: Any, now: Any, tmp_path: Path) -> None:
    begun(tmp_path, *began)
    before = contents(tmp_path)
    with pytest.raises(CheckpointError):
        save_data_files(tmp_path, *now, resume=True)
    assert contents(tmp_path) == before
    save_data_files(tmp_path, *now, resume=False)
    assert {*contents(tmp_path)} == {
        name for name, one in zip(("partition.json", "preparation.json"), now, strict=True) if one is not None
    }


def test_before_the_first_completed_round_there_is_nothing_to_compare(tmp_path: Path) -> None:
    save_data_files(tmp_path, partition(1, 2), PREPARATION, resume=False)
    save_data_files(tmp_path, partition(1, 3), None, resume=True)
    assert json.loads((tmp_path / "partition.json").read_text()) == partition(1, 3)


def test_a_damaged_checkpoint_is_left_for_its_reader_to_name(tmp_path: Path) -> None:
    begun(tmp_path, partition(1, 2), PREPARATION)
    (tmp_path / "checkpoint" / "round-00000000" / checkpoint.STATE).write_text("{")
    save_data_files(tmp_path, partition(1, 2), PREPARATION, resume=True)
