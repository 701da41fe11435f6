"""metrics.jsonl, kept in step with the checkpoint."""

import json
import os
from pathlib import Path

import pytest

from dpeer.results.metrics import MetricsFile


def entry(number: int) -> dict[str, int]:
    return {"round": number, "bytes_sent": 10 * (number + 1), "bytes_received": 1}


def test_lines_of_rounds_that_are_run_again_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    first = MetricsFile(path, 0)
    for number in range(3):
        first.append(entry(number))
    with path.open("a") as file:
        file.write('{"round": 3, "byt')
    again = MetricsFile(path, 2)
    assert (again.last, again.bytes_sent, again.bytes_received) == (entry(1), 30, 2)
    assert again.entry(2) == entry(2), "nothing is removed before the run begins"
    again.rewrite()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [entry(0), entry(1)]
    assert again.entry(2) is None
    again.append(entry(2))
    assert again.entry(2) == entry(2)
    assert again.bytes_sent == 60


def test_without_a_file_the_last_line_is_known_all_the_same() -> None:
    metrics = MetricsFile(None, 0)
    metrics.append(entry(0))
    assert (metrics.last, metrics.bytes_sent, metrics.entry(0)) == (entry(0), 10, None)


def test_what_a_resumed_run_keeps_is_on_disk_before_it_takes_the_files_place(
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
