"""Every program of benchmarks/ runs in its quick form."""

import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
QUICK: dict[str, str] = runpy.run_path(str(ROOT / "benchmarks" / "quick.py"))["QUICK"]

SHORT = {"gossip_round", "simulate"}
"""Run with the slow tests; the rest, with many processes or rounds, with the long ones."""


def test_every_program_has_a_quick_form():
    programs = {
        path.stem for path in (ROOT / "benchmarks").glob("*.py") if 'if __name__ == "__main__"' in path.read_text()
    }
    assert programs == {*QUICK}
    assert {*QUICK} >= SHORT


@pytest.mark.slow
@pytest.mark.parametrize(
    "program", [name if name in SHORT else pytest.param(name, marks=pytest.mark.long) for name in QUICK]
)
def test_the_quick_form_runs(program, run_program, tmp_path):
    (tmp_path / "benchmarks").symlink_to(ROOT / "benchmarks")
    assert run_program(tmp_path / "benchmarks" / f"{program}.py", *shlex.split(QUICK[program]))


def test_without_a_gpu_its_program_says_so_in_one_line(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["gpu_peers.py"])
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "benchmarks" / "gpu_peers.py"), run_name="__main__")
    assert ended.value.code == 2
    assert re.fullmatch(
        r"gpu_peers: --device cuda: .* sees no CUDA device; use --device cpu or auto\n", capsys.readouterr().err
    )
