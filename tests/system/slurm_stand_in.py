"""A stand-in for Slurm on this machine, with one node: sbatch, srun, sacct and scancel, as far as submitit calls them.

A job has a folder below $STAND_IN: `script`, `state`, the process id of its `task`, and the `fate` that a test has for
it, which is its state once its process has ended.
"""

import fcntl
import itertools
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(os.environ.get("STAND_IN", "."))
COMMANDS = ("sbatch", "srun", "sacct", "scancel")


def install(folder: Path, first: int) -> None:
    """Make the commands in a folder, which goes to the front of PATH; jobs are numbered from `first` on."""
    folder.mkdir(parents=True)
    (folder.parent / "first").write_text(str(first))
    for name in COMMANDS:
        path = folder / name
        path.write_text(f"#!/bin/sh\nexec '{sys.executable}' -S '{Path(__file__).resolve()}' {name} \"$@\"\n")
        path.chmod(0o755)


def state(job: str, now: str | None = None) -> str:
    """The state of a job, or the one that it has from now on."""
    path = ROOT / job / "state"
    if now is not None:
        path.with_suffix(".new").write_text(now)
        path.with_suffix(".new").rename(path)
    return path.read_text() if path.exists() else ""


def options(script: str) -> dict[str, str]:
    """What a script asks of sbatch."""
    return dict(re.findall(r"^#SBATCH --([a-z-]+)=(.*)$", script, re.MULTILINE))


def sbatch(path: str) -> None:
    script = Path(path).read_text()
    if options(script).get("partition") == "none":
        sys.exit("sbatch: error: invalid partition specified: none")
    number = int((ROOT / "first").read_text())
    while True:
        try:
            (ROOT / str(number)).mkdir()
            break
        except FileExistsError:
            number += 1
    (ROOT / str(number) / "script").write_text(script)
    state(str(number), "PENDING")
    subprocess.Popen(
        [sys.executable, "-S", __file__, "run", str(number)], start_new_session=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    print("Submitted batch job", number)


def run(job: str) -> None:
    """Wait for the node, and run a job on it."""
    folder = ROOT / job
    with (ROOT / "node").open("a") as node:
        fcntl.flock(node, fcntl.LOCK_EX)
        if state(job) != "PENDING":
            return
        state(job, "RUNNING")
        code = subprocess.run(
            ["bash", folder / "script"], env={**os.environ, "SLURM_JOB_ID": job}, close_fds=True, check=False
        ).returncode
        fate = folder / "fate"
        cancelled = state(job) != "RUNNING"
        if not cancelled:
            state(job, fate.read_text() if fate.exists() else "FAILED" if code else "COMPLETED")


def srun(*words: str) -> None:
    job = os.environ["SLURM_JOB_ID"]
    rest = list(words)
    while rest[0].startswith("--"):
        option = rest.pop(0)
        if option in ("--output", "--error"):
            log = os.open(rest.pop(0).replace("%j", job).replace("%t", "0"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 1 if option == "--output" else 2)
    (ROOT / job / "task").write_text(str(os.getpid()))
    os.execvp(rest[0], rest)


def sacct(*words: str) -> None:
    print("JobID|State|NodeList")
    for option, job in itertools.pairwise(words):
        if option == "-j" and (ROOT / job).exists():
            print(f"{job}|{state(job)}|here\n{job}.batch|{state(job)}|here")


def scancel(*words: str) -> None:
    signals = [word.partition("=")[2] for word in words if word.startswith("--signal=")]
    for job in (word for word in words if not word.startswith("--")):
        if state(job) == "PENDING" and not signals:
            state(job, "CANCELLED by 0")
        elif state(job) == "RUNNING" and "--state=PENDING" not in words:
            if not signals:
                state(job, "CANCELLED by 0")
            send(job, signal.Signals[f"SIG{signals[0]}"] if signals else signal.SIGTERM)


def send(job: str, number: signal.Signals) -> None:
    """Send a signal to a job's process, once it has one."""
    while not (ROOT / job / "task").exists():
        time.sleep(0.05)
    os.kill(int((ROOT / job / "task").read_text()), number)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
