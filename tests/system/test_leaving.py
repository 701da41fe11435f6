"""A peer leaves its model, whatever ends it: killed and left behind, hung up, or with a disk that hangs."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HANGING = '''
"""The small task; the disk of rank 0 hangs when the checkpoint of its second round is written."""

import threading
from pathlib import Path

import small
from dpeer.federation import serving
from dpeer.peer import checkpoint

flush = checkpoint.flush


def task(rank, size, seed, **options):
    def hang(path):
        flush(path)
        if path.parent.name == ".round-00000001.tmp":
            Path("hanging").touch()
            threading.Event().wait()

    checkpoint.flush = hang
    serving.END_WITHIN = 0.5
    return small.task(rank, size, seed, **options)
'''

ROUNDS = 6


def summary(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "summary.json").read_text())


@pytest.fixture
def killed(
    task: str,
    schedule: tuple[str, ...],
    dpeer: Callable[..., Any],
    slow_after: Callable[[int], tuple[str, ...]],
    hurry: Callable[[], None],
    free_ports: Callable[[int], int],
    until: Callable[..., Any],
    tmp_path: Path,
) -> tuple[object, ...]:
    """A federation of three in `run`: rank 1 was killed in round 4, the others are done; gives their options."""
    common = (
        "start", "--size", 3, "--task", task, *schedule, "--rounds", ROUNDS, "--base-port", free_ports(3),
        "--threads", 1, "--dead-after", 3, "--finish", "head:1", "--alone", "never", "--out", "run",
        *slow_after(3),
    )  # fmt: skip
    peers = [dpeer(*common, "--rank", rank) for rank in range(3)]
    saved = [tmp_path / "run" / f"rank-{rank}" / "checkpoint" / "round-00000002" for rank in range(3)]
    until(lambda: all(one.is_dir() for one in saved))
    peers[1].signal(signal.SIGKILL)
    peers[1].wait()
    hurry()
    for rank in (0, 2):  # a quorum: they go on
        peers[rank].succeed()
    return common


@pytest.mark.slow
def test_killed_and_back_when_the_others_are_done_it_leaves_its_model_and_says_why(
    killed: tuple[object, ...], dpeer: Callable[..., Any], tmp_path: Path
) -> None:
    folder = tmp_path / "run" / "rank-1"
    back = dpeer(*killed, "--rank", 1, "--resume", "--wait", 2)
    assert back.wait() == 3, back.output
    assert "did not appear" in back.output
    assert "left-behind: the model of 3 of 6 rounds is in" in back.output
    found = summary(folder)
    assert (found["status"], found["completed_rounds"], found["kept_point"]) == ("left-behind", 3, "finished")
    assert found["accuracy"] == found["accuracy_finished"] is not None
    assert (folder / "model.safetensors").is_file()
    assert '"status": "left-behind"' in (folder / "model.json").read_text()


@pytest.mark.slow
def test_resuming_what_has_ended_keeps_all_and_ends_well(
    killed: tuple[object, ...], dpeer: Callable[..., Any], tmp_path: Path
) -> None:
    folder = tmp_path / "run" / "rank-0"
    names = ("summary.json", "model.safetensors", "model.json", "metrics.jsonl")
    before = {name: (folder / name).read_bytes() for name in names}
    dpeer(*killed, "--rank", 0, "--resume").succeed()
    assert {name: (folder / name).read_bytes() for name in names} == before
    for name in names[:3]:
        (folder / name).unlink()  # as if it had been killed before it wrote them
    dpeer(*killed, "--rank", 0, "--resume").succeed()
    assert summary(folder)["status"] == "done"
    assert "worth" in summary(folder)
    assert (folder / "model.safetensors").read_bytes() == before["model.safetensors"]


@pytest.fixture
def nohup() -> Iterator[None]:
    """What a test starts hears that its terminal is closed, also where the tests run under nohup.

    A process that is started ignores the signals that this one ignores, but not those that this one catches.
    """
    before = signal.signal(signal.SIGHUP, lambda *_: None)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("nohup")
@pytest.mark.parametrize("command", ["start", "cluster", "simulate"])
def test_a_closed_terminal_stops_a_run_as_sigterm_does(
    command: str,
    task: str,
    schedule: tuple[str, ...],
    dpeer_command: Callable[..., Any],
    slow_after: Callable[[int], tuple[str, ...]],
    rounds_done: Callable[..., int],
    free_ports: Callable[[int], int],
    until: Callable[..., Any],
    tmp_path: Path,
) -> None:
    alone = ("--rank", 0, "--algorithm", "local", "--base-port", free_ports(2)) if command == "start" else ()
    run = dpeer_command(
        command, "--size", 2, *alone, "--task", task, *schedule, "--rounds", 50, *slow_after(1), "--out", "run"
    )
    until(lambda: rounds_done("run") >= 1)
    run.signal(signal.SIGHUP)
    assert "stopped" in run.succeed()
    assert summary(tmp_path / "run" / "rank-0")["status"] == "stopped"


def test_one_sigterm_ends_a_peer_whose_disk_hangs(
    task: str,
    schedule: tuple[str, ...],
    dpeer: Callable[..., Any],
    free_ports: Callable[[int], int],
    until: Callable[..., Any],
    tmp_path: Path,
) -> None:
    (tmp_path / "hanging.py").write_text(HANGING)
    run = dpeer(
        "start",
        "--rank",
        0,
        "--size",
        2,
        "--algorithm",
        "local",
        "--base-port",
        free_ports(2),
        "--task",
        "hanging.py:task",
        *schedule,
        "--rounds",
        4,
        "--out",
        "run",
    )
    until((tmp_path / "hanging").exists)
    run.signal(signal.SIGTERM)
    assert run.wait() == 128 + signal.SIGTERM
    assert "does the disk hang?" in run.output
    whole = [path.name for path in (tmp_path / "run" / "rank-0" / "checkpoint").glob("round-*")]
    assert whole == ["round-00000000"]
