"""A full disk is told with the folder that is on it."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import TaskError
from dpeer.federation.folders import naming


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
