"""`dpeer simulate --faults`: whole federations whose peers have accidents, on a virtual clock."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "faults" / "two-of-eight.toml"
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
        run.printed = simulate(*common, *size, *given, *arguments, "--out", out).out
        found: dict[str, Any] = json.loads((tmp_path / out / "summary.json").read_text())
        return found

    return run


def fault(what: str, **keys: object) -> str:
    lines = [f"{key.rstrip('_')} = {json.dumps(value)}" for key, value in keys.items()]
    return "\n".join(["[[fault]]", f'what = "{what}"', *lines, ""])


def entries(folder: Path, rank: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"rank-{rank}" / "metrics.jsonl").read_text().splitlines()]


def test_faults_that_cost_no_body_cost_no_bit(play, results):
    """None at all; a restart before a neighbor noticed, though half a round is trained again; a slow rank."""
    play(None, out="plain")
    for out, faults, least, most in (
        ("empty", "", ROUNDS, ROUNDS + 0.1),
        ("restarted", fault("restart", ranks=[1], round=4), ROUNDS + 0.4, ROUNDS + 0.6),
        ("slow", fault("slow", ranks=[1], round=0, times=3), 2.5 * ROUNDS, 4 * ROUNDS),
    ):
        found = play(faults, out=out)["faults"]
        assert results(out, 5) == results("plain", 5), out
        assert [(one["status"], one["bodies_missed"]) for one in found["ranks"]] == [("done", 0)] * 5
        assert least - 0.1 <= found["time"] <= most, out
        assert [one["what"] for one in found["happened"]] == [{"restarted": "restart"}.get(out, out)] * (out != "empty")


def test_a_slow_rank_with_a_round_budget_takes_part_in_every_round(play, tmp_path):
    """Five times slower: its training may take a third of a round's minute, 20 of the 270 seconds that it needs."""
    slow = fault("slow", ranks=[1], round=0, at=0.0, times=5)
    (tmp_path / "dpeer.toml").write_text("[rank.1]\nround_seconds = 20.0\n")
    found = play(slow, "--deadline", 45, out="budget")["faults"]
    assert [one["bodies_missed"] for one in found["ranks"]] == [0] * 5
    assert found["time"] < 1.2 * ROUNDS
    (tmp_path / "dpeer.toml").unlink()
    lines = entries(tmp_path / "budget", 1)
    asked = lines[0]["steps_asked"]
    # The rank becomes slow when the first round has begun.
    assert [one["steps"] for one in lines[1:]] == [[max(1, int(one * 20 / 270)) for one in asked]] * (ROUNDS - 1)
    assert entries(tmp_path / "budget", 0)[0]["steps"] == entries(tmp_path / "budget", 0)[0]["steps_asked"]
    assert f"{sum(lines[1]['steps'])} of {sum(asked)} steps" in (tmp_path / "budget/rank-1/log.jsonl").read_text()
    whole = play(slow, "--deadline", 45, out="without")["faults"]
    assert sum(one["bodies_missed"] for one in whole["ranks"] if one["rank"] != 1) > ROUNDS
    play(slow, "--round-seconds", "auto", out="auto")
    assert entries(tmp_path / "auto", 1)[-1]["steps"] < asked
    assert entries(tmp_path / "auto", 0)[-1]["steps"] == entries(tmp_path / "auto", 0)[-1]["steps_asked"]


EVERYTHING = "seed = 3\n" + "".join([
    fault("crash", pick=1, round=3, for_=3), fault("freeze", ranks=[1], round=1, for_=0.6),
    fault("slow", rate=0.1, for_=1, times=3), fault("partition", ranks=[0, 1], round=5, for_=1),
    fault("leave", ranks=[4], round=2, for_=1), fault("restart", ranks=[2], round=1),
])  # fmt: skip


