"""docs/python.md: its programs, run as they are printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.thinning import only

ROOT = Path(__file__).parent.parent
PROGRAMS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), flags=re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("number", only([1], range(len(PROGRAMS))))
def test_a_program_of_the_page_runs(number: int, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAMS[number])
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == (4, 1)[number]
