"""Secrets that Docker and Kubernetes mount, with modes that nobody can change there."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.federation import keys
from dpeer.federation.keys import Mount, accepted, mount_of, own_secret, read_secret, write_secret
from tests.error_texts import refused

LISTED = r"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
31 27 0:44 / /run/secrets/rank\0400.secret ro,relatime shared:7 - tmpfs tmpfs rw,size=16384k
32 27 0:45 / /var/run/keys rw - tmpfs tmpfs rw
33 27 0:46 / /var/run/keys/lower ro - overlay overlay ro
34 27 0:46 / /var/run/keys/lower rw - ext4 /dev/vdb ro
broken
"""


@pytest.fixture(autouse=True)
def no_secret_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DPEER_SECRET", "DPEER_SECRET_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    return write_secret(0, tmp_path / "keys")[0]


def listed(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> None:
    (folder / "mountinfo").write_text(text)
    monkeypatch.setattr(keys, "MOUNTINFO", folder / "mountinfo")


def owned(monkeypatch: pytest.MonkeyPatch, owner: int, user: int) -> None:
    """Have files belong to one user and this process to another."""
    kept = Path.stat

    def stat(path: Path, **options: bool) -> os.stat_result:
        found = kept(path, **options)
        return os.stat_result([*found[:4], owner, *found[5:]])

    monkeypatch.setattr(Path, "stat", stat)
    monkeypatch.setattr(os, "getuid", lambda: user)


@pytest.mark.parametrize(
    ("path", "mount"),
    [
        ("/home/one", Mount(Path("/"), "ext4", read_only=False)),
        ("/run/secrets/rank 0.secret", Mount(Path("/run/secrets/rank 0.secret"), "tmpfs", read_only=True)),
        ("/run/secrets/rank 1.secret", Mount(Path("/"), "ext4", read_only=False)),
        ("/var/run/keys/..data", Mount(Path("/var/run/keys"), "tmpfs", read_only=False)),
        ("/var/run/keys/lower/one", Mount(Path("/var/run/keys/lower"), "ext4", read_only=True)),
    ],
)
def test_the_mount_of_a_file_is_the_deepest_and_last_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, mount: Mount
) -> None:
    listed(monkeypatch, tmp_path, LISTED)
    monkeypatch.setattr(Path, "resolve", lambda path: path)
    assert mount_of(Path(path)) == mount


def test_links_are_followed_to_the_mount(secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = tmp_path / "link"
    link.symlink_to(secret)
    listed(monkeypatch, tmp_path, f"1 1 0:1 / / rw - ext4 x rw\n2 1 0:2 / {secret.parent.resolve()} ro - tmpfs x ro")
    found = mount_of(link)
    assert found.place == secret.parent.resolve()


def test_a_system_that_lists_no_mounts_accepts_nothing(
    secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "MOUNTINFO", tmp_path / "none")
    secret.chmod(0o444)
    assert accepted(secret) is None
    with pytest.raises(ConfigurationError):
        read_secret(secret)


Mounted = Callable[[str, str, int, int, int], Path]


@pytest.fixture
def mounted(secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mounted:
    """The secret on a mount with these options and of this kind, with a mode, an owner and another user's process."""

    def mount(options: str, kind: str, mode: int, owner: int, user: int) -> Path:
        secret.chmod(mode)
        place = secret.parent.resolve()
        listed(monkeypatch, tmp_path, f"1 1 0:1 / / rw - ext4 x rw\n2 1 0:2 / {place} {options} - {kind} x rw")
        owned(monkeypatch, owner, user)
        return secret

    return mount


@pytest.mark.parametrize(
    ("options", "kind", "mode", "owner", "user"),
    [
        ("ro", "tmpfs", 0o444, 0, 0),  # Docker
        ("ro", "tmpfs", 0o440, 0, 1000),  # Kubernetes, with fsGroup
        ("ro", "tmpfs", 0o644, 0, 1000),  # Kubernetes
        ("ro", "ext4", 0o444, 1000, 1000),  # a folder of the host, mounted read-only
        ("rw", "tmpfs", 0o444, 0, 1000),
    ],
)
def test_a_mounted_secret_is_accepted_with_a_note(
    mounted: Mounted, monkeypatch: pytest.MonkeyPatch, options: str, kind: str, mode: int, owner: int, user: int
) -> None:
    secret = mounted(options, kind, mode, owner, user)
    assert own_secret(secret) is not None
    line = accepted(secret)
    assert line is not None
    words = "read-only " * (options == "ro") + kind
    assert f"secret {str(secret)!r}: mode {mode:04o} is accepted" in line
    assert f"on the {words} mount {str(secret.parent.resolve())!r}" in line
    assert ("root's" if owner == 0 else "this user's") in line
    assert ("everybody" if mode & 4 else "group ") in line
    monkeypatch.setenv("DPEER_SECRET_FILE", str(secret))
    assert accepted(None) == line


@pytest.mark.parametrize(
    ("options", "kind", "mode", "owner", "user"),
    [
        ("rw", "ext4", 0o444, 0, 0),
        ("rw", "tmpfs", 0o444, 1000, 1000),  # its owner can change the mode
        ("ro", "tmpfs", 0o444, 1001, 1000),
        ("ro", "tmpfs", 0o664, 0, 0),
        ("ro", "tmpfs", 0o666, 0, 0),
    ],
)
def test_a_secret_that_others_could_change_is_refused(
    mounted: Mounted, options: str, kind: str, mode: int, owner: int, user: int
) -> None:
    secret = mounted(options, kind, mode, owner, user)
    assert accepted(secret) is None
    with pytest.raises(ConfigurationError):
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
@pytest.mark.parametrize(("options", "mode"), [("ro", "440"), ("rw", "444")])
def test_a_real_tmpfs_is_told(secret: Path, tmp_path: Path, options: str, mode: str) -> None:
    if not can_mount():
        pytest.skip("mounting takes root, and a kernel that lets it")
    place = tmp_path / "a place"
    place.mkdir()
    words = f"""mount -t tmpfs tmpfs '{place}' && cp '{secret}' '{place}/key' && chmod {mode} '{place}/key' &&
        mount -o remount,{options} '{place}' && '{sys.executable}' -c "$CODE" '{place}/key'"""
    environment = {**os.environ, "CODE": MOUNTED}
    ended = subprocess.run(
        ["unshare", "-m", "sh", "-c", words], env=environment, capture_output=True, text=True, check=False
    )
    kind = "read-only tmpfs" if options == "ro" else "tmpfs"
    assert f"mode 0{mode} is accepted" in ended.stdout, ended.stderr
    assert f"on the {kind} mount {str(place)!r}" in ended.stdout


def test_a_secret_on_a_file_system_without_modes_gets_advice_that_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`chmod 600` ends with 0 there, and changes nothing."""
    path, _ = write_secret(0, tmp_path / "usb")
    path.chmod(0o777)
    listed(monkeypatch, tmp_path, f"30 1 0:1 / {tmp_path / 'usb'} rw - exfat /dev/sdb1 rw")
    with refused(ConfigurationError, str(path), "mode 0777", "exfat, keeps no modes", "below your home folder"):
        read_secret(path)


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
