"""Comparisons that are refused: by flags, by a file, and by what a folder holds already."""

from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import ConfigurationError, OutputError
from dpeer.experiments.cells import Condition, make_cell, parse_variant
from dpeer.experiments.experiment import load
from dpeer.experiments.launchers import find_launcher
from dpeer.experiments.outcomes import Result
from dpeer.results.files import write_json
from tests.error_texts import refused

ROUND = '{{"round": {}, "samples": 1}}\n'
PRESETS: dict[str, Any] = {"algorithms": ["local", "dfedmdc:preset=dp2-fedsam"]}


@pytest.mark.parametrize(
    ("asked", "fragment"),
    [
        ({"algorithms": ["local", "local"]}, "--algorithms: 'local' is named twice"),
        ({"algorithms": ["dfedmdc:size=4"]}, "--algorithms 'dfedmdc:size=4': 'size' cannot be set here: all rows"),
        ({"algorithms": ["local:evaluate_on=test"]}, "'evaluate_on' cannot be set here"),
        ({"algorithms": ["local:rounds=3"]}, "--algorithms 'local:rounds=3': 'rounds' cannot be set here: all rows"),
        ({"algorithms": ["dfedsam:rho=1:rho=2"]}, "'rho' is given twice"),
        ({"seeds": "4-0"}, "--seeds '4-0': expected FIRST-LAST or"),
        ({"seeds": "0-999999999999"}, "--seeds '0-999999999999': at most 10,000 seeds"),
        ({"seeds": "0-99999999999999999999"}, "--seeds '0-99999999999999999999': at most 10,000"),
        ({"reference": "dfedmdc"}, "unknown row 'dfedmdc' in --reference"),
        ({"grid": ["rho=0.1,0.2"]}, "--grid: 'rho' means nothing to any row (local)"),
        ({"grid": ["body-lr=0.1,0.2"], "seeds": "99-101"}, "--seeds: --grid chooses with seed 100"),
        ({"grid": ["body-lr=0.1", "body-lr=0.2"]}, "--grid: 'body-lr' is named twice"),
        ({"grid": ["body-lr=1,1"]}, "--grid 'body-lr=1,1'"),
        ({"grid": ["body-lr"]}, "--grid 'body-lr': expected KEY=VALUE,VALUE"),
        ({"algorithms": ["dfedmdc"], "grid": ["topology=ring,full"]}, "--grid: 'topology' distinguishes the tables"),
        ({"topology": ["ring", "ring"]}, "the table of 'ring' is asked for twice"),
    ],
)
def test_flags_that_make_no_comparison(asked: dict[str, Any], fragment: str) -> None:
    with refused(ConfigurationError, fragment):
        load(None, {"rounds": 4}, {"algorithms": ["local"], **asked})


@pytest.mark.parametrize(
    ("settings", "plan", "fragment"),
    [
        ({"algorithm_options": {"x": 1}}, {}, "unknown option 'x' in --algorithm-option, which no row knows"),
        ({"task": "digitz"}, {}, "unknown task 'digitz'"),
        ({"preset": "paper-cifar", "rounds": None}, PRESETS, "--rounds is missing: the presets of this comparison"),
    ],
)
def test_settings_that_make_no_comparison(settings: dict[str, Any], plan: dict[str, Any], fragment: str) -> None:
    with refused(ConfigurationError, fragment):
        load(None, {"rounds": 4, **settings}, {"algorithms": ["local"], **plan})


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        ("compare = [", "e.toml is not valid TOML"),
        ("compare = 3", "e.toml = 3: expected a table, [compare]"),
        ("[compare]\nalgoritms=[]", "unknown key 'algoritms' in [compare] of "),
        ("[compare]\n", "--algorithms is missing, or algorithms in [compare] of "),
        ("compare.algorithms = ['local']\nkeep = 'best'", "keep in "),
        ("compare.algorithms = ['local']\nvalidation = 0.1", "validation in "),
        ("compare.algorithms = ['local']\nseed = 1", "seed in "),
        ("compare.algorithms = ['local']\ncompare.conditions = [{rounds=5}]", "'rounds' cannot be set here: all rows"),
        ("compare.algorithms = ['local']\ncompare.conditions = [{momentum=0.1}]", "--momentum: "),
        ("compare.algorithms = ['local']\ncompare.conditions = [{size=4},{size=4}]", "the table of 'ring, size 4'"),
    ],
)
def test_a_file_that_makes_no_comparison(content: str, fragment: str, tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text(content)
    with refused(ConfigurationError, fragment):
        load(path, {"momentum": 0.5}, {})


@pytest.mark.parametrize(
    ("name", "content", "fragment"),
    [
        ("summary.json", None, "no summary.json of all peers"),
        ("rank-1/summary.json", '{"rank": 1, ', "summaries of 1 of its 2 peers"),
        ("rank-1/metrics.jsonl", None, "a metrics.jsonl of rank 1 that is empty or damaged"),
        ("rank-0/metrics.jsonl", ROUND.format(0) + '{"rou\n', "a metrics.jsonl of rank 0 that is empty or damaged"),
        ("rank-0/metrics.jsonl", ROUND.format(0), "other rounds in metrics.jsonl of one peer than of another"),
    ],
)
def test_a_run_that_is_done_but_damaged(name: str, content: str | None, fragment: str, tmp_path: Path) -> None:
    write_json(tmp_path / "summary.json", {"algorithm": "local", "size": 2, "rounds": 2, "status": "done"})
    for rank in range(2):
        (tmp_path / f"rank-{rank}").mkdir()
        write_json(tmp_path / f"rank-{rank}" / "summary.json", {"rank": rank})
        (tmp_path / f"rank-{rank}" / "metrics.jsonl").write_text(ROUND.format(0) + ROUND.format(1))
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_text(content)
    with refused(OutputError, fragment, str(tmp_path)):
        Result(tmp_path)


def test_a_folder_with_a_run_that_no_comparison_made_and_a_cluster_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = make_cell({}, parse_variant("dfedmdc"), Condition({"topology": "ring", "partition": None}), 0, tmp_path)
    (cell.folder / "rank-0" / "checkpoint" / "round-00000000").mkdir(parents=True)
    with refused(OutputError, "holds a run that no comparison made", str(cell.folder)):
        cell.check()
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with (
        refused(ConfigurationError, "--launcher ray: no Ray cluster at '127.0.0.1:1'"),
        find_launcher("ray", None, tmp_path)([cell]),
    ):
        pass
