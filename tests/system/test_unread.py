"""Readers who stop reading: they stop no peer."""

import json
import os
import subprocess
import sys
from contextlib import suppress

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def unread():
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
    task, schedule, dpeer_process, free_ports, unread, tmp_path, monkeypatch
):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # with it `sys.stderr` has no lock
    rounds = 10
    settings = ("--topology", "ring", "--size", 2, "--task", task, *schedule, "--rounds", rounds, "--out", "run")
    common = ("start", *settings, "--base-port", free_ports(2), "--dead-after", 10, "--log-level", "debug",
              "--alone", "never")  # fmt: skip
    other = dpeer_process(*common, "--rank", 1)
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
