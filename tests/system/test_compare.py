"""`dpeer compare` with workers of its own: its runs are those of `dpeer simulate` also after it was stopped."""

import os
import re
import signal
from pathlib import Path

import pytest

from dpeer.experiments.cells import Condition, make_cell, parse_variant
from dpeer.experiments.launchers import prepare
from tests.thinning import only

pytestmark = pytest.mark.slow

SIZE = 3


def test_a_run_has_the_environment_of_its_start_and_not_that_of_the_first_run_of_the_process(monkeypatch, tmp_path):
    condition = Condition({"topology": "ring", "partition": None})
    cells = [make_cell({}, parse_variant("local"), condition, seed, tmp_path) for seed in range(2)]
    for cell, policy in zip(cells, ("first.toml", "second.toml"), strict=True):
        monkeypatch.setenv("DPEER_POLICY", policy)
        with prepare(1, tmp_path)([cell]) as launcher:
            launcher.start(cell)
            ((_, ended),) = launcher.ended(240.0)
        assert f"policy '{policy}': No such file" in ended.error


@pytest.mark.parametrize("how", only(["Ctrl-C"], ["Ctrl-C", "killed"]))
def test_a_failed_run_ends_it_and_stopped_in_the_middle_of_runs_it_goes_on_within_them(
    how, slow_after, hurry, dpeer, dpeer_command, forked, until, rounds_done, simulate, results, task,
    schedule, tmp_path,
):  # fmt: skip
    rounds = 4
    options = ("--task", task, *schedule, "--size", SIZE, "--rounds", rounds)
    command = ("compare", *options, *slow_after(2), "--algorithms", "dfedmdc,dfedsmdc,local", "--jobs", 2, "--out",
               "stopped")  # fmt: skip
    failed = dpeer(*command, "--task-option", "sise=3")
    assert failed.code == 2
    assert "Traceback" not in failed.err
    (line,) = [line for line in failed.err.splitlines() if line.startswith("dpeer: ")]
    assert re.match(r"dpeer: (local-default|dfeds?mdc-ring-default)-seed0: .*sise", line)

    # Nothing was run there: with the option put right, the same folder will do.
    run = dpeer_command(*command)
    first = ("stopped/dfedmdc-ring-default-seed0", "stopped/dfedsmdc-ring-default-seed0")
    until(lambda: all(rounds_done(name, rank) >= 2 for name in first for rank in range(SIZE)))
    if how == "Ctrl-C":
        os.killpg(run.pid, signal.SIGINT)  # a terminal's goes to the whole group
    else:
        run.signal(signal.SIGKILL)
    code = run.wait()
    until(lambda: not run.offspring() and not forked())
    assert "Traceback" not in run.output
    assert (code == 0) == (how == "Ctrl-C")
    if how == "Ctrl-C":
        assert run.output.rstrip().endswith("dpeer: stopped; the same command goes on")
    assert not (tmp_path / "stopped" / "comparison.md").exists()
    begun = {path.parent.parent.name for path in (tmp_path / "stopped").glob("*/rank-0/metrics.jsonl")}
    assert begun == {Path(name).name for name in first}, "what waited has not been begun"
    earlier = {name: (tmp_path / name / "rank-0" / "metrics.jsonl").read_text() for name in first}
    assert all(2 <= text.count("\n") < rounds for text in earlier.values()), earlier

    hurry()
    resumed = dpeer(*command)
    assert "3 of 3 runs to make" in resumed.out + resumed.err
    for name, text in earlier.items():
        # Gone on with, not begun anew: even the times are those of before.
        assert (tmp_path / name / "rank-0" / "metrics.jsonl").read_text().startswith(text)
        algorithm = Path(name).name.partition("-")[0]
        simulate(*options, "--algorithm", algorithm, "--out", algorithm)
        assert results(name, SIZE) == results(algorithm, SIZE)
