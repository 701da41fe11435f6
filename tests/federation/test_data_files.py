"""partition.json and preparation.json of a run that is resumed: compared, made again, or refused."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import CheckpointError
from dpeer.federation.data_files import hashes, partition_of, save_data_files
from dpeer.peer import checkpoint

CONTENT = "b" * 64
PREPARATION = {"format": 1, "columns": [{"name": "age", "mean": 40.5}]}


def partition(*train: int, content: str = CONTENT) -> dict[str, Any]:
    return partition_of("digits", "iid", {"train": [*train], "test": [7, 8]}, content)


def begun(folder: Path, *, rounds: int = 1) -> Callable[..., list[str]]:
    """A run that has begun in a folder and completed rounds; gives what goes on with it."""
    save_data_files(folder, partition(1, 2), PREPARATION, resume=False)
    kept = {"about": {"files": hashes(partition(1, 2), PREPARATION)}}
    if rounds:
        state = checkpoint.State(rounds, {"size": 2}, extra=kept)
        checkpoint.write(folder / checkpoint.FOLDER, state, lambda directory: None)
    return partial(save_data_files, folder, resume=True)


def test_partition_json_says_whether_the_division_or_the_data_have_changed(tmp_path: Path) -> None:
    resumed = begun(tmp_path)
    assert resumed(partition(1, 2), PREPARATION) == []
    with pytest.raises(CheckpointError):
        resumed(partition(1, 3), PREPARATION)
    with pytest.raises(CheckpointError):
        resumed(partition(1, 2, content="x"), PREPARATION)
    with pytest.raises(CheckpointError):
        resumed(partition(1, 2), {**PREPARATION, "format": 2})
    assert json.loads((tmp_path / "partition.json").read_text()) == partition(1, 2)
    save_data_files(tmp_path, None, None, resume=False)
    assert not (tmp_path / "partition.json").exists(), "a task that brings its own data"
    assert not (tmp_path / "preparation.json").exists()


def test_a_run_is_not_resumed_on_samples_that_it_has_held_out_nor_the_other_way_round(tmp_path: Path) -> None:
    held = partition_of("own.py:task", None, {"validation": [1, 2]}, CONTENT)
    save_data_files(tmp_path, held, None, resume=True)  # nothing was completed: this is a beginning
    (tmp_path / "checkpoint" / "round-00000000").mkdir(parents=True)
    with pytest.raises(CheckpointError):
        save_data_files(tmp_path, None, None, resume=True)
    assert json.loads((tmp_path / "partition.json").read_text()) == held
    (tmp_path / "partition.json").unlink()
    with pytest.raises(CheckpointError):
        save_data_files(tmp_path, held, None, resume=True)
    save_data_files(tmp_path, None, None, resume=True)


def _delete(path: Path) -> None:
    path.unlink()


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def _flip(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30] + b"\xff" + path.read_bytes()[-29:])


def _change_a_digit(path: Path) -> None:
    path.write_text(path.read_text().replace("[1, 2]", "[1, 9]").replace("40.5", "41.5"))


@pytest.mark.parametrize("damage", [_delete, _cut, _flip, _change_a_digit])
@pytest.mark.parametrize("name", ["partition.json", "preparation.json"])
def test_a_file_that_is_lost_or_damaged_is_made_again_if_it_comes_out_as_it_was(
    name: str, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    resumed = begun(tmp_path)
    before = (tmp_path / name).read_bytes()
    damage(tmp_path / name)
    (line,) = resumed(partition(1, 2), PREPARATION)
    state = "missing" if damage is _delete else "damaged"
    assert line == f"{str(tmp_path / name)!r} was {state}: it was made again from the same data and settings"
    assert (tmp_path / name).read_bytes() == before
    assert resumed(partition(1, 2), PREPARATION) == []


@pytest.mark.parametrize("damage", [_delete, _cut])
@pytest.mark.parametrize("name", ["partition.json", "preparation.json"])
def test_it_is_not_made_again_of_other_data(name: str, damage: Callable[[Path], None], tmp_path: Path) -> None:
    resumed = begun(tmp_path)
    damage(tmp_path / name)
    left = (tmp_path / name).read_bytes() if (tmp_path / name).exists() else None
    others = (partition(1, 3), PREPARATION) if name == "partition.json" else (partition(1, 2), {"format": 2})
    with pytest.raises(CheckpointError):
        resumed(*others)
    assert ((tmp_path / name).read_bytes() if (tmp_path / name).exists() else None) == left


def test_before_the_first_completed_round_there_is_nothing_to_compare(tmp_path: Path) -> None:
    resumed = begun(tmp_path, rounds=0)
    (tmp_path / "partition.json").write_text("[")
    assert len(resumed(partition(1, 2), PREPARATION)) == 1
    assert json.loads((tmp_path / "partition.json").read_text()) == partition(1, 2)


def test_what_was_held_out_is_known_from_the_checkpoint_where_the_file_is_lost(tmp_path: Path) -> None:
    resumed = begun(tmp_path)
    (tmp_path / "partition.json").unlink()
    with pytest.raises(CheckpointError):
        resumed(None, PREPARATION)
