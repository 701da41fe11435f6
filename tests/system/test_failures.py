"""What a federation does when something goes wrong."""

import json
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zmq

pytestmark = pytest.mark.slow

linux = pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds processes in /proc")

ENDLESS = ("--task-option", "pause=0.3", "--batch-size", "20", "--rounds", "50")

UNFINISHED = ("--task-option", "pause=3", *ENDLESS[2:])
"""A minibatch of a minute, which no peer finishes between two signals, however busy the machine."""
"""A minibatch takes 6 seconds."""


def pid_of_rank(run: Any, folder: Path) -> int | None:
    """The cluster's process that writes into a rank's folder."""
    for pid in run.offspring():
        try:
            if Path(f"/proc/{pid}/fd/1").readlink() == folder / "output.txt":
                return pid
        except OSError:
            continue
    return None


@linux
def test_the_others_finish_when_one_peer_is_killed_and_say_whom_they_lost(
    task: str,
    schedule: tuple[str, ...],
    dpeer_command: Callable[..., Any],
    slow_after: Callable[[int], tuple[str, ...]],
    hurry: Callable[[], None],
    rounds_done: Callable[..., int],
    until: Callable[..., Any],
    tmp_path: Path,
) -> None:
    rounds = 4
    run = dpeer_command(
        "cluster", "--size", 4, "--task", task, *schedule, "--rounds", rounds, "--dead-after", 3, *slow_after(2)
    )
    until(lambda: rounds_done("dpeer-run", 2) >= 2)
    victim = pid_of_rank(run, tmp_path / "dpeer-run" / "rank-2")
    assert victim is not None
    os.kill(victim, signal.SIGKILL)
    hurry()
    assert run.wait() == 1
    until(lambda: run.offspring() == [], 20)
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


def test_a_peer_that_is_missing_at_the_start_is_named_after_the_wait(
    task: str, dpeer: Callable[..., Any], free_ports: Callable[[int], int], tmp_path: Path
) -> None:
    alone = dpeer(
        "start", "--rank", 1, "--size", 4, "--task", task, "--base-port", free_ports(4), "--wait", 2, "--threads", 1
    )
    assert alone.wait() == 3
    assert alone.output.splitlines()[-1].startswith("dpeer: ranks 0, 2 did not appear within 2 s")
    assert not (tmp_path / "dpeer-run" / "rank-1" / "model.safetensors").exists()


def test_two_peers_with_different_settings_both_name_the_field_and_both_values(
    task: str, dpeer: Callable[..., Any], free_ports: Callable[[int], int]
) -> None:
    base = free_ports(2)
    common = ("start", "--size", 2, "--task", task, "--base-port", base, "--threads", 1, "--wait", 30)
    peers = [dpeer(*common, "--rank", rank, "--body-lr", lr) for rank, lr in ((0, 0.125), (1, 0.25))]
    for rank, peer in enumerate(peers):
        assert peer.wait() == 4, peer.output
        ours, theirs = ("0.125", "0.25") if rank == 0 else ("0.25", "0.125")
        assert peer.output.splitlines()[-1].startswith(
            f"dpeer: body_lr: {ours} here, {theirs} at rank {1 - rank}: "
        )  # fmt: skip


def test_an_error_of_one_clustered_peer_ends_all_with_its_code_and_its_rank(
    dpeer: Callable[..., Any], task: str, tmp_path: Path
) -> None:
    (tmp_path / "raising.py").write_text(
        "import small\n\n\ndef task(rank, size, seed):\n"
        "    if rank == 1:\n        raise FileNotFoundError('no scans for site 1')\n"
        "    return small.task(rank, size, seed)\n"
    )
    run = dpeer("cluster", "--size", 3, "--task", "raising.py:task", "--rounds", 2)
    assert run.wait() == 2
    assert [line for line in run.output.splitlines() if line.startswith("dpeer: ")] == [
        "dpeer: rank 1: task 'raising.py:task' failed: FileNotFoundError: no scans for site 1"
    ]
    assert "Traceback" not in run.output


@linux
def test_a_second_interrupt_ends_a_cluster_at_once(
    task: str, dpeer_command: Callable[..., Any], until: Callable[..., Any], tmp_path: Path
) -> None:
    run = dpeer_command("cluster", "--size", 2, "--task", task, *UNFINISHED, "--out", "run")
    until(lambda: all((tmp_path / f"pausing-{rank}").exists() for rank in range(2)))
    run.signal(signal.SIGINT)
    until(lambda: not pending(run))
    run.signal(signal.SIGINT)
    assert run.wait(20) != 0
    until(lambda: run.offspring() == [], 20)
    assert "Traceback" not in run.output


