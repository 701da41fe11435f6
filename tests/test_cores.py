"""How many threads and processes there is room for: asked in one way everywhere."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dpeer.cores import own_cores

ROOT = Path(__file__).parent.parent


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system knows no affinity")
def test_a_process_that_was_given_one_core_counts_one():
    last = own_cores()[-1]
    code = f"import os\nos.sched_setaffinity(0, {{{last}}})\nfrom dpeer.cores import own_cores\nprint(own_cores())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.strip() == f"[{last}]"


@pytest.mark.parametrize(("count", "cores"), [(3, [0, 1, 2]), (None, [0])])
def test_all_count_where_there_is_no_affinity(monkeypatch, count, cores):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    assert own_cores() == cores


def test_nobody_counts_in_another_way():
    counted = ("cpu_count", "sched_getaffinity")
    folders = [folder for folder in ROOT.iterdir() if folder.is_dir() and not folder.name.startswith((".", "build"))]
    paths = {path.resolve() for folder in folders for path in folder.rglob("*.py")}
    assert {path.relative_to(ROOT).parts[0] for path in paths} >= {"cli", "federation", "peer", "training", "tests"}
    found = {path for path in paths if any(word in path.read_text(encoding="utf-8") for word in counted)}
    assert found == {ROOT / "dpeer" / "cores.py", Path(__file__).resolve()}
