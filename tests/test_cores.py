"""Cores and memory that a process may use: asked in one way everywhere."""

import os
from pathlib import Path

import pytest

from dpeer import cores
from dpeer.cores import MemoryLimit, memory_limit, own_cores

ROOT = Path(__file__).parent.parent


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Control groups as a folder; the affinity is of four cores."""
    monkeypatch.setattr(cores, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(cores, "MEMBERSHIP", tmp_path / "self")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {3, 1, 2, 0}, raising=False)
    return tmp_path


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system knows no affinity")
def test_a_thread_with_an_affinity_of_one_core_counts_one():
    before = os.sched_getaffinity(0)
    last = own_cores()[-1]
    try:
        os.sched_setaffinity(0, {last})
        assert own_cores() == [last]
    finally:
        os.sched_setaffinity(0, before)


def test_no_other_module_counts_cores():
    counted = ("cpu_count", "sched_getaffinity")
    folders = [folder for folder in ROOT.iterdir() if folder.is_dir() and not folder.name.startswith((".", "build"))]
    paths = {path.resolve() for folder in folders for path in folder.rglob("*.py")}
    assert {path.relative_to(ROOT).parts[0] for path in paths} >= {"cli", "federation", "peer", "training", "tests"}
    found = {path for path in paths if any(word in path.read_text(encoding="utf-8") for word in counted)}
    assert found == {ROOT / "dpeer" / "cores.py", Path(__file__).resolve()}


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ({"self": "0::/\n", "cgroup/cpu.max": "150000 100000"}, 2),
        ({"self": "0::/\n", "cgroup/cpu.max": "10000 100000"}, 1),
        ({"self": "0::/\n", "cgroup/cpu.max": "max 100000"}, 4),
        ({"self": "0::/\n", "cgroup/cpu.max": "nonsense"}, 4),
        (
            {
                "self": "0::/job/step\n",
                "cgroup/job/cpu.max": "100000 100000",
                "cgroup/job/step/cpu.max": "300000 100000",
            },
            1,
        ),
        (
            {
                "self": "4:cpu,cpuacct:/box\n0::/\n",
                "cgroup/cpu,cpuacct/cpu.cfs_quota_us": "250000",
                "cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
            },
            3,
        ),
        ({"self": "4:cpu,cpuacct:/box\n0::/\n", "cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1"}, 4),
        ({}, 4),
    ],
)
def test_the_smallest_quota_of_a_container_and_its_parents_leaves_as_many_cores(
    groups: Path, files: dict[str, str], left: int
) -> None:
    for name, content in files.items():
        (groups / name).parent.mkdir(parents=True, exist_ok=True)
        (groups / name).write_text(content)
    assert own_cores() == [0, 1, 2, 3][:left]


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"self": "0::/\n", "cgroup/memory.max": "max", "cgroup/memory.current": "5"}, None),
        ({"self": "0::/\n", "cgroup/memory.max": "1000", "cgroup/memory.current": "300"}, MemoryLimit(1000, 300)),
        (
            {
                "self": "0::/\n", "cgroup/memory.max": "1000", "cgroup/memory.current": "300",
                "cgroup/memory.stat": "anon 100\ninactive_file 120\n",
            },
            MemoryLimit(1000, 180),
        ),
        (  # of two groups the one that leaves less
            {
                "self": "0::/a/b\n", "cgroup/a/memory.max": "1000", "cgroup/a/memory.current": "900",
                "cgroup/a/b/memory.max": "500", "cgroup/a/b/memory.current": "100",
            },
            MemoryLimit(1000, 900),
        ),
        (
            {
                "self": "4:memory:/a\n", "cgroup/memory/a/memory.limit_in_bytes": "1000",
                "cgroup/memory/a/memory.usage_in_bytes": "300",
                "cgroup/memory/a/memory.stat": "total_inactive_file 40\n",
            },
            MemoryLimit(1000, 260),
        ),
        (
            {
                "self": "4:memory:/\n", "cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
                "cgroup/memory/memory.usage_in_bytes": "300",
            },
            None,
        ),
    ],
    ids=["no limit", "a limit", "files that can be read again", "a group above", "version 1", "version 1, no limit"],
)  # fmt: skip
def test_the_memory_limit_is_that_of_the_group_that_leaves_the_least(groups, files, found):
    for name, content in files.items():
        path = groups / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    assert memory_limit() == found
