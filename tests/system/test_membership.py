"""Members that join and leave real processes while these train."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.system.conftest import SCHEDULE

pytestmark = pytest.mark.slow

PACED = ("--task", "small.py:task", "--task-option", "pause=0.005", *SCHEDULE)
"""Rounds of a third of a second, until a file `hurry` is there."""

PLAN = """
[[change]]
round = 2
leave = [1]

[[change]]
round = 5
join = [3, 4]
edges = [[3, 0], [3, 4], [4, 2]]

[[change]]
round = 9
leave = [2, 3]
edges = [[4, 1]]
"""


def lines_of(run: Path, rank: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / f"rank-{rank}" / "metrics.jsonl").read_text().splitlines()]


def summary_of(run: Path, rank: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / f"rank-{rank}" / "summary.json").read_text())
    return found


def events_of(run: Path, rank: int) -> list[str]:
    log = run / f"rank-{rank}" / "log.jsonl"
    return [json.loads(line)["event"] for line in log.read_text().splitlines()] if log.exists() else []


EARLY = """
[[change]]
round = 14
join = [3, 4]
leave = [1]

[[change]]
round = 26
evict = [0]
extend = 36
"""


def without_bytes(found: dict[str, Any]) -> dict[str, Any]:
    """The results without the bytes of bodies, whose headers tell of an epoch from the moment on that it is known."""
    return {
        name: [{key: one for key, one in line.items() if not key.startswith("bytes_")} for line in value]
        if name.startswith("metrics") else value
        for name, value in found.items()
    }  # fmt: skip


def test_members_come_and_go_in_a_simulation_with_the_bits_of_a_cluster(
    dpeer_process, simulate, results, task, tmp_path
):
    common = ("--size", 3, "--rounds", 32, "--topology", "full", *PACED)
    (tmp_path / "grow.toml").write_text(EARLY)
    (tmp_path / "hurry").touch()
    printed = simulate(*common, "--faults", "grow.toml", "--out", "simulated").err
    changes = [line for line in printed.splitlines() if line.startswith("epoch")]
    assert [line.partition(", full")[0] for line in changes] == [
        "epoch 1, from round 15 on: ranks 3, 4 join, rank 1 leaves, members 0, 2..4",
        "epoch 2, from round 27 on: rank 0 is evicted, 36 rounds instead of 32, members 2..4",
    ]
    assert "full of 3, spectral gap 1.0000 (before: full of 4, spectral gap 1.0000)" in changes[1]
    (tmp_path / "hurry").unlink()
    again = dpeer_process("cluster", *common, "--grow", "grow.toml", "--out", "real").succeed(240)
    assert [line for line in again.splitlines() if line.startswith("epoch")] == changes
    assert without_bytes(results("simulated", 5)) == without_bytes(results("real", 5))
    for run in (tmp_path / "simulated", tmp_path / "real"):
        summaries = [summary_of(run, rank) for rank in range(5)]
        assert [one["status"] for one in summaries] == ["evicted", "left", "done", "done", "done"]
        assert [one["completed_rounds"] for one in summaries] == [26, 14, 36, 36, 36]
        assert json.loads((run / "summary.json").read_text())["status"] == "done"
    costs = json.loads((tmp_path / "simulated" / "summary.json").read_text())["faults"]["ranks"]
    assert [one["status"] for one in costs] == ["evicted", "former", "done", "done", "done"]
    assert [(one["rounds_not_run"], one["sat_out"], one["bodies_missed"]) for one in costs] == [(0, [], 0)] * 5


def test_a_cluster_grows_and_shrinks_without_a_round_lost(dpeer_process, until, task, tmp_path):
    (tmp_path / "line.txt").write_text("0 1\n1 2\n")
    (tmp_path / "grow.toml").write_text(PLAN)
    cluster = dpeer_process(
        "cluster", "--size", 3, "--rounds", 150, "--topology", "file:line.txt", "--grow", "grow.toml", "--out", "run",
        *PACED,
    )  # fmt: skip
    run = tmp_path / "run"
    until(lambda: "left" in events_of(run, 3), 240)
    (tmp_path / "hurry").touch()
    printed = cluster.succeed(240)
    assert (
        "change of round 3 refused: this leave would disconnect the graph: rank 0 and rank 2 would never agree"
    ) in printed
    assert "ranks 3, 4 join, members 0..4, 5 listed edges of 5, spectral gap 0.4607 (before: 2 listed" in printed
    assert "ranks 2, 3 leave, members 0, 1, 4, 2 listed edges of 3, spectral gap 0.3333 (before: 5 listed" in printed
    summaries = [summary_of(run, rank) for rank in range(5)]
    assert [one["status"] for one in summaries] == ["done", "done", "left", "left", "done"]
    assert [one["metrics_missing"] for one in summaries] == [0] * 5
    left = summaries[2]["completed_rounds"]
    assert summaries[3]["completed_rounds"] == left
    for rank in (0, 1, 2):
        lines = lines_of(run, rank)
        assert [line["round"] for line in lines] == [*range(left if rank == 2 else 150)]
        assert all(line["active"] and line["heard"] for line in lines), "a round in which nothing was mixed"
    for rank in (3, 4):
        lines = lines_of(run, rank)
        entry = next(line["round"] for line in lines if line["active"])
        assert all(line["active"] and line["heard"] for line in lines if line["round"] >= entry)
        assert not any(line["bytes_sent"] for line in lines if line["round"] < entry)
    after = {line["round"]: line for line in lines_of(run, 0)}
    assert after[left - 1]["heard"] == [1, 3]
    assert after[left]["heard"] == [1]
    assert json.loads((run / "summary.json").read_text())["status"] == "done"
