"""disagreement.jsonl of a simulation."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dpeer
from dpeer.federation.settings import Settings
from dpeer.peer.worker import Worker
from dpeer.simulation.run import simulate
from dpeer.simulation.simulation import ConsensusLog


def lines(path: Path) -> dict[int, float]:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert len({line["round"] for line in found}) == len(found)
    return {line["round"]: line["consensus_distance"] for line in found}


async def test_a_line_is_written_once_all_peers_have_completed_the_round(tmp_path: Path) -> None:
    bodies = [torch.randn(5, generator=torch.Generator().manual_seed(rank)) for rank in range(3)]
    first = np.stack([body.numpy() for body in bodies]).astype(np.float64)
    copies = {rank: lambda rank=rank: bodies[rank].clone() for rank in range(3)}
    path = tmp_path / "disagreement.jsonl"
    with ThreadPoolExecutor(2) as executor:
        found = ConsensusLog(path, copies, Worker(executor), every=2, rounds=5, resume=False)
        for number in (0, 1):
            found.record(2, number)
            found.record(0, number)
        bodies[0] += 10  # rank 0 goes on, and is a round ahead when rank 1 completes round 1
        found.record(0, 4)
        found.record(1, 1)
        await found.written()
    assert lines(path).keys() == {1}
    spread = ((first - first.mean(axis=0)) ** 2).sum(axis=1).mean()
    assert lines(path)[1] == pytest.approx(np.sqrt(spread), rel=1e-6)


async def test_distances_leave_out_a_peer_that_is_away_until_it_completes_a_round(tmp_path: Path) -> None:
    bodies = {0: torch.zeros(2), 1: torch.ones(2), 2: torch.full((2,), 2.0)}
    path = tmp_path / "disagreement.jsonl"
    with ThreadPoolExecutor(1) as executor:
        copies = {rank: lambda rank=rank: bodies[rank] for rank in bodies}
        found = ConsensusLog(path, copies, Worker(executor), every=1, rounds=9, resume=False)
        for rank in (0, 1):
            found.record(rank, 3)
        found.without(2)
        found.record(0, 4)
        found.record(1, 4)
        found.record(2, 3)  # late: the line is there
        for rank in (0, 1):
            found.record(rank, 5)
        await found.written()
        assert lines(path).keys() == {3, 4}
        found.record(2, 5)
        await found.written()
    assert lines(path)[3] == pytest.approx(np.sqrt(0.5))
    assert lines(path)[5] == pytest.approx(np.sqrt(4 / 3))


def summary_of(out: Path, **changes: object) -> dict[str, object]:
    settings = Settings.model_validate(
        {"size": 3, "rounds": 3, "local_steps": 1, "alone": "never", "task": "small.py:task", "out": out, **changes}
    )
    resume = "resume" in settings.out.name
    return dict(simulate(settings, resume=resume).summary)


def test_the_last_line_is_the_summarys_and_a_new_run_begins_anew(task: str, in_tmp_path: Path, tmp_path: Path) -> None:
    summary = summary_of(tmp_path / "run", algorithm="dfedmdc")
    found = lines(tmp_path / "run" / "disagreement.jsonl")
    assert found.keys() == {0, 1, 2}
    assert found[2] == pytest.approx(summary["consensus_distance"], rel=1e-9)
    (tmp_path / "run").rename(tmp_path / "resume")
    summary_of(tmp_path / "resume", algorithm="dfedmdc", rounds=4)
    again = lines(tmp_path / "resume" / "disagreement.jsonl")
    assert again.keys() == {0, 1, 2, 3}
    assert {number: again[number] for number in found} == found
    settings = Settings(size=3, rounds=1, task=task, alone="never", algorithm="local", out=tmp_path / "resume")
    simulate(settings, overwrite=True)
    assert not (tmp_path / "resume" / "disagreement.jsonl").exists(), "nothing is shared"


def test_a_round_that_was_completed_around_a_stop_has_its_line(task: str, in_tmp_path: Path, tmp_path: Path) -> None:
    """Peers that a stop finds behind run the round again; the others do not."""
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    values = {"size": 5, "rounds": 4, "algorithm": "dfedavgm", "local_steps": 1, "alone": "never", "task": task}

    def keep(line: dict[str, Any]) -> None:
        if line["round"] == (1 if line["rank"] in (1, 3) else 2):
            shutil.copytree(whole / f"rank-{line['rank']}", stopped / f"rank-{line['rank']}")

    dpeer.run(Settings(**values, out=whole), on_record=keep)
    expected = lines(whole / "disagreement.jsonl")
    assert all(distance > 1e-3 for distance in expected.values())
    written = (whole / "disagreement.jsonl").read_text().splitlines(keepends=True)
    (stopped / "disagreement.jsonl").write_text("".join(written[:2]))
    dpeer.run(Settings(**values, out=stopped), resume=True)
    assert lines(stopped / "disagreement.jsonl") == expected