def test_the_same_seed_gives_the_same_accidents_and_bits_however_busy_the_machine(play, results):
    first = play(EVERYTHING, "--workers", 1, out="first", rounds=7)
    over = threading.Event()
    load = threading.Thread(target=_spin, args=(over,))
    load.start()
    try:
        second = play(EVERYTHING, "--workers", 3, out="second", rounds=7)
    finally:
        over.set()
        load.join()
    assert {one["what"] for one in first["faults"]["happened"]} == {
        "crash", "freeze", "slow", "partition", "leave", "restart",
    }  # fmt: skip
    assert first["faults"] == second["faults"]
    assert results("first", 5) == results("second", 5)


def _spin(over: threading.Event) -> None:
    while not over.wait(0.001):
        sum(range(10_000))


def test_a_rank_that_crashed_for_good_is_gone_and_the_run_is_done(play, tmp_path):
    summary = play(fault("crash", ranks=[2], round=3) + fault("slow", ranks=[0, 1], round=2, for_=1))
    assert summary["status"] == "done"
    (crash,) = (one for one in summary["faults"]["happened"] if one["what"] == "crash")
    assert (crash["rank"], crash["round"], crash["own_round"], crash["until_round"]) == (2, 3, 3, None)
    by_rank = {one["rank"]: one for one in summary["faults"]["ranks"]}
    assert [by_rank[rank]["status"] for rank in range(5)] == ["done", "done", "gone", "done", "done"]
    assert (by_rank[2]["completed_rounds"], by_rank[2]["rounds_not_run"]) == (3, 5)
    # On a ring its two neighbors miss it in every round from then on, and no other rank does.
    assert {rank: by_rank[rank]["bodies_missed"] for rank in (0, 1, 3, 4)} == {0: 0, 1: 5, 3: 5, 4: 0}
    assert [entry["missed"] for entry in entries(tmp_path / "run", 1)] == [[]] * 3 + [[2]] * 5
    assert summary["accuracy"][2] is None
    assert summary["lost"]["1"].keys() == {"2"}

    pytest.importorskip("matplotlib")
    from dpeer.report.page import write_report
    from dpeer.results.reading import find_runs

    message = play.printed
    happened = "1 crash; not there at the end: rank 2 (crashed and never came back)"
    assert f"faults: 2 spells of slowness, {happened}" in message
    assert "10 bodies missed in mixes, 0 rounds sat out to catch up, 5 rounds not run" in message
    page, *pictures = write_report(find_runs([tmp_path / "run"]), tmp_path / "report", (), None)
    assert tmp_path / "report" / "faults.png" in pictures
    assert f"Faults: 2 spells of slowness, {happened}." in page.read_text()


def test_who_comes_back_catches_up_and_is_charged_for_no_round_that_it_sat_out(play, tmp_path):
    private = ("--privacy", "client", "--noise-multiplier", 1)
    summary = play(fault("crash", ranks=[2], round=2, for_=3), *private)
    back = summary["faults"]["ranks"][2]
    assert (back["status"], back["restarts"], back["completed_rounds"]) == ("done", 1, ROUNDS)
    assert back["sat_out"] == [2, 3, 4, 5], "in the last of them it adopts"
    own = json.loads((tmp_path / "run" / "rank-2" / "summary.json").read_text())
    assert own["left_behind"] == 4
    assert own["privacy"]["releases"] == ROUNDS - 4
    other = json.loads((tmp_path / "run" / "rank-0" / "summary.json").read_text())
    assert other["privacy"]["releases"] == ROUNDS
    assert [entry["missed"] for entry in entries(tmp_path / "run", 1)] == [[], [], [2], [2], [2], [2], [], []]
    log = [json.loads(line)["event"] for line in (tmp_path / "run" / "rank-2" / "log.jsonl").read_text().splitlines()]
    dead = log[log.index("fault") + 1 :]
    assert {*dead[: dead.index("resuming")]} == {"note"}, "what its next life logs first"


