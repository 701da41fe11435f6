"""Files of a run folder."""

import os
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from dpeer.atomic import replacing
from dpeer.results.files import make_folder, parse, write_json


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


@pytest.mark.parametrize("planted", [True, False])
def test_a_file_is_replaced_whole_and_a_planted_link_is_not_followed(tmp_path: Path, planted: bool) -> None:
    path, other = tmp_path / "worth-0.json", tmp_path / "other"
    other.write_text("another's")
    draft = tmp_path / ".worth-0.json.tmp"
    draft.symlink_to(other) if planted else draft.write_text("left by a killed process")
    write_json(path, {"gain": 0.1})
    assert parse(path.read_text()) == {"gain": 0.1}
    assert other.read_text() == "another's"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["other", "worth-0.json"]
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


def test_a_draft_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    with suppress(ValueError), replacing(path) as draft:
        draft.write_text("new")
        raise ValueError
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("out", "old")]
