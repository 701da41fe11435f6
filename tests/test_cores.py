"""How many threads and processes there is room for: asked in one way everywhere."""

import os
import threading
from pathlib import Path

import pytest

from dpeer import cores
from dpeer.cores import own_cores

ROOT = Path(__file__).parent.parent


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cores, "_CGROUPS", tmp_path / "cgroup", raising=False)
    monkeypatch.setattr(cores, "_MEMBERSHIP", tmp_path / "self", raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {3, 1, 2, 0}, raising=False)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system knows no affinity")
def test_a_thread_that_was_given_one_core_counts_one():
    last = own_cores()[-1]
    found = []

    def give_one_and_count() -> None:
        os.sched_setaffinity(0, {last})  # of this thread
        found.append(own_cores())

    thread = threading.Thread(target=give_one_and_count)
    thread.start()
    thread.join()
    assert found == [[last]]


@pytest.mark.parametrize(("count", "expected"), [(3, [0, 1, 2]), (None, [0])])
def test_all_count_where_there_is_no_affinity(groups, monkeypatch, count, expected):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    assert own_cores() == expected


def test_nobody_counts_in_another_way():
    counted = ("cpu_count", "sched_getaffinity")
    folders = [folder for folder in ROOT.iterdir() if folder.is_dir() and not folder.name.startswith((".", "build"))]
    paths = {path.resolve() for folder in folders for path in folder.rglob("*.py")}
    assert {path.relative_to(ROOT).parts[0] for path in paths} >= {"cli", "federation", "peer", "training", "tests"}
    found = {path for path in paths if any(word in path.read_text(encoding="utf-8") for word in counted)}
    assert found == {ROOT / "dpeer" / "cores.py", Path(__file__).resolve()}


@pytest.mark.parametrize(
    ("text", "left"),
    [("200000 100000", 2), ("150000 100000", 2), ("10000 100000", 1), ("900000 100000", 4), ("max 100000", 4),
     ("nonsense", 4)],
)  # fmt: skip
def test_the_quota_of_a_container_leaves_as_many_cores(groups: Path, text: str, left: int) -> None:
    write(groups / "self", "0::/\n")
    write(groups / "cgroup/cpu.max", text)
    assert cores.own_cores() == [0, 1, 2, 3][:left]


def test_the_quota_of_a_parent_counts(groups: Path) -> None:
    write(groups / "self", "0::/job/step\n")
    write(groups / "cgroup/job/cpu.max", "100000 100000")
    write(groups / "cgroup/job/step/cpu.max", "300000 100000")
    assert cores.own_cores() == [0]


@pytest.mark.parametrize(("quota", "left"), [("250000", 3), ("-1", 4)])
def test_the_first_version_of_control_groups_counts_too(groups: Path, quota: str, left: int) -> None:
    write(groups / "self", "4:cpu,cpuacct:/box\n0::/\n")
    write(groups / "cgroup/cpu,cpuacct/cpu.cfs_quota_us", quota)
    write(groups / "cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000")
    assert cores.own_cores() == [0, 1, 2, 3][:left]


def test_without_control_groups_the_affinity_counts(groups: Path) -> None:
    assert cores.own_cores() == [0, 1, 2, 3]
