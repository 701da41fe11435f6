"""A machine that fails in mid-run ends a peer with one line and exit code 2; its last checkpoint stays whole.

The errors are the system's own, by limits of the process and read-only mounts, but for the input/output error.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeer.peer import checkpoint

pytestmark = pytest.mark.slow

linux = pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads the size of a process in /proc")

FAILING = '''
"""The small task, in a process that something happens to when it writes its second checkpoint, or when it starts."""

import errno
import os
import resource
from pathlib import Path

import small
import torch
from dpeer.peer import checkpoint

flush = checkpoint.flush


def limit(kind, value):
    resource.setrlimit(kind, (value, resource.getrlimit(kind)[1]))


def more_memory(count):
    """At most so many bytes more than there are."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit(resource.RLIMIT_AS, pages * resource.getpagesize() + count)


class Hungry(small.Data):
    """Data that need a gigabyte for a moment, once memory is limited."""

    def __getitem__(self, index):
        if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
            torch.zeros(1 << 28)
        return super().__getitem__(index)


class Large(torch.nn.Module):
    """A model whose files are longer than all others."""

    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(5, 8000)
        self.fc = torch.nn.Linear(8000, 3)

    def forward(self, x):
        return self.fc(torch.relu(self.body(x)))


def task(rank, size, seed, how="nothing", **options):
    def failing(path):
        flush(path)
        if how == "io" and path.parent.name == ".round-00000001.tmp":
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def written(folder, state, save_learner, write=checkpoint.write):
        write(folder, state, save_learner)
        if state.next_round == 1 and how == "long":
            limit(resource.RLIMIT_FSIZE, 1 << 17)
        if state.next_round == 1 and how == "memory":
            more_memory(1 << 27)

    checkpoint.flush = failing
    checkpoint.write = written
    if how == "threads":
        more_memory(1 << 22)  # less than a thread's stack
    made = small.task(rank, size, seed, **options)
    train = Hungry(rank, small.SAMPLES) if how == "memory" else made.train
    return small.Task(model=Large(), head=("fc",), train=train, test=made.test)
