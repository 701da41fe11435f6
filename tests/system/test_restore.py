"""A private peer's disk is lost in mid-run and put back from a backup: real processes, files and bytes."""

import json
import signal

import pytest

pytestmark = pytest.mark.slow

ROUNDS = 40

TASK = '''
"""A small task of three classes; each pass through its model takes a while, until a file `hurry` is there."""

import os
import time

import torch
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.training import Task


class Net(nn.Module):
    def __init__(self, pause):
        super().__init__()
        self.body, self.fc, self.pause = nn.Linear(5, 12), nn.Linear(12, 3), pause

    def forward(self, x):
        if not os.path.exists("hurry"):
            time.sleep(self.pause)
        return self.fc(torch.relu(self.body(x)))


def task(rank, size, seed, pause=0.0):
    generator = torch.Generator().manual_seed(rank)
    targets = torch.randint(0, 3, (20,), generator=generator)
    inputs = torch.randn(20, 5, generator=generator) + 2 * torch.eye(3, 5)[targets]
    rows = TensorDataset(inputs, targets)
    return Task(model=Net(pause), head=("fc",), train=rows, test=rows)
'''

LEVELS = {
    "client": ("--privacy", "client", "--noise-multiplier", 2, "--task-option", "pause=0.08"),
    "sample": (
        "--privacy", "sample", "--noise-multiplier", 4, "--sampling-rate", 0.5, "--records", 20,
        "--task-option", "pause=0.01",
    ),
}  # fmt: skip


def ledger(folder):
    text = (folder / "privacy" / "ledger.jsonl").read_text().rpartition("\n")[0]
    return [json.loads(line) for line in text.splitlines()[1:]]


@pytest.mark.parametrize("level", LEVELS)
def test_a_restored_peer_counts_what_it_released_since_and_releases_none_of_it_again(
    level, dpeer, dpeer_process, hurry, schedule, rounds_done, until, free_ports, tmp_path
):
    (tmp_path / "slow.py").write_text(TASK)
    options = (
        "--size", 3, "--topology", "full", "--task", "slow.py:task", *schedule, "--rounds", ROUNDS,
        "--base-port", free_ports(3), "--insecure", "--alone", "never", "--dead-after", 5, *LEVELS[level],
    )  # fmt: skip
    peers = [dpeer_process("start", "--rank", rank, *options) for rank in range(3)]
    until(lambda: rounds_done("dpeer-run", 2) >= 2)
    assert dpeer("backup", "dpeer-run/rank-2", "rank-2.zip").code == 0
    saved = rounds_done("dpeer-run", 2)
    until(lambda: rounds_done("dpeer-run", 2) >= saved + 2)
    peers[2].signal(signal.SIGKILL)
    peers[2].wait()
    folder, lost = tmp_path / "dpeer-run" / "rank-2", tmp_path / "lost"
    folder.rename(lost)
    assert dpeer("restore", "rank-2.zip", "dpeer-run").code == (2 if level == "sample" else 0)
    if level == "sample":
        assert dpeer("restore", "rank-2.zip", "dpeer-run", "--restarts", 0).code == 0
    again = dpeer_process("start", "--rank", 2, *options, "--resume")
    until(lambda: not (folder / "restored.json").exists())
    hurry()
    for peer in (*peers[:2], again):
        peer.succeed()
    before, after = ledger(lost), ledger(folder)
    released = {line["round"] for line in before}
    charged_as_lost = {line["round"] for line in after if line.get("lost")}
    trained = [line for line in after if not line.get("lost")]
    assert released <= {line["round"] for line in after}
    assert len(released & charged_as_lost) >= 2
    assert charged_as_lost == set(range(min(charged_as_lost), max(charged_as_lost) + 1))
    if level == "client":
        digests = {line["round"]: line["sha256"] for line in before}
        assert [one for one in trained if digests.get(one["round"], one["sha256"]) != one["sha256"]] == []
        assert sorted(line["round"] for line in after) == list(range(ROUNDS)), "as many as are planned"
    else:
        since = min(line["time"] for line in after if line.get("lost"))
        assert min(line["round"] for line in trained if line["time"] > since) > max(released)
        assert all(
            sum(line["charge"]["steps"] for line in after if line["round"] == number)
            >= sum(line["charge"]["steps"] for line in before if line["round"] == number)
            for number in released
        )
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["status"], summary["returns"]) == ("done", 1)


def test_steps_of_a_peer_that_trains_alone_are_charged_as_its_operator_states(dpeer, tmp_path):
    """No neighbor remembers what it did, and its model may have been given away before the disk was lost."""
    (tmp_path / "slow.py").write_text(TASK)
    options = (
        "start", "--rank", 0, "--size", 3, "--algorithm", "local", "--task", "slow.py:task", "--local-steps", 2,
        *LEVELS["sample"][:-2],
    )  # fmt: skip
    folder = tmp_path / "dpeer-run" / "rank-0"
    assert dpeer(*options, "--rounds", 3).code == 0
    assert dpeer("backup", "dpeer-run", "backup.zip").code == 0
    assert dpeer(*options, "--rounds", 8, "--resume").code == 0
    folder.rename(tmp_path / "lost")
    assert dpeer("restore", "backup.zip", "dpeer-run", "--restarts", 1).code == 0
    refused = dpeer(*options, "--rounds", 8, "--resume")
    assert refused.code == 2
    assert "a peer without neighbors is remembered by none: restore it again with --rounds N" in refused.err
    folder.rename(tmp_path / "unstated")
    assert dpeer("restore", "backup.zip", "dpeer-run", "--restarts", 1, "--rounds", 5).code == 0
    assert dpeer(*options, "--rounds", 8, "--resume").code == 0
    lines = ledger(folder)
    assert {line["round"] for line in lines if line.get("lost")} == {3, 4, 5, 6}
    assert {line["round"] for line in lines if not line.get("lost")} == {0, 1, 2, 7}
    assert sum(line["charge"]["steps"] for line in lines) == 2 * (8 + 2), "the plan, and a restart: two rounds"
    assert not (folder / "restored.json").exists()
