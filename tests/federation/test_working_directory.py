"""Runs whose tasks change to other folders: results go where the run was started, and paths lead from there."""

import os
from pathlib import Path

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.federation.folders import working_folder_kept


def test_the_folder_is_the_same_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with working_folder_kept() as home:
        os.chdir("/")
    assert home == tmp_path == Path.cwd()


def test_a_deleted_current_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with (
        pytest.raises(ConfigurationError),
        working_folder_kept(),
    ):
        pass
