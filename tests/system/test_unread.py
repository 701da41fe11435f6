"""Readers who stop reading: they stop no peer."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def unread() -> Any:
    """The writing end of a pipe that is full."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * 4096)
    os.set_blocking(writing, True)
    yield writing
    os.close(reading)
    os.close(writing)


def test_a_peer_whose_stderr_nobody_reads_runs_to_its_end_and_is_not_taken_for_dead(
    task: str,
    schedule: tuple[str, ...],
    dpeer: Callable[..., Any],
    free_ports: Callable[[int], int],
    unread: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # with it `sys.stderr` has no lock
    rounds = 10
    settings = ("--topology", "ring", "--size", 2, "--task", task, *schedule, "--rounds", rounds, "--out", "run")
    common = ("start", *settings, "--base-port", free_ports(2), "--dead-after", 10, "--log-level", "debug")
    other = dpeer(*common, "--rank", 1)
    words = [sys.executable, "-m", "dpeer", *map(str, common), "--rank", "0"]
    with subprocess.Popen(words, cwd=tmp_path, stdin=subprocess.DEVNULL, stderr=unread) as peer:
        try:
            assert peer.wait(120) == 0
        finally:
            peer.kill()
    other.succeed()
    for rank in range(2):
        folder = tmp_path / "run" / f"rank-{rank}"
        summary = json.loads((folder / "summary.json").read_text())
        assert (summary["status"], summary["lost"], summary["log_dropped"]) == ("done", {}, 0)
        log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
        assert [line["round"] for line in log if line["event"] == "round"] == [*range(rounds)]
        assert {line["rank"] for line in log} == {rank}


def test_a_launcher_that_is_suspended_holds_up_no_rank_and_shows_every_round_later(
    task: str,
    dpeer: Callable[..., Any],
    rounds_done: Callable[..., int],
    until: Callable[..., Any],
    tmp_path: Path,
) -> None:
    rounds = 400  # more records than a socket holds
    run = dpeer("cluster", "--size", 2, "--task", task, "--batch-size", 20, "--body-epochs", 1, "--rounds", rounds)
    until(lambda: rounds_done("dpeer-run") >= 1)
    run.signal(signal.SIGSTOP)
    summaries = [tmp_path / "dpeer-run" / f"rank-{rank}" / "summary.json" for rank in range(2)]
    until(lambda: all(path.exists() for path in summaries), 120)
    assert [rounds_done("dpeer-run", rank) for rank in range(2)] == [rounds, rounds]
    assert [json.loads(path.read_text())["status"] for path in summaries] == ["done", "done"]
    assert run.code is None
    run.signal(signal.SIGCONT)
    shown = [line.partition(",")[0] for line in run.succeed().splitlines() if line.startswith("round ")]
    assert shown == [f"round {number + 1}/{rounds}" for number in range(rounds)]
