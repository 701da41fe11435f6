"""A peer leaves its model, whatever ends it: killed and left behind, hung up, or with a disk that hangs."""

import json
import os
import signal
import threading
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


def test_killed_and_left_behind_a_peer_leaves_its_model_and_those_that_are_done_keep_theirs(
    task, schedule, dpeer, dpeer_process, slow_after, hurry, meanwhile, interrupt, free_ports, until, tmp_path
):
    common = (
        "start", "--size", 3, "--task", task, *schedule, "--rounds", ROUNDS, "--base-port", free_ports(3),
        "--threads", 1, "--dead-after", 3, "--finish", "head:1", "--alone", "never", "--out", "run",
        *slow_after(3),
    )  # fmt: skip
    peers = [dpeer_process(*common, "--rank", rank) for rank in range(3)]
    saved = [tmp_path / "run" / f"rank-{rank}" / "checkpoint" / "round-00000002" for rank in range(3)]
    until(lambda: all(one.is_dir() for one in saved))
    peers[1].signal(signal.SIGKILL)
    peers[1].wait()
    hurry()
    for rank in (0, 2):  # a quorum: they go on
        peers[rank].succeed()

    # By itself, the killed one's model is made from its checkpoint.
    folder = tmp_path / "run" / "rank-1"
    kept = {path: path.read_bytes() for path in (folder / "checkpoint").rglob("*") if path.is_file()}
    lines = (folder / "metrics.jsonl").read_bytes()
    other = tmp_path / "other.safetensors"
    assert dpeer("model", folder, "--output", other).code == 0
    assert not (folder / "model.safetensors").exists()
    assert not (folder / "summary.json").exists()
    assert '"status": "killed"' in other.with_suffix(".json").read_text()
    made = dpeer("model", "run/rank-1")
    assert made.out.splitlines()[-1:] == ["run/rank-1/model.safetensors: the model of 3 of 6 rounds (killed)"]
    found = summary(folder)
    assert (found["status"], found["completed_rounds"], found["kept_point"]) == ("killed", 3, "mixed")
    assert found["accuracy"] == json.loads(lines.splitlines()[2])["accuracy"]
    assert found["privacy"] is None
    assert (folder / "model.safetensors").read_bytes() == other.read_bytes()
    assert {path: path.read_bytes() for path in kept} == kept
    assert (folder / "metrics.jsonl").read_bytes() == lines
    again = dpeer("model", folder)
    assert again.code == 2
    assert "model.safetensors' exists: give --overwrite to replace it" in again.err
    assert dpeer("model", folder, "--overwrite").code == 0
    assert (folder / "model.safetensors").read_bytes() == other.read_bytes()

    # Back when the others are done, it leaves its model and says why.
    back = dpeer(*common, "--rank", 1, "--resume", "--wait", 1)
    assert back.code == 3
    assert "did not appear" in back.err
    assert "left-behind: the model of 3 of 6 rounds is in" in back.out + back.err
    found = summary(folder)
    assert (found["status"], found["completed_rounds"], found["kept_point"]) == ("left-behind", 3, "finished")
    assert found["accuracy"] == found["accuracy_finished"] is not None
    assert '"status": "left-behind"' in (folder / "model.json").read_text()

    # Resuming what has ended keeps all and ends well.
    folder = tmp_path / "run" / "rank-0"
    names = ("summary.json", "model.safetensors", "model.json", "metrics.jsonl")
    before = {name: (folder / name).read_bytes() for name in names}
    message = dpeer(*common, "--rank", 0, "--resume")
    assert message.code == 0
    assert "connected to 0 of 2 neighbors; no round is left" in message.out + message.err
    assert "starting with round" not in message.out + message.err
    assert {name: (folder / name).read_bytes() for name in names} == before
    for name in names[:3]:
        (folder / name).unlink()  # as if it had been killed before it wrote them
    # The whole result is there, while it waits for neighbors that may need a body.
    with meanwhile(lambda: (folder / "summary.json").exists() and "worth" in summary(folder), interrupt):
        ended = dpeer(*common, "--rank", 0, "--resume", "--alone", "always", "--dead-after", 600, "--wait", 600)
    assert ended.code == 0
    assert "dpeer: gain " in (ended.out + ended.err).splitlines()[-1]
    assert summary(folder)["status"] == "done"
    assert summary(folder)["worth"]["verdict"] is not None
    assert (folder / "model.safetensors").read_bytes() == before["model.safetensors"]


@pytest.fixture
def nohup():
    """What a test starts hears that its terminal is closed, also where the tests run under nohup.

    A process that is started ignores the signals that this one ignores, but not those that this one catches.
    """
    before = signal.signal(signal.SIGHUP, lambda *_: None)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("nohup")
@pytest.mark.parametrize("command", ["start", "simulate"])
def test_a_closed_terminal_stops_a_run_as_sigterm_does(
    command, task, schedule, dpeer, slow_after, rounds_done, meanwhile, tmp_path
):
    only = ("--rank", 0, "--algorithm", "local") if command == "start" else ("--alone", "never")
    common = ("--size", 2, "--task", task, *schedule, "--rounds", 50, *slow_after(1), "--out", "run")
    with meanwhile(lambda: rounds_done("run") >= 1, lambda: os.kill(os.getpid(), signal.SIGHUP)):
        ended = dpeer(command, *only, *common)
    assert ended.code == 0
    assert "stopped" in ended.out + ended.err
    assert summary(tmp_path / "run" / "rank-0")["status"] == "stopped"
    assert not [one for one in threading.enumerate() if isinstance(one, threading.Timer) and not one.finished.is_set()]


def test_one_sigterm_ends_a_peer_whose_disk_hangs(task, schedule, dpeer_process, free_ports, until, tmp_path):
    (tmp_path / "hanging.py").write_text(HANGING)
    run = dpeer_process(
        "start", "--rank", 0, "--size", 2, "--algorithm", "local", "--task", "hanging.py:task", *schedule, "--rounds",
        4, "--out", "run",
    )  # fmt: skip
    until((tmp_path / "hanging").exists)
    run.signal(signal.SIGTERM)
    assert run.wait() == 128 + signal.SIGTERM
    assert "does the disk hang?" in run.output
    whole = [path.name for path in (tmp_path / "run" / "rank-0" / "checkpoint").glob("round-*")]
    assert whole == ["round-00000000"]
