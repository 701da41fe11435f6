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
def test_killed_and_alone_its_model_is_made_from_the_checkpoint(
    killed: tuple[object, ...],
    dpeer: Callable[..., Any],
    dpeer_command: Callable[..., Any],
    tmp_path: Path,
) -> None:
    folder = tmp_path / "run" / "rank-1"
    assert not (folder / "model.safetensors").exists()
    kept = {path: path.read_bytes() for path in (folder / "checkpoint").rglob("*") if path.is_file()}
    lines = (folder / "metrics.jsonl").read_bytes()
    other = tmp_path / "other.safetensors"
    dpeer("model", folder, "--output", other).succeed()
    assert not (folder / "model.safetensors").exists()
    assert not (folder / "summary.json").exists()
    assert '"status": "killed"' in other.with_suffix(".json").read_text()
    made = dpeer_command("model", "run/rank-1").succeed()
    assert made.splitlines()[-1:] == ["run/rank-1/model.safetensors: the model of 3 of 6 rounds (killed)"]
    found = summary(folder)
    assert (found["status"], found["completed_rounds"], found["kept_point"]) == ("killed", 3, "mixed")
    assert found["accuracy"] == json.loads(lines.splitlines()[2])["accuracy"]
    assert found["privacy"] is None
    assert (folder / "model.safetensors").read_bytes() == other.read_bytes()
    assert {path: path.read_bytes() for path in kept} == kept
    assert (folder / "metrics.jsonl").read_bytes() == lines
    again = dpeer("model", folder)
    assert again.wait() == 2
    assert "is a model of 3 rounds, the checkpoint is of 3: give --overwrite to replace it" in again.output
    dpeer("model", folder, "--overwrite").succeed()
    assert (folder / "model.safetensors").read_bytes() == other.read_bytes()


@pytest.mark.slow
def test_resuming_what_has_ended_keeps_all_and_ends_well(
    killed: tuple[object, ...], dpeer: Callable[..., Any], until: Callable[..., Any], tmp_path: Path
) -> None:
    folder = tmp_path / "run" / "rank-0"
    names = ("summary.json", "model.safetensors", "model.json", "metrics.jsonl")
    before = {name: (folder / name).read_bytes() for name in names}
    message = dpeer(*killed, "--rank", 0, "--resume").succeed()
    assert "connected to 2 neighbors; no round is left" in message
    assert "starting with round" not in message
    assert {name: (folder / name).read_bytes() for name in names} == before
    for name in names[:3]:
        (folder / name).unlink()  # as if it had been killed before it wrote them
    waiting = dpeer(*killed, "--rank", 0, "--resume", "--alone", "always", "--dead-after", 600, "--wait", 600)
    until(lambda: (folder / "summary.json").exists() and "worth" in summary(folder))
    assert waiting.code is None, "the whole result is there, while it waits for neighbors that may need a body"
    waiting.signal(signal.SIGINT)
    assert "dpeer: gain " in waiting.succeed().splitlines()[-1]
    assert summary(folder)["status"] == "done"
    assert summary(folder)["worth"]["verdict"] is not None
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


@pytest.mark.slow
def test_metrics_that_are_deleted_in_mid_run_or_before_a_resume_are_said_and_counted(
    task: str,
    schedule: tuple[str, ...],
    dpeer: Callable[..., Any],
    slow_after: Callable[[int], tuple[str, ...]],
    hurry: Callable[[], None],
    rounds_done: Callable[..., int],
    until: Callable[..., Any],
    tmp_path: Path,
) -> None:
    folder = tmp_path / "run" / "rank-0"
    common = (
        "start", "--rank", 0, "--size", 2, "--algorithm", "local", "--task", task, *schedule, "--rounds", ROUNDS,
        "--out", "run",
    )  # fmt: skip
    run = dpeer(*common, *slow_after(2))
    until(lambda: (tmp_path / "pausing-0").exists() and (folder / "checkpoint" / "round-00000001").is_dir())
    (folder / "metrics.jsonl").rename(folder / "metrics.jsonl.1")
    hurry()
    assert "metrics.jsonl' was deleted in mid-run" in run.succeed()
    assert (summary(folder)["status"], summary(folder)["metrics_missing"]) == ("done", 2)
    assert rounds_done("run") == ROUNDS - 2
    for name in ("metrics.jsonl", "summary.json", "model.safetensors"):
        (folder / name).unlink()
    again = dpeer(*common, "--resume")
    assert "metrics.jsonl': it is not there any more; the run goes on" in again.succeed()
    assert summary(folder)["metrics_missing"] == ROUNDS
    assert summary(folder)["accuracy"] is not None


@pytest.mark.slow
def test_a_round_whose_body_was_sent_before_the_peer_was_killed_is_no_round_that_it_sat_out(
    task: str,
    schedule: tuple[str, ...],
    dpeer: Callable[..., Any],
    hurry: Callable[[], None],
    free_ports: Callable[[int], int],
    rounds_done: Callable[..., int],
    until: Callable[..., Any],
    tmp_path: Path,
) -> None:
    common = (
        "start", "--size", 3, "--task", task, *schedule, "--rounds", 60, "--base-port", free_ports(3), "--threads", 1,
        "--dead-after", 3, "--alone", "never", "--out", "run", "--task-option", "slow=0", "--task-option", "fast=180",
        "--task-option", "pause=0.03",
    )  # fmt: skip
    peers = [dpeer(*common, "--rank", rank) for rank in range(3)]
    released = tmp_path / "run" / "rank-1" / "released.json"
    until(lambda: released.exists() and released.read_text() == '{"round": 4}')
    until((tmp_path / "run" / "rank-1" / "checkpoint" / "round-00000003").is_dir)  # now its body of round 4 leaves
    for _ in range(10):  # minibatches of rank 0, for whose body it waits: meanwhile its own has come
        (tmp_path / "pausing-0").unlink(missing_ok=True)
        until((tmp_path / "pausing-0").exists)
    peers[1].signal(signal.SIGKILL)
    peers[1].wait()
    done = rounds_done("run", 1)
    until(lambda: rounds_done("run", 2) >= done + 4)
    back = dpeer(*common, "--rank", 1, "--resume")
    until(lambda: rounds_done("run", 1) >= done + 2)
    hurry()
    for peer in (peers[0], back, peers[2]):
        peer.succeed()
    lines = [json.loads(line) for line in (tmp_path / "run" / "rank-1" / "metrics.jsonl").read_text().splitlines()]
    begun = [line for line in lines if line["round"] in (done, done + 1)]
    assert [(one["active"], one["samples"], one["heard"]) for one in begun] == [(True, 0, []), (False, 0, [])]
    theirs = json.loads((tmp_path / "run" / "rank-2" / "metrics.jsonl").read_text().splitlines()[done])
    assert 1 in theirs["heard"], "its body of the round was mixed"
    assert summary(tmp_path / "run" / "rank-1")["left_behind"] >= 2
