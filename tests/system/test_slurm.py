"""`dpeer compare` by Slurm jobs, with a stand-in for Slurm: the bits of local runs, whatever jobs are lost."""

import itertools
import os
import re
import signal
from pathlib import Path

import pytest

from tests.system import slurm_stand_in

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SIZE, ROUNDS = 2, 4
SLOW = 200.0
"""Every job imports torch."""

ON_SLURM = ("--launcher", "slurm", "--launcher-option", "poll=1", "--launcher-option", "partition=short")


FIRST = itertools.count(100, 100)


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    """The numbers of the jobs that a Slurm of one node will have."""
    root = tmp_path / "slurm-of-one-node"
    # submitit remembers jobs by number for as long as its process lives.
    first = next(FIRST)
    slurm_stand_in.install(root / "bin", first)
    monkeypatch.setattr(slurm_stand_in, "ROOT", root)
    monkeypatch.setenv("STAND_IN", str(root))
    monkeypatch.setenv("PATH", f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return [str(first + number) for number in range(100)]


@pytest.fixture
def command(task, schedule):
    def made(*more: object) -> tuple[object, ...]:
        return ("compare", "--task", task, *schedule, "--size", SIZE, "--rounds", ROUNDS, *more)

    return made


def test_jobs_that_are_preempted_or_lost_go_on_in_new_ones_and_have_the_bits_of_local_runs(
    jobs, command, slow_after, hurry, until, dpeer, meanwhile, rounds_done, results, tmp_path
):
    rows = ("--algorithms", "dfedmdc,local", *slow_after(2))
    first = "slurm/dfedmdc-ring-default-seed0"

    def lose() -> None:
        slurm_stand_in.send(jobs[0], signal.SIGUSR2)  # Slurm's warning: preempted, or out of time
        until(lambda: (slurm_stand_in.ROOT / jobs[1]).exists() and slurm_stand_in.state(jobs[1]) == "RUNNING", SLOW)
        for path in tmp_path.glob("pausing-*"):  # of the first job, which has ended
            path.unlink()
        until(lambda: [*tmp_path.glob("pausing-*")], SLOW)
        (slurm_stand_in.ROOT / jobs[1] / "fate").write_text("NODE_FAIL")
        slurm_stand_in.send(jobs[1], signal.SIGKILL)
        hurry()

    with meanwhile(lambda: all(rounds_done(first, rank) >= 2 for rank in range(SIZE)), lose):
        ended = dpeer(*command(*rows, *ON_SLURM, "--jobs", 1, "--out", "slurm"))
    assert ended.code == 0, ended.err
    # How far each job comes before it is lost depends on the machine.
    assert [re.sub(r"[23] of 4", "N of 4", line) for line in ended.err.splitlines() if "it goes on" in line] == [
        "dfedmdc-ring-default-seed0: stopped by its host; it goes on elsewhere after N of 4 rounds",
        f"dfedmdc-ring-default-seed0: job {jobs[1]} is lost (NODE_FAIL); it goes on elsewhere after N of 4 rounds",
    ]
    assert "2/2 " in ended.err
    asked = slurm_stand_in.options((slurm_stand_in.ROOT / jobs[0] / "script").read_text())
    assert (asked["partition"], asked["cpus-per-task"], asked["time"]) == ("short", "1", "60")
    ends = ["COMPLETED", "NODE_FAIL", "COMPLETED", "COMPLETED"]
    until(lambda: [slurm_stand_in.state(job) for job in jobs[:4]] == ends)
    kept = {path.name.partition("_")[0] for path in (tmp_path / "slurm" / "slurm").glob("*_log.err")}
    assert kept == {jobs[1]}, "the logs of what was lost, alone"

    assert dpeer(*command(*rows, "--out", "here")).code == 0
    for name in ("local-default-seed0", "dfedmdc-ring-default-seed0"):
        assert results(f"slurm/{name}", SIZE) == results(f"here/{name}", SIZE)


def test_ctrl_c_stops_the_running_job_after_its_minibatch_and_takes_others_from_the_queue(
    jobs, command, slow_after, hurry, until, dpeer, meanwhile, interrupt, rounds_done, results, tmp_path
):
    rows = ("--algorithms", "dfedmdc,local", *slow_after(2))
    first = "slurm/dfedmdc-ring-default-seed0"
    with meanwhile(lambda: all(rounds_done(first, rank) >= 2 for rank in range(SIZE)), interrupt):
        ended = dpeer(*command(*rows, *ON_SLURM, "--out", "slurm"))
    assert ended.code == 0, ended.err
    assert ended.err.rstrip().endswith("dpeer: stopped; the same command goes on")
    until(lambda: [slurm_stand_in.state(job) for job in jobs[:2]] == ["COMPLETED", "CANCELLED by 0"])
    begun = {path.parent.parent.name for path in tmp_path.glob("slurm/*/rank-0/metrics.jsonl")}
    assert begun == {Path(first).name}
    earlier = (tmp_path / first / "rank-0" / "metrics.jsonl").read_text()
    assert 2 <= earlier.count("\n") < ROUNDS

    hurry()
    assert dpeer(*command(*rows, "--out", "slurm")).code == 0  # with any launcher
    assert (tmp_path / first / "rank-0" / "metrics.jsonl").read_text().startswith(earlier)
    assert dpeer(*command(*rows, "--out", "here")).code == 0
    for path in tmp_path.glob("here/*/summary.json"):
        assert results(f"slurm/{path.parent.name}", SIZE) == results(f"here/{path.parent.name}", SIZE)


def test_a_job_that_sbatch_refuses_ends_the_comparison_with_slurms_words(jobs, command, dpeer):
    ended = dpeer(*command("--algorithms", "local", *ON_SLURM, "--launcher-option", "partition=none"))
    assert ended.code == 2
    assert ended.err.splitlines()[-1] == (
        "dpeer: --launcher slurm: sbatch refuses a job: sbatch: error: invalid partition specified: none"
    )


def test_a_node_without_dpeer_ends_the_comparison_with_what_it_lacks(jobs, command, dpeer, tmp_path, monkeypatch):
    (tmp_path / "other" / "dpeer").mkdir(parents=True)
    (tmp_path / "other" / "dpeer" / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "other"))  # of jobs
    ended = dpeer(*command("--algorithms", "local", *ON_SLURM))
    assert ended.code == 2
    assert ended.err.splitlines()[-1] == (
        f"dpeer: local-default-seed0: job {jobs[0]} cannot run it: ModuleNotFoundError: No module named "
        "'dpeer.experiments'"
    )
