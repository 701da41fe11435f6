"""Killed while a checkpoint is being written and the next round trains, a federation goes on with the same bits."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.thinning import only

pytestmark = pytest.mark.slow

SIZE = 3
PRIVATE = ("--privacy", "client", "--noise-multiplier", 2, "--clip-norm", 0.5)

HELD = '''
"""The small task; rank 0 stops for good when it writes the checkpoint of its first or second round, at a moment."""

import threading
from pathlib import Path

import small
from dpeer.peer import checkpoint
from dpeer.results import metrics_file

flush = checkpoint.flush


def task(rank, size, seed, moment=None, **options):
    def held(path):
        flush(path)
        if rank == 0 and moment == "line" and path.name == "metrics.jsonl" and path.read_bytes().count(b"\\n") == 2:
            hold()
        if rank == 0 and moment == "file" and path.parent.parent.name == ".round-00000001.tmp":
            hold()
        if rank == 0 and moment == "first" and path.parent.parent.name == ".round-00000000.tmp":
            hold()
        if rank == 0 and moment == "name" and path.name == "checkpoint" and (path / "round-00000001").exists():
            hold()

    def hold():
        Path("writing").touch()
        threading.Event().wait()

    if rank == 0:
        checkpoint.flush = metrics_file.flush = held
    return small.task(rank, size, seed, **options)
'''


@pytest.fixture
def held(task, tmp_path):
    """A task that is `task`, but for an option that says when rank 0 stops."""
    (tmp_path / "held.py").write_text(HELD)
    return "held.py:task"


def ledger(folder: Path) -> list[dict[str, Any]]:
    path = folder / "privacy" / "ledger.jsonl"
    whole = path.read_text().rpartition("\n")[0] if path.exists() else ""
    return [json.loads(line) for line in whole.splitlines()[1:]]


def released(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "privacy").glob("released-*.bin")}


@pytest.mark.parametrize(
    "case",
    only(
        [("name", False), ("file", True), ("rounds", True)],
        [("line", False), ("file", False), ("file", True), ("name", False), ("rounds", False), ("rounds", True)],
    ),
)  # fmt: skip
def test_killed_while_it_writes_and_trains_it_goes_on_with_the_same_bits_and_charges_no_round_twice(
    case, held, schedule, dpeer_process, simulate, slow_after, rounds_done, results, until, tmp_path
):
    """A private round that was released before the checkpoint is on disk is sent again as it was released."""
    moment, private = case
    ranks = [tmp_path / "run" / f"rank-{rank}" for rank in range(SIZE)]
    rounds = 7 if moment == "rounds" else 3 if private else 4
    options = ("--size", SIZE, "--task", held, *schedule, "--rounds", rounds, "--seed", 3)
    options += (*(PRIVATE if private else ()), *(("--checkpoint-every", 3) if moment == "rounds" else ()))
    at = ("--task-option", f"moment={moment}")
    if moment == "rounds":
        run = dpeer_process("simulate", *options, *slow_after(5), "--out", "run")
        until(lambda: all(rounds_done("run", rank) == 5 for rank in range(SIZE)))
        assert all([path.name for path in (one / "checkpoint").iterdir()] == ["round-00000002"] for one in ranks)
    elif private:
        run = dpeer_process("simulate", *options, *at, "--out", "run")
        until(lambda: (tmp_path / "writing").exists() and [one["round"] for one in ledger(ranks[0])] == [0, 1, 2])
        until(lambda: sorted(released(ranks[0])) == ["released-00000001.bin", "released-00000002.bin"])
    else:
        run = dpeer_process("simulate", *options, *slow_after(2), *at, "--out", "run")
        until(lambda: (tmp_path / "writing").exists() and (tmp_path / "pausing-0").exists())
    run.signal(signal.SIGKILL)
    run.wait()
    charged, kept = ledger(ranks[0]), released(ranks[0])
    if private and moment == "file":
        assert max(rounds_done("run", rank) for rank in (1, 2)) <= 2, "not without rank 0's body of round 2"
    simulate(*options, "--out", "run", "--resume")
    assert "resuming at round" in (ranks[0] / "log.jsonl").read_text()
    if not private:
        simulate(*options, "--out", "whole")
        assert results("run", SIZE) == results("whole", SIZE)
        return
    assert [one["round"] for one in ledger(ranks[0])] == list(range(rounds)), "no round twice"
    assert ledger(ranks[0])[: len(charged)] == charged
    assert moment == "rounds" or released(ranks[0]) == kept
    for one in ranks:
        lines = (one / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line)["missed"] for line in lines] == [[]] * rounds
        assert "second, different body" not in (one / "log.jsonl").read_text()