def pending(run: Any) -> bool:
    """Whether a signal has not been delivered yet: a second one of its kind would be lost."""
    return any(signal_mask(run.pid, name) for name in ("SigPnd", "ShdPnd"))


@linux
def test_a_second_interrupt_ends_a_started_peer_at_once(
    task: str,
    dpeer: Callable[..., Any],
    free_ports: Callable[[int], int],
    until: Callable[..., Any],
    tmp_path: Path,
) -> None:
    common = ("start", "--size", 2, "--task", task, *UNFINISHED, "--base-port", free_ports(2), "--threads", 1)
    peers = [dpeer(*common, "--rank", rank) for rank in range(2)]
    until(lambda: all((tmp_path / f"pausing-{rank}").exists() for rank in range(2)))
    for peer, number in zip(peers, (signal.SIGINT, signal.SIGTERM), strict=True):
        peer.signal(number)
        until(lambda peer=peer: not pending(peer))
        assert peer.code is None, "it finishes its minibatch"
        peer.signal(number)
        assert peer.wait(20) == 128 + number


@linux
def test_a_launcher_that_is_killed_leaves_no_process_behind(
    task: str,
    schedule: tuple[str, ...],
    dpeer_command: Callable[..., Any],
    slow_after: Callable[[int], tuple[str, ...]],
    rounds_done: Callable[..., int],
    until: Callable[..., Any],
) -> None:
    run = dpeer_command("cluster", "--size", 2, "--task", task, *schedule, "--rounds", 50, *slow_after(1))
    until(lambda: rounds_done("dpeer-run") >= 1)
    assert len(run.offspring()) >= 2
    run.signal(signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL
    until(lambda: run.offspring() == [], 20)


@linux
@pytest.mark.parametrize("moment", ["the fork server", "the first peer"])
def test_an_interrupt_while_a_cluster_starts_stops_it(
    moment: str, task: str, dpeer_command: Callable[..., Any], until: Callable[..., Any]
) -> None:
    run = dpeer_command("cluster", "--size", 2, "--task", task, *ENDLESS)
    interrupt, end = 1 << signal.SIGINT - 1, 1 << signal.SIGTERM - 1

    def shielded() -> bool:
        return bool((signal_mask(run.pid, "SigIgn") | signal_mask(run.pid, "SigBlk")) & interrupt)

    if moment == "the first peer":
        until(lambda: signal_mask(run.pid, "SigCgt") & end and len(run.offspring()) >= 2 and not shielded())
    else:  # milliseconds in which it must not be lost though it is not for the fork server: no time to sleep
        while not (signal_mask(run.pid, "SigCgt") & end and (shielded() or len(run.offspring()) >= 2)):
            assert run.code is None, run.output
    run.signal(signal.SIGINT)
    run.succeed(60)
    assert "stopped before the first round" in run.output or "stopped; --resume goes on" in run.output
    until(lambda: run.offspring() == [], 20)


def signal_mask(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(name)), 16)


def test_strangers_on_the_port_have_no_effect(
    task: str,
    schedule: tuple[str, ...],
    dpeer: Callable[..., Any],
    simulate: Callable[..., None],
    slow_after: Callable[[int], tuple[str, ...]],
    hurry: Callable[[], None],
    rounds_done: Callable[..., int],
    results: Callable[..., Any],
    free_ports: Callable[[int], int],
    until: Callable[..., Any],
    tmp_path: Path,
) -> None:
    base = free_ports(2)
    settings = ("--size", 2, "--task", task, *schedule, "--rounds", 3, "--seed", 5)
    common = ("start", *settings, "--base-port", base, "--threads", 1, "--out", "run", *slow_after(1))
    peers = [dpeer(*common, "--rank", rank) for rank in range(2)]
    until(lambda: rounds_done("run", 0) >= 1)
    with socket.create_connection(("127.0.0.1", base)) as plain, zmq.Context() as context:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n" * 50)
        with context.socket(zmq.DEALER) as dealer:
            dealer.connect(f"tcp://127.0.0.1:{base}")
            dealer.linger = 5000
            dealer.send_multipart([b"not msgpack", b"\0" * 300])
            dealer.send_multipart([b""])
            dealer.send_multipart([b"x"] * 500)
            dealer.send(b"\0" * 10_000_000)
        until(lambda: "from a stranger" in (tmp_path / "run" / "rank-0" / "log.jsonl").read_text())
        hurry()
        for peer in peers:
            peer.succeed()
    summary = json.loads((tmp_path / "run" / "rank-0" / "summary.json").read_text())
    assert summary["dropped"]
    assert summary["lost"] == {}
    simulate(*settings, "--out", "simulated")
    assert results("run", 2) == results("simulated", 2)
