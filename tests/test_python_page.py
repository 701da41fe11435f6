"""docs/python.md: its programs, run as they are printed."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.thinning import only

ROOT = Path(__file__).parent.parent
PROGRAMS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), flags=re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("number", only([1], range(len(PROGRAMS))))
def test_a_program_of_the_page_runs(number: int, tmp_path: Path, run_program: Callable[..., str]) -> None:
    (tmp_path / "program.py").write_text(PROGRAMS[number])
    assert len(run_program(tmp_path / "program.py").splitlines()) == (4, 1)[number]
