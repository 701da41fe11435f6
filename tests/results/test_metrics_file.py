"""metrics.jsonl, kept in step with the checkpoint."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dpeer.results.records import MetricsFile


def entry(number: int) -> dict[str, int]:
    return {"round": number, "bytes_sent": 10 * (number + 1), "bytes_received": 1}


def test_lines_of_rounds_that_are_run_again_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    first = MetricsFile(path)
    for number in range(3):
        first.append(entry(number))
    with path.open("a") as file:
        file.write('{"round": 3, "byt')
    again = MetricsFile(path, 2)
    assert json.dumps(entry(2)) in path.read_text(), "nothing is removed before the run begins"
    again.rewrite()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [entry(0), entry(1)]
    again.append(entry(2))
    assert json.loads(path.read_text().splitlines()[2]) == entry(2)


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        (Path.unlink, 3),
        (lambda path: os.truncate(path, 0), 3),
        (lambda path: os.truncate(path, path.stat().st_size - 5), 1),
        (lambda path: os.truncate(path, path.stat().st_size - 1), 0),
        (lambda path: path.write_bytes(path.read_bytes() + b"more\n"), 0),
    ],
)
def test_the_lines_after_a_change_by_another_program_are_whole_and_those_that_are_gone_are_counted(
    change: Callable[[Path], None], missing: int, tmp_path: Path
) -> None:
    path = tmp_path / "metrics.jsonl"
    metrics = MetricsFile(path)
    metrics.rewrite()
    for number in range(3):
        metrics.append(entry(number))
    change(path)
    for number in (3, 4):
        metrics.append(entry(number))
    assert metrics.missing(5) == missing
    assert [json.loads(line) for line in path.read_text().splitlines()[-2:]] == [entry(3), entry(4)]


def test_a_file_that_is_deleted_before_it_is_flushed_is_no_error_unless_its_folder_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "rank-0" / "metrics.jsonl"
    path.parent.mkdir()
    metrics = MetricsFile(path)
    metrics.append(entry(0))
    path.unlink()
    metrics.flush()
    path.parent.rmdir()
    with pytest.raises(FileNotFoundError):
        metrics.flush()


@pytest.mark.parametrize(
    ("content", "left"),
    [
        (b'{"round": 0}\n{"round": 1}\n', [0, 1]),
        (b'{"round": 0}\n{"round": 1}\n{"round": 2, "by', [0, 1]),
        (b'{"round": 0}\n{"ro\xff\xfe\x85nd": 1}\n', [0]),
        (b'{"round": 1}', [1]),
        (b"", []),
        (None, []),
    ],
)
def test_whole_lines_are_kept_and_those_that_are_damaged_are_missing(
    content: bytes | None, left: list[int], tmp_path: Path
) -> None:
    path = tmp_path / "metrics.jsonl"
    if content is not None:
        path.write_bytes(content)
    metrics = MetricsFile(path, 2)
    assert metrics.missing(2) == 2 - len(left)
    metrics.rewrite()
    assert [json.loads(line)["round"] for line in path.read_text().splitlines()] == left
    assert metrics.missing(2) == 2 - len(left)


def test_the_kept_lines_of_a_resumed_run_are_on_disk_before_they_take_the_files_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power loss a name may stand for a file of which nothing has been flushed: an empty one."""
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps(entry(number)) + "\n" for number in range(3)))
    metrics = MetricsFile(path, 2)
    flushed: dict[int, tuple[int, tuple[str, ...]]] = {}
    fsync, replace = os.fsync, Path.replace

    def flush(descriptor: int) -> None:
        fsync(descriptor)
        found = os.fstat(descriptor)
        flushed[found.st_ino] = (found.st_size, tuple(one.name for one in tmp_path.iterdir()))

    def take_the_place(draft: Path, target: Path) -> Path:
        found = draft.stat()
        assert flushed[found.st_ino][0] == found.st_size > 0, "the new name would stand for what is not on disk"
        return replace(draft, target)

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(Path, "replace", take_the_place)
    metrics.rewrite()
    assert flushed[tmp_path.stat().st_ino][1] == ("metrics.jsonl",), "the folder, after the change of names"
    metrics.append(entry(2))
    metrics.flush()
    assert flushed[path.stat().st_ino][0] == path.stat().st_size