def test_a_crash_between_release_and_checkpoint_is_charged_once(play, tmp_path):
    private = ("--privacy", "client", "--noise-multiplier", 1)
    play(fault("restart", ranks=[2], round=3, at=0.95), *private)
    own = json.loads((tmp_path / "run" / "rank-2" / "summary.json").read_text())
    assert own["privacy"]["releases"] == ROUNDS
    charged = [json.loads(line) for line in (tmp_path / "run" / "rank-2" / "log.jsonl").read_text().splitlines()]
    # It had left: what begins again is the same round, whose bytes are those that were charged.
    assert [line["round"] for line in charged if line["event"] == "resuming"] == [3]
    assert all(entry["missed"] == [] for rank in range(5) for entry in entries(tmp_path / "run", rank))


def test_a_crash_after_its_body_was_sent_is_in_no_round_that_the_peer_sat_out(play, tmp_path):
    play(fault("crash", ranks=[2], round=3, at=0.95, for_=2))
    own = [(one["active"], one["samples"], one["heard"]) for one in entries(tmp_path / "run", 2)]
    assert own[3] == (True, 0, []), "begun, sent, and never mixed"
    assert own[4] == (False, 0, [1, 3]), "it adopts their mean"
    assert 2 in entries(tmp_path / "run", 1)[3]["heard"], "its body of the round was mixed"
    summary = json.loads((tmp_path / "run" / "rank-2" / "summary.json").read_text())
    assert summary["left_behind"] >= 1


def test_what_a_process_had_ends_with_it(play):
    crash = fault("crash", ranks=[1], round=1, at=0.7, for_=0.5)
    summary = play(fault("freeze", ranks=[1], round=1, for_=3) + fault("slow", ranks=[1], round=0) + crash)
    times = {one["what"]: (one["time"], one["until_time"]) for one in summary["faults"]["happened"]}
    assert times["freeze"][1] == times["slow"][1] == times["crash"][0] < times["crash"][1]


def test_a_partition_heals(play, tmp_path):
    summary = play(fault("partition", ranks=[0, 1], round=2, for_=2), "--size", 6)
    assert [one["status"] for one in summary["faults"]["ranks"]] == ["done"] * 6
    missed = {rank: [entry["missed"] for entry in entries(tmp_path / "run", rank)] for rank in range(6)}
    assert missed[1][2] == [2]
    assert missed[2][2] == [1]
    assert missed[3] == missed[4] == [[]] * ROUNDS, "they have no neighbor on the other side"
    assert all(missed[rank][-1] == [] for rank in range(6)), "all hear each other again"


def test_who_leaves_says_goodbye_and_is_not_waited_for(play, tmp_path):
    summary = play(fault("leave", ranks=[3], round=2) + fault("leave", ranks=[4], round=2, for_=3))
    assert [one["status"] for one in summary["faults"]["ranks"]] == ["done", "done", "done", "left", "done"]
    assert summary["status"] == "done"
    assert summary["lost"]["2"]["3"] == "stopped"
    own = json.loads((tmp_path / "run" / "rank-3" / "summary.json").read_text())
    assert (own["status"], own["completed_rounds"]) == ("stopped", 2)
    assert summary["faults"]["ranks"][4]["sat_out"] == [2, 3, 4, 5]
    assert summary["faults"]["time"] < ROUNDS + 1


def test_a_rank_that_comes_back_when_nobody_is_there_fails_and_the_run_is_done(play):
    summary = play(fault("crash", ranks=[2], round=7, for_=5))
    assert summary["status"] == "done"
    late = summary["faults"]["ranks"][2]
    assert late["status"] == "failed"
    assert "did not appear within" in late["error"]


