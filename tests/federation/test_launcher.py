"""Where the sockets of a cluster's processes lie."""

import os
import tempfile
from pathlib import Path

import pytest

from dpeer.federation.addresses import LONGEST_PATH, is_ipc
from dpeer.federation.launcher import socket_folder


@pytest.mark.parametrize("length", [5, 60, 120])
def test_a_folder_for_sockets_has_a_short_path(length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = tmp_path / ("x" * length)
    usual.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(usual))
    folder = socket_folder()
    assert (folder == str(usual)) is (len(os.fsencode(usual)) <= 60)
    assert is_ipc(f"ipc://{folder}/dpeer-12345678/99999", "address"), f"at most {LONGEST_PATH} bytes"
