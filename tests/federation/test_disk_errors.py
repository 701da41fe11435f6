"""A full disk is told with the folder that is on it."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors import SafetensorError

from dpeer.exceptions import ConfigurationError, OutputError, TaskError
from dpeer.federation.folders import naming


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)),
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_full_disk_names_the_folder(error: Exception, tmp_path: Path) -> None:
    with (
        pytest.raises(OutputError, match=r"run' cannot be written: no space is left") as found,
        naming(tmp_path / "run"),
    ):
        raise error
    assert found.value.__cause__ is error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.EROFS, "no"), "its file system is read-only"),
        (OSError(errno.EIO, "no"), "its disk reports an input/output error"),
        (OSError(errno.ESTALE, "no"), "a stale file handle"),
        (SafetensorError("I/O error: File too large (os error 27)"), "a file is longer than the limit allows"),
        (FileNotFoundError(errno.ENOENT, "no"), "the folder was deleted in mid-run"),
        (RuntimeError("can't start new thread"), "the system gives no more threads"),
        (MemoryError(), "no memory is left"),
        (OSError(errno.ENOMEM, "no"), "no memory is left"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), "no memory is left"),
    ],
)
def test_errors_of_the_machine_are_one_line_that_says_what_to_do(
    error: Exception, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=message) as found, naming(tmp_path / "run"):
        raise error
    assert found.value.exit_code == 2
    assert "--resume goes on" in str(found.value)
    assert "\n" not in str(found.value)


def test_a_task_that_gets_no_memory_is_told_of_that_and_of_the_task(tmp_path: Path) -> None:
    message = r"^no memory is left; .* the last completed round \('.*run'; the task's train data cannot be read\)$"
    error = TaskError("the task's train data cannot be read")
    error.__cause__ = MemoryError()
    with pytest.raises(ConfigurationError, match=message), naming(tmp_path / "run"):
        raise error


@pytest.mark.parametrize("error", [PermissionError(errno.EACCES, "no"), TaskError("(os error 28)"), ValueError("28")])
def test_other_errors_stay_what_they_are(error: Exception, tmp_path: Path) -> None:
    with pytest.raises(type(error)) as found, naming(tmp_path):
        raise error
    assert found.value is error


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
    assert ended.code == 2
    assert ended.complaints[-1] == (
        "dpeer: 'dpeer-run' cannot be written: no space is left on its disk, or in its quota; make room, then --resume "
        "goes on from the last completed round"
    )