def test_a_run_that_nobody_comes_to_the_end_of_has_failed(dpeer, task, tmp_path):
    (tmp_path / "faults.toml").write_text(fault("crash", ranks=[0, 1, 2], round=2))
    ended = dpeer("simulate", "--task", task, "--size", 3, "--rounds", 4, "--faults", "faults.toml")
    assert ended.code == 1
    assert "no rank came to the end of the run" in ended.err
    summary = json.loads((tmp_path / "dpeer-run" / "summary.json").read_text())
    assert summary["status"] == "failed"
    assert [one["status"] for one in summary["faults"]["ranks"]] == ["gone"] * 3


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("simulate", "--faults", "none.toml"), "dpeer: --faults 'none.toml': No such file or directory"),
        (("simulate", "--faults", "faults.toml"), "dpeer: ranks = [9] in [[fault]] 1 of faults.toml: expected ranks "),
        (("cluster", "--faults", "faults.toml"), "dpeer: --faults: only dpeer simulate has a clock"),
        (("cluster", "--federation", "run.toml"), "dpeer: --faults faults.toml: only dpeer simulate has a clock"),
        (("start", "--rank", "0", "--federation", "run.toml"), "dpeer: --faults faults.toml: only dpeer simulate has"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(command, message, dpeer, tmp_path):
    (tmp_path / "faults.toml").write_text(fault("crash", ranks=[9], round=2))
    (tmp_path / "run.toml").write_text('size = 3\nfaults = "faults.toml"\n')
    ended = dpeer(*command)
    assert ended.code == 2
    assert ended.err.splitlines()[-1].startswith(message)
    assert not (tmp_path / "dpeer-run").exists()


def test_the_example_has_two_of_eight_drop_out_and_come_back(play):
    summary = play(EXAMPLE.read_text(), "--size", 8, rounds=16)
    happened = summary["faults"]["happened"]
    assert [(one["what"], one["round"], one["until_round"]) for one in happened] == [("crash", 10, 13)] * 2
    assert len({one["rank"] for one in happened}) == 2
    assert [one["status"] for one in summary["faults"]["ranks"]] == ["done"] * 8
    assert sum(one["bodies_missed"] for one in summary["faults"]["ranks"]) > 0


def test_ctrl_c_stops_it_and_only_a_new_one_can_be_begun(
    simulate, meanwhile, interrupt, task, schedule, tmp_path, slow_after, rounds_done
):
    (tmp_path / "faults.toml").write_text(fault("crash", ranks=[1], round=1, for_=50))
    common = ("--task", task, *schedule, "--size", 4, "--rounds", 60, "--faults", "faults.toml", "--out", "run")
    with meanwhile(lambda: rounds_done("run") >= 2, interrupt):
        stopped = simulate(*common, *slow_after(2))
    assert "dpeer: stopped; --overwrite begins anew" in stopped.out + stopped.err
    assert "a run with faults cannot be resumed, because" in simulate(*common, "--resume", code=2).err


def test_it_runs_beside_a_loop_of_the_caller(tmp_path, task, monkeypatch):
    import dpeer

    monkeypatch.chdir(tmp_path)
    (tmp_path / "faults.toml").write_text(fault("crash", ranks=[1], round=1, for_=2))
    settings = dpeer.Settings(size=3, rounds=5, task=task, body_epochs=1, head_epochs=1, faults=Path("faults.toml"))
    found = dpeer.run(settings, mode="simulate")
    assert found.summary["faults"]["happened"][0]["rank"] == 1
    assert [line["round"] for line in found.metrics(1)] == [*range(5)]


@pytest.mark.usefixtures("run_cells_here")
def test_a_comparison_answers_with_and_without(dpeer, task, tmp_path):
    (tmp_path / "faults.toml").write_text(fault("crash", pick=1, round=2, for_=3))
    (tmp_path / "both.toml").write_text(
        f'task = "{task}"\nsize = 3\nrounds = 8\nbody_epochs = 1\nhead_epochs = 1\n[compare]\n'
        'algorithms = ["dfedmdc"]\nseeds = "0-1"\nconditions = [{}, { faults = "faults.toml" }]\n'
    )
    ended = dpeer("compare", "both.toml", "--out", "compared")
    assert ended.code == 0, ended.err
    assert "faults faults.toml" in ended.out
    runs = sorted((tmp_path / "compared").glob("*/summary.json"))
    faulty = [("faults" in json.loads(path.read_text())) for path in runs]
    assert sorted(faulty) == [False, False, True, True]
    again = dpeer("compare", "both.toml", "--out", "compared")
    assert again.out == ended.out[ended.out.index(again.out[:20]) :], "nothing is run again"
