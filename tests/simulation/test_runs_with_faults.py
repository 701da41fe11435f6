"""`dpeer simulate --faults`: whole federations whose peers have accidents, on a virtual clock."""

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from dpeer.results.records import MetricsFile

pytestmark = pytest.mark.slow

ROUNDS = 8


@pytest.fixture
def play(tmp_path, simulate, task, schedule):
    """Simulate with a file of faults; returns summary.json."""

    def run(faults: str | None, *arguments: object, out: str = "run", rounds: int = ROUNDS) -> dict[str, Any]:
        given: tuple[object, ...] = ()
        if faults is not None:
            (tmp_path / f"{out}.toml").write_text(faults)
            given = ("--faults", f"{out}.toml")
        size = () if "--size" in arguments else ("--size", 5)
        common = ("--task", task, *schedule, "--algorithm", "dfedmdc", "--finish", "none", "--rounds", rounds)
        simulate(*common, *size, *given, *arguments, "--out", out)
        found: dict[str, Any] = json.loads((tmp_path / out / "summary.json").read_text())
        return found

    return run


def fault(what: str, **keys: object) -> str:
    lines = [f"{key.rstrip('_')} = {json.dumps(value)}" for key, value in keys.items()]
    return "\n".join(["[[fault]]", f'what = "{what}"', *lines, ""])


def entries(folder: Path, rank: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"rank-{rank}" / "metrics.jsonl").read_text().splitlines()]


def missed(folder: Path, rank: int) -> list[list[int]]:
    """The neighbors without a body in each round that the rank trained."""
    return [entry["missed"] if entry["active"] else [] for entry in entries(folder, rank)]


def test_faults_that_cost_no_body_cost_no_bit(play, results, tmp_path):
    """None at all; a slow rank for which the others wait."""
    play(None, out="plain", rounds=4)
    for out, faults in (("empty", ""), ("slow", fault("slow", ranks=[1], round=0, times=3))):
        assert play(faults, out=out, rounds=4)["status"] == "done"
        assert results(out, 5) == results("plain", 5), out
        assert [missed(tmp_path / out, rank) for rank in range(5)] == [[[]] * 4] * 5


EVERYTHING = "".join([
    fault("crash", ranks=[4], round=3, for_=2), fault("crash", ranks=[2], round=1, for_=0.1),
    fault("slow", ranks=[1, 3], round=2, for_=1, times=3), fault("cut", ranks=[0, 1], round=5, for_=1),
])  # fmt: skip


def test_the_same_file_gives_the_same_accidents_and_bits_however_busy_the_machine(play, results, tmp_path):
    play(EVERYTHING, "--threads", 1, out="first", rounds=7)
    over = threading.Event()
    load = threading.Thread(target=_spin, args=(over,))
    load.start()
    try:
        play(EVERYTHING, "--threads", 3, out="second", rounds=7)
    finally:
        over.set()
        load.join()
    happened = {
        (rank, line["reason"])
        for rank in range(5)
        for line in map(json.loads, (tmp_path / f"second/rank-{rank}/log.jsonl").read_text().splitlines())
        if line["event"] == "fault"
    }
    assert happened == {(4, "crash"), (2, "crash"), (1, "slow"), (3, "slow"), (0, "cut"), (1, "cut")}
    assert results("first", 5) == results("second", 5)


def _spin(over: threading.Event) -> None:
    while not over.wait(0.001):
        sum(range(10_000))


def test_a_rank_that_crashed_for_good_is_gone_and_the_run_is_done(play, tmp_path):
    summary = play(fault("crash", ranks=[2], round=3) + fault("slow", ranks=[0, 1], round=2, for_=1))
    assert summary["status"] == "done"
    assert len(entries(tmp_path / "run", 2)) == 3
    # On a ring its two neighbors miss it in every round from then on, and no other rank does.
    all_there, without = [[]] * ROUNDS, [[]] * 3 + [[2]] * 5
    assert [missed(tmp_path / "run", rank) for rank in (0, 1, 3, 4)] == [all_there, without, without, all_there]
    assert summary["accuracy"][2] is None
    assert summary["lost"]["1"].keys() == {"2"}
    assert "faults" not in summary


def test_who_comes_back_catches_up_and_is_charged_for_no_round_that_it_sat_out(play, tmp_path):
    private = ("--privacy", "client", "--noise-multiplier", 1)
    assert play(fault("crash", ranks=[2], round=2, for_=3), *private)["status"] == "done"
    back = entries(tmp_path / "run", 2)
    assert [entry["active"] for entry in back] == [True] * 2 + [False] * 4 + [True] * 2, "in the last it adopts"
    own = json.loads((tmp_path / "run" / "rank-2" / "summary.json").read_text())
    assert own["left_behind"] == 4
    assert own["privacy"]["releases"] == ROUNDS - 4
    other = json.loads((tmp_path / "run" / "rank-0" / "summary.json").read_text())
    assert other["privacy"]["releases"] == ROUNDS
    assert [entry["missed"] for entry in entries(tmp_path / "run", 1)] == [[], [], [2], [2], [2], [2], [], []]
    log = [json.loads(line)["event"] for line in (tmp_path / "run" / "rank-2" / "log.jsonl").read_text().splitlines()]
    dead = log[log.index("fault") + 1 :]
    assert {*dead[: dead.index("resuming")]} == {"note"}, "what its next life logs first"


def test_a_rank_that_comes_back_when_nobody_is_there_fails_and_the_run_is_done(play, tmp_path):
    assert play(fault("crash", ranks=[2], round=7, for_=5))["status"] == "done"
    log = [json.loads(line) for line in (tmp_path / "run/rank-2/log.jsonl").read_text().splitlines()]
    (failed,) = (line for line in log if line["event"] == "run-failed")
    assert "did not appear within" in failed["message"]


def test_a_run_that_nobody_comes_to_the_end_of_has_failed(dpeer, task, tmp_path):
    (tmp_path / "faults.toml").write_text(fault("crash", ranks=[0, 1, 2], round=2))
    ended = dpeer("simulate", "--task", task, "--size", 3, "--rounds", 4, "--faults", "faults.toml")
    assert ended.code == 1
    assert "no rank came to the end of the run" in ended.err
    summary = json.loads((tmp_path / "dpeer-run" / "summary.json").read_text())
    assert summary["status"] == "failed"
    assert summary["accuracy"] == [None] * 3


def test_ctrl_c_stops_it_and_only_a_new_one_can_be_begun(simulate, monkeypatch, task, schedule, tmp_path):
    append, signals = MetricsFile.append, iter([signal.SIGINT])

    def interrupted(file: MetricsFile, entry: dict[str, Any]) -> None:
        if entry["round"] == 2:
            for number in signals:
                os.kill(os.getpid(), number)
        append(file, entry)

    monkeypatch.setattr(MetricsFile, "append", interrupted)
    (tmp_path / "faults.toml").write_text(fault("crash", ranks=[1], round=1, for_=50))
    stopped = simulate("--task", task, *schedule, "--size", 4, "--rounds", 60, "--faults", "faults.toml")
    assert "dpeer: stopped; another --out begins anew" in stopped.out + stopped.err
