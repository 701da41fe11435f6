"""Folders of earlier runs, and errors of the disk and the machine under them."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors import SafetensorError

from dpeer.exceptions import CheckpointError, ConfigurationError, OutputError, TaskError
from dpeer.federation.folders import check, naming, working_folder_kept
from dpeer.federation.settings import Settings
from dpeer.results.files import rank_folder
from dpeer.results.records import MetricsFile
from dpeer.simulation.run import simulate
from tests.error_texts import refused


def run_of(out: Path, rank: int, rounds: int = 1) -> Path:
    folder = rank_folder(out, rank)
    (folder / "checkpoint" / f"round-{rounds - 1:08d}").mkdir(parents=True)
    (folder / "metrics.jsonl").write_text("{}\n" * rounds)
    (folder / "summary.json").write_text("{}")
    (folder / "notes.txt").write_text("mine")
    return folder


def test_an_earlier_run_is_in_the_way_until_resume_or_overwrite(tmp_path: Path) -> None:
    folder = run_of(tmp_path, 1)
    with pytest.raises(OutputError):
        check(tmp_path, range(3), resume=False, overwrite=False)
    assert not rank_folder(tmp_path, 0).exists(), "nothing was touched"
    check(tmp_path, [0, 2], resume=False, overwrite=False)  # another peer's run is none of theirs

    check(tmp_path, range(3), resume=True, overwrite=False)
    assert (folder / "metrics.jsonl").read_text() == "{}\n"

    check(tmp_path, range(3), resume=False, overwrite=True)
    assert (folder / "metrics.jsonl").read_text() == "{}\n", "removed only when the new run begins"


def test_what_a_mistyped_command_left_is_not_in_the_way(tmp_path: Path) -> None:
    folder = rank_folder(tmp_path, 0)
    folder.mkdir()
    (folder / "log.jsonl").write_text("{}\n")
    (folder / "metrics.jsonl").write_text("")
    check(tmp_path, [0], resume=False, overwrite=False)


def test_there_must_be_something_to_resume(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError):
        check(tmp_path, range(3), resume=True, overwrite=False)
    with pytest.raises(CheckpointError):
        check(tmp_path, [2], resume=True, overwrite=False)
    assert list(tmp_path.iterdir()) == []


def test_resume_and_overwrite_exclude_each_other(tmp_path: Path) -> None:
    folder = run_of(tmp_path, 0)
    with pytest.raises(OutputError):
        check(tmp_path, [0], resume=True, overwrite=True)
    assert (folder / "summary.json").exists()


def test_a_damaged_line_of_a_private_run_leaves_its_ledger_alone_and_the_run_goes_on(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "size": 2, "task": "digits", "local_steps": 1, "out": tmp_path, "privacy": "client", "noise_multiplier": 2.0,
        "clip_norm": 0.5,
    }  # fmt: skip
    simulate(Settings(rounds=2, **given))
    metrics = tmp_path / "rank-0" / "metrics.jsonl"
    metrics.write_bytes(metrics.read_bytes().replace(b'"round": 0', b'"rou\xff\xfe: 0'))
    simulate(Settings(rounds=3, **given), resume=True)
    damaged, whole = (json.loads((tmp_path / f"rank-{rank}" / "summary.json").read_text()) for rank in range(2))
    assert damaged["epsilon"] == whole["epsilon"]
    assert damaged["privacy"]["releases"] == 3
    assert (damaged["metrics_missing"], whole["metrics_missing"]) == (1, 0)


@pytest.mark.parametrize("error", [PermissionError(errno.EACCES, "no"), TaskError("(os error 28)"), ValueError("28")])
def test_other_errors_stay_what_they_are(error: Exception, tmp_path: Path) -> None:
    with pytest.raises(type(error)) as found, naming(tmp_path):
        raise error
    assert found.value is error


@pytest.mark.parametrize(
    ("error", "fragment"),
    [
        (OSError(errno.EROFS, "no"), "cannot be written: Read-only file system; once that is mended, --resume"),
        (SafetensorError("I/O error: File too large (os error 27)"), "cannot be written: File too large"),
        (FileNotFoundError(errno.ENOENT, "no"), "cannot be written: No such file or directory"),
        (RuntimeError("can't start new thread"), "can't start new thread"),
        (OSError(errno.ENOMEM, "no"), "no"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "can't allocate memory"),
    ],
)
def test_a_machine_that_gives_no_more_is_named(error: Exception, fragment: str, tmp_path: Path) -> None:
    with refused(ConfigurationError, f"'{tmp_path}/run'", fragment), naming(tmp_path / "run"):
        raise error


def test_a_task_without_memory_keeps_its_own_words(tmp_path: Path) -> None:
    with refused(ConfigurationError, "MemoryError; once", "; the task's train data)"), naming(tmp_path):
        raise TaskError("the task's train data: cannot be read") from MemoryError()


def test_a_run_whose_disk_fills_up_ends_with_one_line(
    dpeer: Callable[..., Any], small_task: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, left = os.fsync, iter(range(3))

    def fsync(descriptor: int) -> None:
        if next(left, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    ended = dpeer("simulate", "--size", 2, "--rounds", 3, "--task", "mine.py:task")
    assert ended.code == 75
    assert ended.complaints[-1] == (
        "dpeer: 'dpeer-run' cannot be written: No space left on device; once that is mended, --resume goes on from the "
        "last completed round"
    )


def test_a_folder_that_is_deleted_in_mid_run_ends_the_peer(
    dpeer: Callable[..., Any], small_task: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    append = MetricsFile.append

    def deleted(file: MetricsFile, entry: dict[str, Any]) -> None:
        if entry["round"] == 1:
            shutil.rmtree(tmp_path / "run")
        append(file, entry)

    monkeypatch.setattr(MetricsFile, "append", deleted)
    alone = ("--rank", 0, "--size", 2, "--algorithm", "local", "--rounds", 4, "--task", "mine.py:task")
    ended = dpeer("start", *alone, "--out", "run")
    assert ended.code == 2
    assert "cannot be written: No such file or directory" in ended.complaints[-1]
    assert not (tmp_path / "run").exists(), "nothing is written to a new folder of that name"


def test_the_folder_is_the_same_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with working_folder_kept() as home:
        os.chdir("/")
    assert home == tmp_path == Path.cwd()
