"""The cores that a process may use."""

from pathlib import Path

import pytest

from dpeer import cores


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cores, "_CGROUPS", tmp_path / "cgroup", raising=False)
    monkeypatch.setattr(cores, "_MEMBERSHIP", tmp_path / "self", raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {3, 1, 2, 0}, raising=False)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


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
