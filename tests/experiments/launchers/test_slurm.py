"""The Slurm launcher in a program that logs; jobs are in tests/system/test_slurm.py."""

import subprocess
import sys
from pathlib import Path

import pytest

LOGS = """
import logging, os, pathlib
from dpeer.exceptions import ConfigurationError
from dpeer.experiments.launchers import slurm


class Own(logging.StreamHandler):
    def close(self):
        print("closed")


own = Own()
try:
    slurm.prepare(None, {}, pathlib.Path("out"))
except ConfigurationError:
    pass  # no Slurm is here
import submitit
print("goes on")
os._exit(0)
"""


@pytest.mark.slow
def test_handlers_of_the_programs_own_logging_stay_open(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-uc", LOGS], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=200
    )
    assert ended.stdout.split("\n") == ["goes on", ""]
