"""A machine that fails in mid-run ends a peer with one line and exit code 2; its last checkpoint stays whole.

The errors are the system's own, by limits of the process. Others are in tests/federation/test_folders.py.
"""

import json
from pathlib import Path

import pytest

from dpeer.peer import checkpoint

pytestmark = pytest.mark.slow

FAILING = '''
"""The small task, in a process that gets a limit once its first checkpoint is written, or when it starts."""

import resource
from pathlib import Path

import small
import torch
from dpeer.peer import checkpoint


def limit(kind, value):
    resource.setrlimit(kind, (value, resource.getrlimit(kind)[1]))


def more_memory(count):
    """Limit the process to so many bytes more than it has."""
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
    def written(folder, state, save_learner, write=checkpoint.write):
        write(folder, state, save_learner)
        if state.next_round == 1 and how == "long":
            limit(resource.RLIMIT_FSIZE, 1 << 17)
        if state.next_round == 1 and how == "memory":
            more_memory(1 << 27)

    checkpoint.write = written
    if how == "threads":
        more_memory(1 << 22)  # less than a thread's stack
    made = small.task(rank, size, seed, **options)
    train = Hungry(rank, small.SAMPLES) if how == "memory" else made.train
    return small.Task(model=Large(), head=("fc",), train=train, test=made.test)
'''

ROUNDS = 4


@pytest.fixture
def failing(task, schedule, tmp_path, monkeypatch):
    """The arguments of a peer to which something happens, as `how` says."""
    monkeypatch.setattr(checkpoint, "write", checkpoint.write)  # put back, where the task was loaded in this process
    (tmp_path / "failing.py").write_text(FAILING)
    return (
        "start", "--rank", 0, "--size", 2, "--algorithm", "local", "--task", "failing.py:task", *schedule, "--rounds",
        ROUNDS, "--threads", 1, "--alone", "never", "--out", "run",
    )  # fmt: skip


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads the size of a process in /proc")
@pytest.mark.parametrize(
    ("how", "message", "rounds"),
    [
        ("long", "cannot be written: File too large", {1}),
        ("memory", "allocate memory", {1, 2}),  # it comes while the second round trains
        ("threads", "can't start new thread", {1}),
    ],
)
def test_a_limit_of_the_system_ends_a_peer_that_can_be_resumed(
    how, message, rounds, failing, dpeer, dpeer_process, tmp_path
):
    folder = tmp_path / "run" / "rank-0"
    resume = ()
    if how == "threads":
        assert dpeer(*failing, "--rounds", 1).code == 0
        for name in ("model.safetensors", "model.json", "summary.json"):
            (folder / name).unlink()
        resume = ("--resume",)
    ended = dpeer_process(*failing, "--task-option", f"how={how}", *resume)
    assert ended.wait() == 2, ended.output
    assert "Traceback" not in ended.output
    last = ended.output.splitlines()[-1]
    assert last.startswith("dpeer: ")
    assert message in last
    assert "once that is mended, --resume goes on from the last completed round" in last
    if how == "long":
        assert "model, card and summary cannot all be written" in ended.output
    found = checkpoint.latest(folder / checkpoint.FOLDER)
    assert found is not None
    saved = checkpoint.read(found, lambda learner: None).next_round
    assert saved in rounds
    assert (folder / "model.safetensors").exists() == (how != "long")
    if how != "long":
        summary = json.loads((folder / "summary.json").read_text())
        assert (summary["status"], summary["completed_rounds"]) == ("failed", saved)
    assert dpeer(*failing, "--resume").code == 0
    assert json.loads((folder / "summary.json").read_text())["status"] == "done"
