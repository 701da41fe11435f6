"""kill -9, a restart, and SIGSTOP befall processes over TCP while the others train: none hangs."""

import json
import signal

import pytest

pytestmark = pytest.mark.slow

SIZE, ROUNDS = 4, 120


def test_whatever_befalls_them_all_processes_run_all_rounds(
    task, dpeer_process, until, rounds_done, hurry, free_ports, tmp_path
):
    common = (
        "start", "--topology", "ring", "--size", SIZE, "--task", task, "--alone", "never", "--out", "run",
        "--body-epochs", 1, "--head-epochs", 1, "--batch-size", 20, "--rounds", ROUNDS, "--evaluate-every", ROUNDS,
        "--threads", 1, "--base-port", free_ports(SIZE), "--dead-after", 1.5, "--task-option", "fast=0",
        "--task-option", "pause=0.01",
    )  # fmt: skip
    peers = [dpeer_process(*common, "--rank", rank) for rank in range(SIZE)]

    def rounds(rank):
        path = tmp_path / "run" / f"rank-{rank}" / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def go_on(rank):
        there = rounds_done("run", rank)
        until(lambda: rounds_done("run", rank) > there + 2)

    def together(rank):
        """Wait until a rank mixes both of its neighbors in a round that is still to come."""
        before, both = rounds_done("run", 1), {(rank - 1) % SIZE, (rank + 1) % SIZE}
        until(lambda: any(one["round"] > before and {*one["heard"]} == both for one in rounds(rank)))

    until(lambda: all(rounds_done("run", rank) > 1 for rank in range(SIZE)))
    peers[0].signal(signal.SIGKILL)
    peers[0].wait()
    go_on(2)
    peers[0] = dpeer_process(*common, "--rank", 0, "--resume")
    together(0)
    peers[2].signal(signal.SIGSTOP)
    go_on(0)
    peers[2].signal(signal.SIGCONT)
    together(2)
    hurry()
    for rank, process in enumerate(peers):
        process.succeed()
        assert [line["round"] for line in rounds(rank)] == [*range(ROUNDS)]
        summary = json.loads((tmp_path / "run" / f"rank-{rank}" / "summary.json").read_text())
        assert (summary["status"], summary["completed_rounds"]) == ("done", ROUNDS)
        assert "second-body" not in (tmp_path / "run" / f"rank-{rank}" / "log.jsonl").read_text()
