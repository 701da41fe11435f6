"""Rows that two peers on one host both hold."""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.federation import same_rows
from dpeer.federation.build import build
from dpeer.federation.config import resolve
from dpeer.federation.same_rows import Found, Held, held_rows, private_folder, registered
from dpeer.federation.settings import Settings
from dpeer.training import Task, forget
from dpeer.training.data.duplicate_rows import digests

OURS: dict[str, Any] = {"size": 3, "task": "csv"}


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that systems give a user for such files."""
    (tmp_path / "runtime").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    return tmp_path / "runtime"


@pytest.fixture
def peers() -> Iterator[Any]:
    """Registers peers, by their ranks and the numbers of the rows that they train on and are tested on."""
    with ExitStack() as stack:

        def register(rank: int, trained: range, tested: range, fingerprint: Any = OURS) -> Any:
            return stack.enter_context(registered(fingerprint, rank, held(trained, tested)))

        yield register


def held(trained: range, tested: range) -> Held:
    return Held(*(digests(np.array(numbers, np.float64)[:, None]) for numbers in (trained, tested)))


def test_each_learns_what_the_other_has_of_its_rows(peers: Any) -> None:
    first, second = peers(0, range(40), range(40, 50)), peers(1, range(30, 80), range(80, 84))
    assert first.compare() == [Found(1, 20, 50, 10, 10)]
    assert second.compare() == [Found(0, 20, 54, 0, 4)]
    assert str(first.compare()[0]) == (
        "rank 1, on this host, also has 20 of this peer's 50 rows, and trains on 10 of its 10 test rows: the gain is "
        "measured on rows that another rank has trained on; give each rank rows of its own"
    )
    assert str(second.compare()[0]) == (
        "rank 0, on this host, also has 20 of this peer's 54 rows: give each rank rows of its own"
    )


def test_other_rows_other_federations_and_ones_own_rank_are_not_reported(peers: Any) -> None:
    first = peers(0, range(40), range(40, 50))
    peers(1, range(100, 140), range(140, 150))
    peers(2, range(40), range(40, 50), {**OURS, "size": 4})
    peers(0, range(40), range(40, 50))
    assert first.compare() == []


def test_test_rows_that_all_are_tested_on_are_nothing_to_warn_of(peers: Any) -> None:
    first, _ = peers(0, range(40), range(40, 50)), peers(1, range(100, 140), range(40, 50))
    assert first.compare() == []


def test_what_is_left_is_closed_to_others_keyed_and_gone_at_the_end(runtime: Path) -> None:
    rows = held(range(40), range(40, 50))
    with registered(OURS, 0, rows):
        (folder,) = runtime.iterdir()
        (left,) = folder.glob("*.rows")
        assert [stat.S_IMODE(one.stat().st_mode) for one in (folder, folder / "key", left)] == [0o700, 0o600, 0o600]
        content = left.read_bytes()
        assert not any(one in content for part in rows for one in part), "whoever guesses a row can check it by these"
        assert len(content) > 50 * 16
    assert [path.name for path in folder.iterdir()] == ["key"]
    before = (folder / "key").read_bytes()
    with registered(OURS, 0, rows):
        assert (folder / "key").read_bytes() == before
    (folder / "key").unlink()
    with registered(OURS, 0, rows):
        (left,) = folder.glob("*.rows")
        assert left.read_bytes()[-160:] != content[-160:]


def test_what_a_killed_peer_has_left_is_ignored_and_removed(peers: Any, runtime: Path) -> None:
    first = peers(0, range(40), range(40, 50))
    with registered(OURS, 1, held(range(40), range(40, 50))):
        (folder,) = runtime.iterdir()
        (left,) = folder.glob("*-1-*.rows")
        killed = left.with_name(left.name.replace("-1-", "-2-"))
        shutil.copy(left, killed)  # without its lock
        assert [one.rank for one in first.compare()] == [1]
    assert not killed.exists()
    assert first.compare() == []


@pytest.mark.parametrize("suffix", [".rows", ".new"])
def test_what_a_killed_peer_has_left_goes_when_the_next_one_starts(suffix: str, peers: Any) -> None:
    folder = private_folder()
    assert folder is not None
    peers(0, range(4), range(4, 6))
    left = folder / f"killed-7-1{suffix}"
    left.write_bytes(b'{"rank": 7}')
    with registered(OURS, 2, None):  # also one that compares nothing, as with --privacy
        assert not left.exists()
        assert len([*folder.glob("*.rows")]) == 1, "that of the peer that runs stays"


def test_a_place_that_is_no_absolute_path_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    private_folder()
    assert not [*tmp_path.glob("dpeer-rows-*")]


def test_what_is_damaged_is_ignored(peers: Any, runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = peers(0, range(40), range(40, 50)), peers(1, range(40), range(40, 50))
    (folder,) = runtime.iterdir()
    (left,) = folder.glob("*-1-*.rows")
    left.write_bytes(b"no digests")  # its lock holds
    assert first.compare() == []
    (folder / "key").write_bytes(b"short")
    with registered(OURS, 2, held(range(3), range(3))) as third:
        assert third is None


@pytest.mark.parametrize("kind", ["open to others", "a link", "a file"])
def test_a_folder_that_somebody_else_may_have_made_is_not_used(
    kind: str, runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    place = runtime / f"dpeer-rows-{os.getuid()}"
    if kind == "open to others":
        place.mkdir()
        place.chmod(0o750)
    elif kind == "a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        place.symlink_to(tmp_path / "elsewhere")
    else:
        place.touch(mode=0o600)
    assert private_folder() is None
    with registered(OURS, 0, held(range(3), range(3))) as registry:
        assert registry is None


def test_an_error_within_is_not_taken_for_one_of_the_folder() -> None:
    with pytest.raises(OSError, match="of the run"), registered(OURS, 0, held(range(3), range(3))):
        raise OSError("of the run")


def settings(tmp_path: Path, **more: Any) -> Settings:
    path = tmp_path / "visits.csv"
    rows = np.random.default_rng(0).normal(size=(60, 2))
    path.write_text("a,b,sick\n" + "".join(f"{a},{b},{int(a > b)}\n" for a, b in rows))
    options = {"path": str(path), "target": "sick", "classes": ["0", "1"], "columns": ["a", "b"]}
    return Settings(**{"size": 2, "task": "csv", "task_options": options, "out": tmp_path / "run", **more})


@pytest.mark.parametrize(
    ("more", "compared"),
    [
        ({}, True),
        ({"validation": 0.2}, True),
        ({"partition": "iid"}, False),
        ({"algorithm": "local"}, False),
        ({"privacy": "sample", "target_epsilon": 8.0, "records": 50, "rounds": 1}, False),
        ({"privacy": "client", "target_epsilon": 8.0, "rounds": 1}, False),
    ],
)
def test_own_rows_are_compared_and_never_with_privacy(tmp_path: Path, more: dict[str, Any], compared: bool) -> None:
    forget()
    found = build(resolve(settings(tmp_path, **more), 0)).held
    assert (found is not None) == compared
    if found is not None:
        assert (len({*found.trained}), len({*found.tested})) == (48, 12)


def test_tasks_of_ones_own_are_compared_by_their_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = torch.arange(24.0).reshape(12, 2)
    parts = [TensorDataset(rows[:9], torch.zeros(9)), TensorDataset(rows[9:], torch.zeros(3))]
    task = Task(model=nn.Linear(2, 1), head=(), train=parts[0], test=parts[1])
    assert held_rows(task) == Held(digests(rows[:9].numpy()), digests(rows[9:].numpy()))
    places = TensorDataset(torch.arange(9), torch.zeros(9))
    assert held_rows(Task(model=nn.Linear(2, 1), head=(), train=places, test=places)) is None
    monkeypatch.setattr(same_rows, "_MOST", 90)
    assert held_rows(task) is None
