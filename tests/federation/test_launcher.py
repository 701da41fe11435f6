"""The launcher of `dpeer cluster`: where its peers listen."""

import stat
import tempfile
from pathlib import Path

import pytest

from dpeer.federation.addresses import LONGEST_PATH, is_ipc
from dpeer.federation.launcher import _socket_folder


@pytest.mark.parametrize("length", [20, 60, 120])
def test_sockets_are_in_a_folder_of_this_user_alone_with_a_short_path(
    length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = tmp_path / ("x" * length)
    usual.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(usual))
    with _socket_folder() as folder:
        assert is_ipc(f"ipc://{folder}/99999", "address"), f"at most {LONGEST_PATH} bytes"
        assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o700
        (Path(folder) / "0").touch()  # of a peer that was killed
    assert not Path(folder).exists()
    assert list(usual.iterdir()) == []
