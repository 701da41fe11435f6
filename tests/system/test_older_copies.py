"""An older copy of a private peer's folder is put back with `cp`, while its neighbors train."""

import json
import re
import shutil
import signal

import pytest

from tests.thinning import only

pytestmark = pytest.mark.slow

ROUNDS = 16
LEVELS = {
    "client": ("--privacy", "client", "--noise-multiplier", 2, "--clip-norm", 0.5),
    "sample": ("--privacy", "sample", "--noise-multiplier", 2, "--records", 64, "--batch-size", 16),
}


@pytest.fixture
def killed(task, schedule, dpeer_process, free_ports, until, tmp_path):
    """Three private peers, of which the first was killed in its sixth round; its folder and a copy of its first."""

    def begin(level):
        common = (
            "start", "--size", 3, "--task", task, *schedule, "--rounds", ROUNDS, *LEVELS[level], "--threads", 1,
            "--base-port", free_ports(3), "--dead-after", 3, "--alone", "never", "--out", "run",
            "--task-option", "fast=0", "--task-option", "pause=0.025",  # 1.5 s a round until the test lets them hurry
        )  # fmt: skip
        folder, copied = tmp_path / "run" / "rank-0", tmp_path / "copy"
        peers = [dpeer_process(*common, "--rank", rank) for rank in range(3)]
        until(lambda: (folder / "checkpoint" / "round-00000000").exists())
        until(lambda: copy(folder, copied))
        until(lambda: (folder / "checkpoint" / "round-00000004").exists())
        peers[0].signal(signal.SIGKILL)
        peers[0].wait()
        return folder, copied, peers[1:], lambda *more: dpeer_process(*common, "--rank", 0, *more)

    return begin


def copy(folder, place):
    """Copy a folder as docs/running.md says; whether no file has vanished meanwhile."""
    shutil.rmtree(place, ignore_errors=True)
    try:
        shutil.copytree(folder / "checkpoint", place / "checkpoint")
        rest = shutil.ignore_patterns("checkpoint", "privacy", "*.sock")
        shutil.copytree(folder, place, ignore=rest, dirs_exist_ok=True)
        shutil.copytree(folder / "privacy", place / "privacy")
    except (shutil.Error, OSError):
        return False
    return True


def ledger(folder):
    path = folder / "privacy" / "ledger.jsonl"
    lines = path.read_text().rpartition("\n")[0].splitlines()[1:] if path.exists() else []
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("put_back", only([True], [True, False]))
def test_it_does_not_begin_until_its_rounds_are_stated_and_charges_them_once(level, put_back, killed, hurry, until):
    """Without a copy the folder is empty, and neighbors know of the same rounds."""
    folder, copied, others, start = killed(level)
    shutil.rmtree(folder)
    if put_back:
        shutil.copytree(copied, folder)
    refused = start(*(["--resume"] if put_back else []))
    assert refused.wait() == 2
    assert re.search(r"\d rounds? may have been released that this folder does not know", refused.output)
    stated = int(re.search(r"--rounds-released (\d+)", refused.output)[1])
    assert 5 <= stated <= 7, "its fifth round was released, and others know no more than its sixth"

    options = ("--resume", "--rounds-released", stated)
    first = start(*options)
    until(lambda: any(line.get("stated") for line in ledger(folder)))
    first.signal(signal.SIGKILL)
    first.wait()
    again = start(*options)
    until(lambda: "connected to" in again.output)  # or the others could end before it has met them
    hurry()
    for one in (*others, again):
        one.succeed()
    lines = ledger(folder)
    charged = [line["round"] for line in lines if line.get("stated")]
    assert charged == sorted({*charged}), "none twice"
    assert {line["round"] for line in lines} >= {*range(stated)}


@pytest.mark.parametrize("part", only(["privacy"], ["privacy", "checkpoint"]))
def test_of_its_parts_an_older_ledger_is_damage_and_an_older_checkpoint_loses_nothing(part, killed, hurry, until):
    folder, copied, others, start = killed("client")
    shutil.rmtree(folder / part)
    shutil.copytree(copied / part, folder / part)
    again = start("--resume")
    if part == "privacy":
        assert again.wait() == 2
        assert "the privacy ledger" in again.output
        return
    until(lambda: "connected to" in again.output)
    hurry()
    for one in (*others, again):
        one.succeed()
    rounds = [line["round"] for line in ledger(folder)]
    assert rounds == sorted({*rounds})
