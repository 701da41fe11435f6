"""Replacing files: what a link, a pipe, a device or a private file was, it stays."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dpeer.atomic import replacing
from dpeer.exceptions import DiskFull, OutputError, not_written
from dpeer.privacy import Ledger
from dpeer.results.files import ROWS, make_folder, write_json, write_rows
from dpeer.training.state.store import write_model


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def usual_umask() -> object:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_followed(tmp_path: Path, there: bool) -> None:
    share, link = tmp_path / "share", tmp_path / "link.json"
    share.mkdir()
    if there:
        (share / "real.json").write_text("old")
    link.symlink_to("share/real.json")
    write_json(link, {"a": 1})
    assert link.is_symlink()
    assert (share / "real.json").read_text() == '{\n "a": 1\n}\n'
    assert [one.name for one in share.iterdir()] == ["real.json"]


def test_a_link_to_itself_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"), replacing(tmp_path / "a"):
        pass
    assert (tmp_path / "a").is_symlink()


def test_a_pipe_is_written_into(tmp_path: Path) -> None:
    pipe, found = tmp_path / "pipe", list[str]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    with replacing(pipe) as draft:
        draft.write_text("rows")
    reader.join()
    assert found == ["rows"]
    assert pipe.is_fifo()


def test_a_file_that_standard_output_goes_to_keeps_what_others_write(tmp_path: Path) -> None:
    script = (
        "from pathlib import Path\nfrom dpeer.atomic import replacing\n"
        "with replacing(Path('/dev/stdout')) as draft: draft.write_text('rows\\n')"
    )
    out = tmp_path / "out.txt"
    command = f"{{ echo head; {sys.executable} -c '{script.replace(chr(39), chr(34))}'; echo tail; }} > {out}"
    subprocess.run(command, shell=True, check=True)
    assert out.read_text() == "head\nrows\ntail\n"


@pytest.mark.parametrize("before", [0o600, 0o640, 0o444])
def test_an_existing_file_keeps_its_mode(tmp_path: Path, before: int) -> None:
    path = tmp_path / "model.safetensors"
    path.touch()
    path.chmod(before)
    write_model({}, path)
    assert path.stat().st_size
    assert mode(path) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="who is not root gives no file away")
def test_root_leaves_a_file_to_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "predictions.csv"
    path.touch(mode=0o600)
    os.chown(path, 12345, 23456)
    with replacing(path) as draft:
        draft.write_text("rows")
    assert (path.stat().st_uid, path.stat().st_gid, mode(path)) == (12345, 23456, 0o600)


def test_what_tells_of_one_record_is_for_its_owner_alone(tmp_path: Path) -> None:
    write_rows(tmp_path, "accuracy", [1.0, 0.0])
    assert mode(tmp_path / ROWS) == 0o600
    path = tmp_path / "privacy" / "ledger.jsonl"
    Ledger(path.parent, {"noise_multiplier": 1.0}, resume=False).release(0, bytes)
    assert mode(path) == 0o600
    write_json(tmp_path / "summary.json", {})
    assert mode(tmp_path / "summary.json") == 0o644


def test_a_runs_folders_are_for_their_owner_alone_and_those_that_exist_stay(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(mode=0o755)
    make_folder(tmp_path / "shared" / "run" / "rank-0")
    assert [mode(tmp_path / one) for one in ("shared", "shared/run", "shared/run/rank-0")] == [0o755, 0o700, 0o700]
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_folder(tmp_path / "file")


@pytest.mark.parametrize(("number", "kind", "code"), [(28, DiskFull, 75), (13, OutputError, 2)])
def test_a_full_disk_passes_and_a_missing_right_does_not(number: int, kind: type, code: int) -> None:
    error = not_written("--output 'a.csv'", OSError(number, os.strerror(number)))
    assert type(error) is kind
    assert error.exit_code == code
    assert str(error) == f"--output 'a.csv' cannot be written: {os.strerror(number)}"
