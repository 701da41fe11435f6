"""Slurm launcher: each cell a job, submitted by submitit; jobs that are preempted or out of time go on in new ones."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpeer.exceptions import ConfigurationError, OutputError
from dpeer.experiments.cells import Cell
from dpeer.experiments.launchers.launcher import Ended, Launcher, OpenLauncher
from dpeer.experiments.launchers.options import SIZE, Kind, read_options, whole_number
from dpeer.experiments.launchers.remote_cell import Order, order, run_order, seen
from dpeer.optional_libraries import check_libraries

if TYPE_CHECKING:
    from submitit import Job

OPTIONS: Mapping[str, Kind] = {
    "cpus": whole_number(1, 1), "gpus": whole_number(0, None), "memory": SIZE, "minutes": whole_number(1, 60),
    "poll": whole_number(1, 30),
}  # fmt: skip

_OURS = ("array", "error", "job-name", "nodes", "ntasks", "open-mode", "output", "signal")
"""Options of sbatch that a job of one cell cannot have otherwise."""

_WARNED = 90
"""Seconds between the signal of a job that runs out of time and its end."""


def prepare(jobs: int | None, options: Mapping[str, Any], out: Path) -> OpenLauncher:
    """Cells as Slurm jobs: `jobs` of them in the queue at a time, or all.

    Options beyond `OPTIONS` go to sbatch: `partition=gpu` is its `--partition=gpu`.

    Raises:
        ConfigurationError: submitit or a command of Slurm is missing, or an option cannot be used.
    """
    asked = read_options("slurm", options, OPTIONS, others=True)
    more = {name: value for name, value in asked.items() if name not in OPTIONS}
    for name in more:
        if name in _OURS or not re.fullmatch(r"[a-z][a-z0-9-]*", name):
            raise ConfigurationError(
                f"--launcher-option {name}={more[name]}: expected {', '.join(OPTIONS)}, or a long option of sbatch but "
                f"for {', '.join(_OURS)}"
            )
    # Its default configuration of logging closes every handler of this program, and some close their streams then.
    os.environ.setdefault("SUBMITIT_LOG_LEVEL", "NOCONFIG")
    check_libraries("--launcher slurm", "slurm", submitit="submitit")
    if lacking := [command for command in ("sbatch", "srun", "sacct", "scancel") if shutil.which(command) is None]:
        raise ConfigurationError(
            f"--launcher slurm: no {lacking[0]} on this host: begin where Slurm jobs are submitted"
        )

    @contextlib.contextmanager
    def opened(cells: Sequence[Cell], show: Callable[[str], None]) -> Iterator[Launcher]:
        yield _Slurm(jobs or len(cells), asked, more, out.absolute() / "slurm")

    return opened


class _Slurm:
    """Cells as jobs in Slurm's queue, each with its result as a file in a folder that all hosts see."""

    restarts = True

    def __init__(self, room: int, asked: Mapping[str, Any], more: Mapping[str, Any], folder: Path) -> None:
        import submitit

        self.room, self._asked, self._more, self._submitit = room, asked, more, submitit
        try:
            self._executor = submitit.SlurmExecutor(folder=folder)
        except OSError as error:
            raise OutputError(f"--out: {str(folder)!r} cannot be written: {error.strerror}") from error
        self._running: list[tuple[Job[Ended], Cell]] = []
        self._over: dict[str, float] = {}
        """By job: since when Slurm has it as ended."""
        self._looked = time.monotonic()
        self._stopping = False

    def start(self, cell: Cell) -> None:
        """See `Launcher`."""
        asked, more = self._asked, dict(self._more)
        if asked["memory"] is not None:
            more.setdefault("mem", f"{-(-asked['memory'] // 2**20)}M")
        on_gpu = cell.settings.device.startswith("cuda")
        if gpus := int(on_gpu) if asked["gpus"] is None else asked["gpus"]:
            more.setdefault("gpus", gpus)
        self._executor.update_parameters(
            job_name=f"dpeer {cell.folder.name}"[:64], time=asked["minutes"], cpus_per_task=asked["cpus"],
            signal_delay_s=min(_WARNED, 15 * asked["minutes"]), additional_parameters=more,
        )  # fmt: skip
        errors = self._submitit.core.utils
        try:
            job = self._executor.submit(run_job, order(cell, asked["cpus"]))
        except (errors.FailedJobError, errors.FailedSubmissionError, OSError) as error:
            raise ConfigurationError(f"--launcher slurm: sbatch refuses a job: {_last_line(str(error))}") from error
        self._running.append((job, cell))

    def ended(self, seconds: float) -> list[tuple[Cell, Ended]]:
        """See `Launcher`."""
        found = self._found()
        if not found:
            time.sleep(seconds)
            found = self._found()
        return found

    def stop(self) -> None:
        """See `Launcher`."""
        self._stopping = True
        jobs = [job.job_id for job, _ in self._running]
        if jobs:
            _scancel("--state=PENDING", *jobs)
            _scancel("--signal=INT", *jobs)
            self._looked = float("-inf")

    def kill(self) -> None:
        """See `Launcher`."""
        if jobs := [job.job_id for job, _ in self._running]:
            _scancel(*jobs)

    def _found(self) -> list[tuple[Cell, Ended]]:
        """The cells whose jobs have ended since the last call."""
        every = 1 if self._stopping else self._asked["poll"]
        if self._running and time.monotonic() > self._looked + every:
            self._looked = time.monotonic()
            self._running[0][0].done(force_check=True)  # asks Slurm for all jobs at once
        outcomes = [(job, cell, self._outcome(job)) for job, cell in self._running]
        self._running = [(job, cell) for job, cell, outcome in outcomes if outcome is None]
        found = [(job, cell, seen(cell, outcome)) for job, cell, outcome in outcomes if outcome is not None]
        for job, _, outcome in found:
            if outcome.status in ("done", "stopped"):
                for path in job.paths.folder.glob(f"{job.job_id}_*"):
                    path.unlink(missing_ok=True)
        return [(cell, outcome) for _, cell, outcome in found]

    def _outcome(self, job: Job[Ended]) -> Ended | None:
        """How a job has ended; None while it has not."""
        if job.paths.result_pickle.exists():
            try:
                return job.result()
            except self._submitit.core.utils.FailedJobError as error:  # the cell cannot even begin
                trace = str(error)
                line = _last_line(trace.partition("\n" + "-" * 22 + "\nYou can check")[0])
                return Ended("failed", f"job {job.job_id} cannot run it: {line}", 2, trace)
        state = job.watcher.get_state(job.job_id, mode="cache").partition(" ")[0]
        preempted = state == "PREEMPTED"
        if not preempted and not job.watcher.is_done(job.job_id, mode="cache"):
            self._over.pop(job.job_id, None)
            return None
        since = self._over.setdefault(job.job_id, time.monotonic())
        # A result that is written on another host shows later, and a preempted job may come back into the queue.
        if time.monotonic() < since + (0 if self._stopping else self._asked["poll"] * (1 + preempted)):
            return None
        return Ended("lost", f"job {job.job_id} is lost ({state})", 1)


def run_job(order: Order) -> Ended:
    """Run a cell in its job; Slurm's warning that it is preempted or out of time stops it after its minibatch."""
    return run_order(order, (signal.SIGUSR2,))


def _scancel(*words: str) -> None:
    # Jobs that have ended meanwhile are no error.
    subprocess.run(["scancel", *words], check=False, capture_output=True)  # noqa: S603, S607 - Slurm is found by PATH


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip(" -")), text)