'''

ROUNDS = 4


@pytest.fixture
def failing(task: str, schedule: tuple[str, ...], tmp_path: Path) -> tuple[object, ...]:
    """The arguments of a peer to which something happens, as `how` says."""
    (tmp_path / "failing.py").write_text(FAILING)
    return (
        "start", "--rank", 0, "--size", 2, "--algorithm", "local", "--task", "failing.py:task", *schedule, "--rounds",
        ROUNDS, "--threads", 1, "--alone", "never", "--out", "run",
    )  # fmt: skip


def rank_folder(tmp_path: Path) -> Path:
    return tmp_path / "run" / "rank-0"


def check_end(ended: Any, message: str) -> None:
    """It has ended with one line that says this."""
    assert ended.wait() == 2, ended.output
    assert "Traceback" not in ended.output
    last = ended.output.splitlines()[-1]
    assert last.startswith("dpeer: ")
    assert message in last
    assert "then --resume goes on from the last completed round" in last


def check_kept(
    folder: Path,
    dpeer: Callable[..., Any],
    arguments: tuple[object, ...],
    *,
    rounds: tuple[int, ...] = (1,),
    model: bool = True,
) -> None:
    """The last checkpoint, of one of these rounds, is whole, its model was left if it could be, the run can go on."""
    found = checkpoint.latest(folder / checkpoint.FOLDER)
    assert found is not None
    saved = checkpoint.read(found, lambda learner: None).next_round
    assert saved in rounds
    assert (folder / "model.safetensors").exists() == model
    if model:
        summary = json.loads((folder / "summary.json").read_text())
        assert (summary["status"], summary["completed_rounds"]) == ("failed", saved)
    dpeer(*arguments, "--resume").succeed()
    assert json.loads((folder / "summary.json").read_text())["status"] == "done"


def test_a_disk_with_input_output_errors(
    failing: tuple[object, ...], dpeer: Callable[..., Any], tmp_path: Path
) -> None:
    check_end(dpeer(*failing, "--task-option", "how=io"), "its disk reports an input/output error; check the disk")
    check_kept(rank_folder(tmp_path), dpeer, failing)


def test_files_that_may_not_grow(failing: tuple[object, ...], dpeer: Callable[..., Any], tmp_path: Path) -> None:
    ended = dpeer(*failing, "--task-option", "how=long")
    check_end(ended, "a file is longer than the limit allows (ulimit -f); raise it")
    assert "model, card and summary cannot all be written" in ended.output
    check_kept(rank_folder(tmp_path), dpeer, failing, model=False)


@linux
def test_no_memory_is_left(failing: tuple[object, ...], dpeer: Callable[..., Any], tmp_path: Path) -> None:
    check_end(dpeer(*failing, "--task-option", "how=memory"), "no memory is left; raise the limit (ulimit -v")
    check_kept(rank_folder(tmp_path), dpeer, failing, rounds=(1, 2))  # the limit comes while the second round trains


@linux
def test_no_threads_are_left(
    failing: tuple[object, ...],
    dpeer: Callable[..., Any],
    slow_after: Callable[[int], tuple[str, ...]],
    until: Callable[..., Any],
    tmp_path: Path,
) -> None:
    folder = rank_folder(tmp_path)
    run = dpeer(*failing, *slow_after(1))
    until(lambda: (tmp_path / "pausing-0").exists() and (folder / "checkpoint" / "round-00000000").is_dir())
    run.signal(9)
    run.wait()
    ended = dpeer(*failing, "--task-option", "how=threads", "--resume")
    check_end(ended, "the system gives no more threads; raise the limit (ulimit -u")
    check_kept(folder, dpeer, failing)


def test_the_folder_is_deleted(
    failing: tuple[object, ...],
    dpeer: Callable[..., Any],
    slow_after: Callable[[int], tuple[str, ...]],
    hurry: Callable[[], None],
    until: Callable[..., Any],
    tmp_path: Path,
) -> None:
    run = dpeer(*failing, *slow_after(1))
    until(lambda: (tmp_path / "pausing-0").exists())
    until(lambda: (rank_folder(tmp_path) / "checkpoint" / "round-00000000").is_dir())
    shutil.rmtree(tmp_path / "run")
    hurry()
    check_end(run, "the folder was deleted in mid-run; restore it")
    assert not (tmp_path / "run").exists(), "nothing is written to a new folder of that name"


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("nsenter") is None, reason="mounts a folder read-only")
def test_a_file_system_that_becomes_read_only(
    failing: tuple[object, ...],
    dpeer: Callable[..., Any],
    slow_after: Callable[[int], tuple[str, ...]],
    hurry: Callable[[], None],
    until: Callable[..., Any],
    tmp_path: Path,
) -> None:
    if subprocess.run(["unshare", "-m", "true"], check=False).returncode != 0:
        pytest.skip("mount namespaces are not allowed here")
    log = tmp_path / "output.txt"
    words = ["unshare", "-m", sys.executable, "-m", "dpeer", *map(str, (*failing, *slow_after(1)))]
    with log.open("wb") as file:
        run = subprocess.Popen(words, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    try:
        checkpoints = rank_folder(tmp_path) / "checkpoint"
        until(lambda: (tmp_path / "pausing-0").exists() and (checkpoints / "round-00000000").is_dir())
        mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0"'
        subprocess.run(["nsenter", "-t", str(run.pid), "-m", "sh", "-c", mount, str(checkpoints)], check=True)
        hurry()
        assert run.wait(60) == 2
    finally:
        run.kill()
        run.wait()
    last = log.read_text().splitlines()[-1]
    assert "Traceback" not in log.read_text()
    assert "run/rank-0' cannot be written: its file system is read-only; mount it writable, then --resume" in last
    check_kept(rank_folder(tmp_path), dpeer, failing)
