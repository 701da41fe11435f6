"""The server from which peers' processes are forked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

STARTS = """
from dpeer.federation import forking
forking.context()
print("started")
"""


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS spawns")
@pytest.mark.parametrize("before", ["", "import multiprocessing.util as u; u.get_temp_dir()"])
def test_a_folder_for_temporary_files_may_be_long(tmp_path: Path, before: str) -> None:
    folder = tmp_path / ("scratch_of_job_" * 7) / "node"
    folder.mkdir(parents=True)
    ended = subprocess.run(
        [sys.executable, "-c", before + STARTS], env={**os.environ, "TMPDIR": str(folder)}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert ended.stdout == "started\n", ended.stderr
