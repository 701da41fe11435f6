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
    folders = ("cli", "peer", "privacy", "topology", "training", "benchmarks", "dpeer")
    paths = {path.resolve() for folder in folders for path in (ROOT / folder).rglob("*.py")}
    said = ("cpu_count", "sched_getaffinity")
    assert {path.name for path in paths if any(word in path.read_text() for word in said)} == {"cores.py"}
