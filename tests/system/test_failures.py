"""What a federation does when something goes wrong."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

linux = pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds processes in /proc")

PACED = ("--batch-size", "20", "--rounds", "50", "--task-option", "fast=150", "--task-option", "pause=0.05")
"""After the first round a minibatch takes a second."""

UNFINISHED = (*PACED[:4], "--task-option", "pause=3")
"""A minibatch of a minute, which no peer finishes between two signals, however busy the machine."""


def pid_of_rank(run: Any, folder: Path) -> int | None:
    """The cluster's process that writes into a rank's folder."""
    for pid in run.offspring():
        try:
            if Path(f"/proc/{pid}/fd/1").readlink() == folder / "output.txt":
                return pid
        except OSError:
            continue
    return None


def test_an_error_before_rounds_begin_names_the_rank_and_has_its_code(dpeer_process, tmp_path):
    (tmp_path / "mine.py").write_text('def raising(rank, size, seed):\n    raise FileNotFoundError("no scans")\n')
    run = dpeer_process("cluster", "--size", 2, "--task", "mine.py:raising")
    assert run.wait() == 2
    assert "Traceback" not in run.output
    (line,) = (line for line in run.output.splitlines() if line.startswith("dpeer: "))
    assert line[:15] in ("dpeer: rank 0: ", "dpeer: rank 1: ")
    assert line[15:] == "task 'mine.py:raising' failed: FileNotFoundError: no scans (mine.py line 2)"


@linux
def test_the_others_finish_when_one_peer_is_killed_and_say_whom_they_lost(
    task, schedule, dpeer_command, slow_after, hurry, rounds_done, until, tmp_path
):
    rounds = 4
    run = dpeer_command(
        "cluster", "--size", 4, "--task", task, *schedule, "--rounds", rounds, "--dead-after", 6, *slow_after(2)
    )
    until(lambda: rounds_done("dpeer-run", 2) >= 2)
    victim = pid_of_rank(run, tmp_path / "dpeer-run" / "rank-2")
    assert victim is not None
    os.kill(victim, signal.SIGKILL)
    hurry()
    assert run.wait() == 1
    until(lambda: run.offspring() == [])
    assert "Traceback" not in run.output
    assert "dpeer: rank 2: was killed by SIGKILL" in run.output.splitlines()

    assert rounds_done("dpeer-run", 2) < rounds
    for rank, lost in ((0, set()), (1, {"2"}), (3, {"2"})):
        folder = tmp_path / "dpeer-run" / f"rank-{rank}"
        summary = json.loads((folder / "summary.json").read_text())
        assert (summary["status"], summary["completed_rounds"]) == ("done", rounds)
        assert set(summary["lost"]) == lost
        last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
        assert set(map(str, last["missed"])) == lost
        assert (folder / "model.safetensors").exists()
    whole = json.loads((tmp_path / "dpeer-run" / "summary.json").read_text())
    assert whole["status"] == "failed"
    assert whole["accuracy"][2] is None
    assert None not in [whole["accuracy"][rank] for rank in (0, 1, 3)]
    assert set(whole["lost"]) == {"1", "3"}
    assert "rank 1 lost rank 2" in run.output


def test_a_peer_that_stays_cut_off_ends_with_exit_3_and_its_model(
    task, schedule, dpeer_process, free_ports, slow_after, hurry, rounds_done, until, tmp_path
):
    common = (
        "start", "--size", 2, "--task", task, *schedule, "--rounds", 50, "--base-port", free_ports(2), "--alone",
        "never", "--dead-after", 1.5, "--wait", 4, "--out", "run", *slow_after(2),
    )  # fmt: skip
    peer, other = (dpeer_process(*common, "--rank", rank) for rank in range(2))
    until(lambda: rounds_done("run", 0) >= 2)
    other.signal(signal.SIGKILL)
    hurry()
    assert peer.wait() == 3
    summary = json.loads((tmp_path / "run" / "rank-0" / "summary.json").read_text())
    assert summary["status"] == "isolated"
    assert 2 <= summary["completed_rounds"] == rounds_done("run", 0) < 50
    assert (tmp_path / "run" / "rank-0" / "model.safetensors").exists()
    assert "cut off from all neighbors for 4 s (--wait); --resume goes on" in peer.output
    assert "Traceback" not in peer.output


@linux
def test_a_second_signal_ends_a_run_at_once(task, dpeer_command, until, tmp_path):
    run = dpeer_command("cluster", "--size", 2, "--task", task, *UNFINISHED, "--out", "run")
    until(lambda: all((tmp_path / f"pausing-{rank}").exists() for rank in range(2)))
    run.signal(signal.SIGINT)
    until(lambda: not pending(run))
    assert run.code is None, "it finishes its minibatch"
    until(
        lambda: run.code is not None or run.signal(signal.SIGINT)
    )  # of those that come at once the first alone counts
    assert run.wait() != 0
    until(lambda: run.offspring() == [])
    assert "Traceback" not in run.output


def pending(run: Any) -> bool:
    """Whether a signal has not been delivered yet: a second one of its kind would be lost."""
    return any(signal_mask(run.pid, name) for name in ("SigPnd", "ShdPnd"))


@linux
@pytest.mark.parametrize("how", ["interrupted", "killed"])
def test_a_launcher_that_is_interrupted_as_it_starts_or_is_killed_leaves_no_process_behind(
    how, task, dpeer_command, rounds_done, until
):
    run = dpeer_command("cluster", "--size", 2, "--task", task, *PACED)
    interrupt, end = 1 << signal.SIGINT - 1, 1 << signal.SIGTERM - 1

    def shielded() -> bool:
        return bool((signal_mask(run.pid, "SigIgn") | signal_mask(run.pid, "SigBlk")) & interrupt)

    if how == "killed":
        until(lambda: rounds_done("dpeer-run") >= 1)
        assert len(run.offspring()) >= 2
        run.signal(signal.SIGKILL)
        assert run.wait() == -signal.SIGKILL
    else:  # milliseconds in which it must not be lost though it is not for the fork server: no time to sleep
        while not (signal_mask(run.pid, "SigCgt") & end and (shielded() or len(run.offspring()) >= 2)):
            assert run.code is None, run.output
        run.signal(signal.SIGINT)
        run.succeed()
        assert "stopped before the first round" in run.output or "stopped; --resume goes on" in run.output
    until(lambda: run.offspring() == [])


def signal_mask(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(name)), 16)
