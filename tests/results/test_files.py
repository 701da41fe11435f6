"""Files of a run folder."""

import os
import stat
from pathlib import Path

import pytest

from dpeer.results.files import make_folder


def test_the_names_of_new_folders_are_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a power loss could take away what a rank has written of its releases."""
    flushed: list[tuple[int, int]] = []
    real = os.fsync

    def noted(descriptor: int) -> None:
        found = os.fstat(descriptor)
        assert stat.S_ISDIR(found.st_mode)
        flushed.append((found.st_dev, found.st_ino))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    make_folder(tmp_path / "run" / "of" / "rank-0")
    above = [tmp_path, tmp_path / "run", tmp_path / "run" / "of"]
    assert {(one.stat().st_dev, one.stat().st_ino) for one in above} == set(flushed)
    flushed.clear()
    make_folder(tmp_path / "run" / "of" / "rank-0")
    make_folder(tmp_path / "run" / "of" / "rank-1")
    assert [inode for _, inode in flushed] == [(tmp_path / "run" / "of").stat().st_ino]
