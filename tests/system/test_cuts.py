"""Real peers behind a line that is cut: which side goes on, and that all train together afterwards."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lines import LineTo, lines_to

ROUNDS = 80
SITE = 3
"""The site behind the line: both of its neighbors dial it."""


def addresses(path: Path, known: list[str]) -> Path:
    path.write_text("".join(f'[rank.{rank}]\naddress = "{one}"\n' for rank, one in enumerate(known)))
    return path


@pytest.fixture
def federation(task, schedule, dpeer_process, free_ports, tmp_path):
    """Start four peers on a ring, the last one behind a line; rounds take about a quarter of a second."""
    first = free_ports(4)
    own = [f"tcp://127.0.0.1:{first + rank}" for rank in range(4)]
    with lines_to([first + SITE]) as (line,):

        def start(*options: object) -> tuple[list[Any], LineTo]:
            near = addresses(tmp_path / "near.toml", [*own[:SITE], line.address])
            far = addresses(tmp_path / "far.toml", own)
            common = (
                "start", "--size", 4, "--task", task, *schedule, "--task-option", "pause=0.004", "--rounds", ROUNDS,
                "--threads", 1, "--dead-after", 1.5, "--alone", "never", "--out", "run", *options,
            )  # fmt: skip
            files = [far if rank == SITE else near for rank in range(4)]
            peers = [dpeer_process(*common, "--federation", file, "--rank", rank) for rank, file in enumerate(files)]
            return peers, line

        yield start


@pytest.fixture
def log(tmp_path):
    """A rank's log."""
    return lambda rank: _lines(tmp_path / "run" / f"rank-{rank}" / "log.jsonl")


@pytest.fixture
def rounds(tmp_path):
    """A rank's metrics."""
    return lambda rank: _lines(tmp_path / "run" / f"rank-{rank}" / "metrics.jsonl")


def _lines(path: Path) -> list[dict[str, Any]]:
    text = path.read_text() if path.exists() else ""
    return [json.loads(one) for one in text.splitlines(keepends=True) if one.endswith("\n")]


@pytest.mark.slow
def test_a_site_whose_line_is_cut_pauses_trains_with_the_others_again_and_ends_with_exit_3_if_it_stays_cut_off(
    federation, rounds, log, hurry, until, tmp_path
):
    peers, line = federation("--wait", 12)
    until(lambda: len(rounds(SITE)) > 2 and rounds(SITE)[-1]["heard"] == [0, 2])
    line.cut()
    until(lambda: "paused" in [one["event"] for one in log(SITE)])
    there = len(rounds(SITE))
    until(lambda: len(rounds(0)) > there + 3)  # the others go on
    assert len(rounds(SITE)) == there
    line.mend()
    until(lambda: [one["heard"] for one in rounds(SITE)[there:]].count([0, 2]) > 1)
    line.cut()
    assert peers[SITE].wait() == 3
    hurry()
    for rank in range(SITE):
        peers[rank].succeed()
        assert [one["round"] for one in rounds(rank)] == list(range(ROUNDS))
        assert not [one for one in rounds(rank) if one["active"] and not one["heard"]]
    found = rounds(SITE)
    assert len([one for one in found if one["active"] and not one["heard"]]) <= 6, "three a cut"
    summary = json.loads((tmp_path / "run" / f"rank-{SITE}" / "summary.json").read_text())
    assert summary["status"] == "isolated"
    assert there < summary["completed_rounds"] == len(found) < ROUNDS
    assert summary["pauses"] >= 2
    assert summary["left_behind"] >= 3
    assert summary["rounds_mixed"] == sum(bool(one["heard"]) for one in found)
    assert (tmp_path / "run" / f"rank-{SITE}" / "model.safetensors").exists()
    assert "cut off from all neighbors for 12 s (--wait)" in peers[SITE].output
    assert "--resume goes on" in peers[SITE].output
    assert "Traceback" not in peers[SITE].output
