"""Killed while a checkpoint is being written and the next round trains, a federation goes on with the same bits."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

SIZE, ROUNDS = 3, 4
PRIVATE = ("--privacy", "client", "--noise-multiplier", 2, "--clip-norm", 0.5)

HELD = '''
"""The small task; rank 0 stops for good when it writes the checkpoint of its second round, at a moment."""

import threading
from pathlib import Path

import small
from dpeer.peer import checkpoint
from dpeer.results import metrics

flush = checkpoint.flush


def task(rank, size, seed, moment=None, **options):
    def held(path):
        flush(path)
        if rank == 0 and moment == "line" and path.name == "metrics.jsonl" and path.read_bytes().count(b"\\n") == 2:
            hold()
        if rank == 0 and moment == "file" and path.parent.parent.name == ".round-00000001.tmp":
            hold()
        if rank == 0 and moment == "name" and path.name == "checkpoint" and (path / "round-00000001").exists():
            hold()

    def hold():
        Path("writing").touch()
        threading.Event().wait()

    if rank == 0:
        checkpoint.flush = metrics.flush = held
    return small.task(rank, size, seed, **options)
'''


@pytest.fixture
def held(task: str, tmp_path: Path) -> str:
    """A task that is `task`, but for an option that says when rank 0 stops."""
    (tmp_path / "held.py").write_text(HELD)
    return "held.py:task"


def ledger(folder: Path) -> list[dict[str, Any]]:
    path = folder / "privacy" / "ledger.jsonl"
    whole = path.read_text().rpartition("\n")[0] if path.exists() else ""
    return [json.loads(line) for line in whole.splitlines()[1:]]


def released(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "privacy").glob("released-*.bin")}


@pytest.mark.parametrize(("moment", "begins"), [("line", 1), ("file", 1), ("name", 2)])
def test_killed_while_it_writes_and_trains_it_goes_on_with_the_same_bits(
    moment: str,
    begins: int,
    held: str,
    schedule: tuple[str, ...],
    dpeer: Callable[..., Any],
    simulate: Callable[..., None],
    slow_after: Callable[[int], tuple[str, ...]],
    results: Callable[..., Any],
    until: Callable[..., Any],
    kill_all: Callable[..., None],
    tmp_path: Path,
) -> None:
    options = ("--size", SIZE, "--task", held, *schedule, "--rounds", ROUNDS, "--seed", 3)
    command = ("cluster", *options, "--out", "run")
    run = dpeer(*command, *slow_after(2), "--task-option", f"moment={moment}")
    until(lambda: (tmp_path / "writing").exists() and (tmp_path / "pausing-0").exists())
    kill_all(run)
    again = dpeer(*command, "--resume")
    again.succeed()
    log = (tmp_path / "run" / "rank-0" / "log.jsonl").read_text()
    assert f"resuming at round {begins + 1}" in log
    simulate(*options, "--out", "whole")
    assert results("run", SIZE) == results("whole", SIZE)


def test_a_private_round_that_was_released_before_the_last_was_on_disk_is_charged_and_released_once(
    held: str,
    schedule: tuple[str, ...],
    dpeer: Callable[..., Any],
    until: Callable[..., Any],
    kill_all: Callable[..., None],
    tmp_path: Path,
) -> None:
    folder = tmp_path / "run" / "rank-0"
    command = (
        "cluster", "--size", SIZE, "--task", held, *schedule, "--rounds", ROUNDS - 1, *PRIVATE, "--out", "run",
    )  # fmt: skip
    run = dpeer(*command, "--task-option", "moment=file")
    until(lambda: (tmp_path / "writing").exists() and [one["round"] for one in ledger(folder)] == [0, 1, 2])
    until(lambda: sorted(released(folder)) == ["released-00000001.bin", "released-00000002.bin"])
    # A peer that is killed between the charge and the body's file sends nothing in that round any more.
    until(lambda: all("released-00000002.bin" in released(tmp_path / "run" / f"rank-{rank}") for rank in (1, 2)))
    kill_all(run)
    for rank in (1, 2):
        lines = (tmp_path / "run" / f"rank-{rank}" / "metrics.jsonl").read_text().splitlines()
        assert len(lines) == 2, "nobody has got rank 0's body of round 2, or gone on without it"
    charged = ledger(folder)
    kept = released(folder)
    dpeer(*command, "--resume").succeed()
    assert ledger(folder) == charged, "no round twice"
    assert released(folder) == kept
    for rank in range(SIZE):
        lines = (tmp_path / "run" / f"rank-{rank}" / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line)["missed"] for line in lines] == [[]] * (ROUNDS - 1)
        assert "second, different body" not in (tmp_path / "run" / f"rank-{rank}" / "log.jsonl").read_text()


@pytest.mark.parametrize("private", [False, True], ids=["plain", "private"])
def test_with_fewer_checkpoints_a_federation_that_is_killed_runs_the_rounds_since_then_again(
    private: bool,
    task: str,
    schedule: tuple[str, ...],
    dpeer: Callable[..., Any],
    simulate: Callable[..., None],
    slow_after: Callable[[int], tuple[str, ...]],
    rounds_done: Callable[..., int],
    results: Callable[..., Any],
    until: Callable[..., Any],
    kill_all: Callable[..., None],
    tmp_path: Path,
) -> None:
    options = ("--size", SIZE, "--task", task, *schedule, "--rounds", 7, "--seed", 3, "--checkpoint-every", 3)
    command = ("cluster", *options, *(PRIVATE if private else ()), "--out", "run")
    run = dpeer(*command, *slow_after(5))
    until(lambda: all(rounds_done("run", rank) == 5 for rank in range(SIZE)))
    before = [
        [path.name for path in (tmp_path / "run" / f"rank-{rank}" / "checkpoint").iterdir()] for rank in range(SIZE)
    ]
    assert before == [["round-00000002"]] * SIZE
    kill_all(run)
    charged = ledger(tmp_path / "run" / "rank-0")
    dpeer(*command, "--resume").succeed()
    if private:
        after = ledger(tmp_path / "run" / "rank-0")
        assert after[: len(charged)] == charged
        assert [one["round"] for one in after] == list(range(7)), "each round once: the bytes that were sent, again"
        lines = (tmp_path / "run" / "rank-0" / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line)["missed"] for line in lines] == [[]] * 7
    else:
        simulate(*options, "--out", "whole")
        assert results("run", SIZE) == results("whole", SIZE)
