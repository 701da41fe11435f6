"""Every program of benchmarks/ runs in its quick form."""

import runpy
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
QUICK: dict[str, str] = runpy.run_path(str(ROOT / "benchmarks" / "quick.py"))["QUICK"]

STARTED = {"scale_figure", "strangers"}
"""Started by other programs: by `scale` and by `flooded`."""

SHORT = {
    "gossip_round",
    "per_example",
    "privacy",
    "sample_level",
    "scale",
    "simulate",
    "steady",
    "under_gossip",
    "unfinished",
}
"""Run with the slow tests; the rest, with many processes or rounds, with the long ones."""

COMPARED = "--task digits --size 2 --rounds 1 --body-epochs 1 --seeds 0-1 --jobs 1 --out compared --algorithms "
COMPARED += ",".join(
    row + more
    for row in ("local", "dfedmdc", "dfedmdc:privacy=client:target-epsilon=100")
    for more in ("", ":model=small-body")
)
"""What `privacy_figure` draws."""


def test_every_program_has_a_quick_form():
    programs = {
        path.stem for path in (ROOT / "benchmarks").glob("*.py") if 'if __name__ == "__main__"' in path.read_text()
    }
    assert programs - STARTED == {*QUICK}
    assert {*QUICK} >= SHORT


@pytest.mark.slow
@pytest.mark.parametrize(
    "program", [name if name in SHORT else pytest.param(name, marks=pytest.mark.long) for name in QUICK]
)
@pytest.mark.usefixtures("run_cells_here")
def test_the_quick_form_runs(program, run_program, dpeer, tmp_path):
    for name in ("benchmarks", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    if program == "privacy_figure":
        ended = dpeer("compare", *COMPARED.split())
        assert ended.code == 0, ended.err
    assert run_program(tmp_path / "benchmarks" / f"{program}.py", *shlex.split(QUICK[program]))
