"""A cell in a worker process: one signal stops its run, whenever it comes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.thinning import every

ROOT = Path(__file__).parents[2]

WORKER = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))  # as a worker and its threads begin
import asyncio.selector_events, os, pathlib
from dpeer.experiments import launchers
from dpeer.federation.settings import Settings

made = asyncio.selector_events.BaseSelectorEventLoop._make_self_pipe

def interrupted(loop):
    os.kill(os.getpid(), signal.SIGINT)
    made(loop)

if {halfway}:
    asyncio.selector_events.BaseSelectorEventLoop._make_self_pipe = interrupted
else:
    os.kill(os.getpid(), signal.SIGINT)
settings = Settings(size=2, rounds=1000, task="mine.py:task", out=pathlib.Path("out"))
print(launchers.run_one(settings).status)
"""


@pytest.mark.slow
@pytest.mark.parametrize("halfway", every(2, [True, False]), ids=["while the event loop is made", "before the run"])
def test_a_signal_before_rounds_begin_stops_the_run(halfway: bool, small_task: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WORKER.format(halfway=halfway)], cwd=small_task.parent, capture_output=True, text=True,
        timeout=200, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("stopped\n", "")
