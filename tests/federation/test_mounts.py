"""Secrets that Docker and Kubernetes mount, with modes that nobody can change there."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.federation import keys
from dpeer.federation.keys import accepted, own_secret, read_secret, write_secret
from tests.error_texts import refused


@pytest.fixture(autouse=True)
def no_secret_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPEER_SECRET", raising=False)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    return write_secret(0, tmp_path / "keys")[0]


def owned(monkeypatch: pytest.MonkeyPatch, owner: int, user: int) -> None:
    """Have files belong to one user and this process to another."""
    kept = Path.stat

    def stat(path: Path, **options: bool) -> os.stat_result:
        found = kept(path, **options)
        return os.stat_result([*found[:4], owner, *found[5:]])

    monkeypatch.setattr(Path, "stat", stat)
    monkeypatch.setattr(os, "getuid", lambda: user)


Mounted = Callable[[bool, int, int, int], Path]


@pytest.fixture
def mounted(secret: Path, monkeypatch: pytest.MonkeyPatch) -> Mounted:
    """The secret on a mount that can be written or not, with a mode and an owner, and another user's process."""

    def mount(read_only: bool, mode: int, owner: int, user: int) -> Path:
        secret.chmod(mode)
        monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_RDONLY if read_only else 0))
        owned(monkeypatch, owner, user)
        return secret

    return mount


@pytest.mark.parametrize(
    ("mode", "owner", "user"),
    [
        (0o444, 0, 0),  # Docker
        (0o440, 0, 1000),  # Kubernetes, with fsGroup
        (0o644, 0, 1000),  # Kubernetes
        (0o444, 1000, 1000),  # a folder of the host, mounted read-only
    ],
)
def test_a_mounted_secret_is_accepted_with_a_note(mounted: Mounted, mode: int, owner: int, user: int) -> None:
    secret = mounted(True, mode, owner, user)
    assert own_secret(secret) is not None
    line = accepted(secret)
    assert line is not None
    assert f"secret {str(secret)!r}: mode {mode:04o} is accepted" in line
    assert ("everybody" if mode & 4 else "group ") in line


@pytest.mark.parametrize(
    ("read_only", "mode", "owner", "user"),
    [
        (False, 0o444, 0, 0),
        (False, 0o444, 1000, 1000),  # its owner can change the mode
        (True, 0o444, 1001, 1000),
        (True, 0o664, 0, 0),
        (True, 0o666, 0, 0),
    ],
)
def test_a_secret_that_others_could_change_is_refused(
    mounted: Mounted, read_only: bool, mode: int, owner: int, user: int
) -> None:
    secret = mounted(read_only, mode, owner, user)
    assert accepted(secret) is None
    with refused(ConfigurationError, str(secret), f"mode {mode:04o}", f"chmod 600 {secret}", "exFAT", "DPEER_SECRET"):
        read_secret(secret)


def test_a_secret_of_another_user_is_named_with_ways_out(secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(keys, "read_text", denied)
    with pytest.raises(ConfigurationError):
        read_secret(secret)


MOUNTED = """
import sys
from collections.abc import Callable
from pathlib import Path
from dpeer.federation.keys import accepted, read_secret
assert len(read_secret(Path(sys.argv[1]))) == 32
print(accepted(Path(sys.argv[1])))
"""


def can_mount() -> bool:
    if sys.platform != "linux" or os.getuid() != 0 or shutil.which("unshare") is None:
        return False
    tried = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False)
    return tried.returncode == 0


@pytest.mark.slow
def test_a_real_read_only_mount_is_told(secret: Path, tmp_path: Path) -> None:
    if not can_mount():
        pytest.skip("mounting takes root, and a kernel that lets it")
    place = tmp_path / "a place"
    place.mkdir()
    words = f"""mount -t tmpfs tmpfs '{place}' && cp '{secret}' '{place}/key' && chmod 440 '{place}/key' &&
        mount -o remount,ro '{place}' && '{sys.executable}' -c "$CODE" '{place}/key'"""
    environment = {**os.environ, "CODE": MOUNTED}
    ended = subprocess.run(
        ["unshare", "-m", "sh", "-c", words], env=environment, capture_output=True, text=True, check=False
    )
    assert "mode 0440 is accepted" in ended.stdout, ended.stderr


def test_no_secret_is_left_where_others_can_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = os.open

    def without_modes(path: Path, flags: int, mode: int = 0o777) -> int:
        handle = made(path, flags, mode)
        os.fchmod(handle, 0o777)
        return handle

    monkeypatch.setattr("dpeer.federation.keys.os.open", without_modes)
    with refused(ConfigurationError, "--out", "keeps no modes", "below your home folder"):
        write_secret(0, tmp_path / "usb")
    assert [*(tmp_path / "usb").iterdir()] == []
