"""Killed or stopped inside a round, with --checkpoint-minutes a federation goes on there with the same bits."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.thinning import only

pytestmark = pytest.mark.slow

SIZE = 3
ROUNDS = 3
PRIVATE = ("--privacy", "client", "--noise-multiplier", 2, "--clip-norm", 0.5)


def inside(rank: Path, number: int = 1) -> list[dict[str, Any]]:
    """The calls of a rank's unfinished round, the second one, as they are on disk."""
    for folder in (rank / "checkpoint").glob(f"unfinished-{number:08d}-*"):
        try:
            found: list[dict[str, Any]] = json.loads((folder / "learner" / "learner.json").read_text())["calls"]
        except FileNotFoundError:
            continue  # a newer one has just taken its place
        return found
    return []


@pytest.mark.parametrize(
    "case",
    only(
        [("dfedsmdc", signal.SIGKILL), ("fedadamw", signal.SIGINT)],
        [
            (algorithm, how)
            for algorithm in ("dfedsmdc", "ditto", "scaffold", "fedadamw")
            for how in (signal.SIGKILL, signal.SIGINT)
        ],
    ),
)
def test_ended_inside_a_round_it_goes_on_there_with_the_same_bits(
    case, task, schedule, dpeer_process, simulate, slow_after, results, until, tmp_path
):
    algorithm, how = case
    ranks = [tmp_path / "run" / f"rank-{rank}" for rank in range(SIZE)]
    options = ("--size", SIZE, "--task", task, *schedule, "--rounds", ROUNDS, "--algorithm", algorithm, "--seed", 3,
               "--checkpoint-minutes", 0.002 if how == signal.SIGKILL else 1000)  # fmt: skip
    run = dpeer_process("simulate", *options, *slow_after(1), "--out", "run")
    if how == signal.SIGKILL:
        until(lambda: all(any(call["done"] for call in inside(one)) for one in ranks))
    else:
        until(lambda: all((one / "checkpoint" / "round-00000000").exists() for one in ranks))
        until(lambda: all((tmp_path / f"pausing-{rank}").exists() for rank in range(SIZE)))
    run.signal(how)
    run.wait()
    begun = [inside(one) for one in ranks]
    simulate(*options, "--out", "run", "--resume")
    for rank, one in enumerate(ranks):
        log = (one / "log.jsonl").read_text()
        assert ("resuming inside round 2" in log) == bool(begun[rank])
        assert "unfinished-lost" not in log
    assert how == signal.SIGINT or all(begun)
    simulate(*options, "--out", "whole")
    assert results("run", SIZE) == results("whole", SIZE)
    assert not list((tmp_path / "run").rglob("unfinished-*"))


@pytest.mark.parametrize(
    "case",
    only(
        [(2, signal.SIGKILL, ())],
        [
            (number, how, settings)
            for number in (1, 2)
            for how in (signal.SIGKILL, signal.SIGINT)
            for settings in ((), ("--compress", "int8"))
        ],
    ),
)
def test_ended_inside_a_round_that_is_trained_ahead_it_goes_on_there_with_the_same_bits(
    case, task, schedule, dpeer_process, simulate, slow_after, results, until, tmp_path
):
    """The second round is trained ahead in the first one, which trains two. Not all peers need be inside at once."""
    number, how, settings = case
    ranks = [tmp_path / "run" / f"rank-{rank}" for rank in range(SIZE)]
    options = ("--size", SIZE, "--task", task, *schedule, "--rounds", ROUNDS + 1, "--seed", 3, *settings,
               "--overlap", 1, "--checkpoint-minutes", 0.002)  # fmt: skip
    run = dpeer_process("simulate", *options, *slow_after(number), "--out", "run")
    until(lambda: any(call["done"] for one in ranks for call in inside(one, number)))
    run.signal(how)
    run.wait()
    begun = [one for one in ranks if inside(one, number)]
    assert begun
    simulate(*options, "--out", "run", "--resume")
    for one in begun:
        log = (one / "log.jsonl").read_text()
        assert f"resuming at round {number}, inside round {number + 1}, as far as it is trained" in log
        assert "unfinished-lost" not in log
        assert how == signal.SIGKILL or f"round {number + 1} is saved as far as it is trained" in log
    simulate(*options, "--out", "whole")
    assert results("run", SIZE) == results("whole", SIZE)
    assert not list((tmp_path / "run").rglob("unfinished-*"))


def test_stopped_in_its_finish_after_overlapped_rounds_it_goes_on_there_with_the_same_bits(
    task, schedule, dpeer_process, simulate, slow_after, results, until, tmp_path
):
    options = ("--size", SIZE, "--task", task, *schedule, "--rounds", ROUNDS, "--seed", 3, "--finish", "all:4",
               "--alone", "never", "--overlap", 1, "--checkpoint-minutes", 1000)  # fmt: skip
    run = dpeer_process("simulate", *options, *slow_after(ROUNDS + 1), "--out", "run")
    until(lambda: (tmp_path / "pausing-0").exists())
    run.signal(signal.SIGINT)
    run.wait()
    assert inside(tmp_path / "run" / "rank-0", ROUNDS - 1)
    simulate(*options, "--out", "run", "--resume")
    log = (tmp_path / "run" / "rank-0" / "log.jsonl").read_text()
    assert f"resuming inside round {ROUNDS}, as far as it is trained" in log
    simulate(*options, "--out", "whole")
    assert results("run", SIZE) == results("whole", SIZE)


def test_a_private_round_that_goes_on_inside_is_charged_once(
    task, schedule, dpeer_process, simulate, slow_after, until, tmp_path
):
    ranks = [tmp_path / "run" / f"rank-{rank}" for rank in range(SIZE)]
    options = ("--size", SIZE, "--task", task, *schedule, "--rounds", ROUNDS, *PRIVATE, "--checkpoint-minutes", 0.002)
    run = dpeer_process("simulate", *options, *slow_after(1), "--out", "run")
    until(lambda: all(any(call["done"] for call in inside(one)) for one in ranks))
    run.signal(signal.SIGKILL)
    run.wait()
    simulate(*options, "--out", "run", "--resume")
    for one in ranks:
        assert "resuming inside round 2" in (one / "log.jsonl").read_text()
        lines = (one / "privacy" / "ledger.jsonl").read_text().splitlines()[1:]
        assert [json.loads(line)["round"] for line in lines] == list(range(ROUNDS))
