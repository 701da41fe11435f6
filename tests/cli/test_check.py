"""`dpeer check`, as it is typed: its lines, its JSON, its exit codes. What it finds is tested in tests/federation."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Ended

Run = Callable[..., Ended]

QUICK = (
    "--size", 3, "--task", "mine.py:task", "--body-epochs", 1, "--rounds", 4, "--base-port", 21700, "--alone", "never",
)  # fmt: skip


@pytest.fixture
def check(dpeer: Run, small_task: Path) -> Run:
    """`dpeer check` of rank 1."""
    Path("mine.py").write_text(small_task.read_text())
    return lambda *more: dpeer("check", "--rank", 1, *QUICK, *more)


def test_lines_have_level_subject_and_words_and_then_what_will_happen(check: Run) -> None:
    ended = check("--bandwidth", "8kbit")
    lines = ended.out.splitlines()
    assert ended.code == 0
    assert lines[0] == "PASS  settings      rank 1 of 3, ring; no federation file: all by default"
    subjects = [line[2:16].strip() for line in lines[lines.index("What will happen:") + 1 :] if line.startswith("  ")]
    assert subjects[:7] == ["neighbors", "settings", "a round", "the run", "bytes", "line", "epsilon"]
    body = 4 * (4 * 6 + 6)
    assert (
        f"  bytes         {2 * body} B out and {2 * body} B in a round ({body} B a body), 960 B and 960 B in all"
        in lines
    )
    once = "a round's bodies take 240 ms at this bandwidth; a connection that breaks more often delivers none"
    assert f"  line          {once}" in lines
    assert lines[-1] == "11 PASS, 0 WARN, 0 FAIL: it can start, by `dpeer start` with the same options"
    assert "training a few minibatches" in ended.err


def test_json_has_the_same_and_nothing_else_on_stdout(check: Run) -> None:
    ended = check("--json")
    found: dict[str, Any] = json.loads(ended.out)
    assert (ended.code, found["ok"]) == (0, True)
    assert {"check": "proxy", "level": "PASS", "text": "none: it dials directly"} in found["findings"]
    assert found["forecast"]["neighbors"] == [0, 2]
    assert found["forecast"]["round_seconds"] > 0
    assert found["forecast"]["exchange_seconds"] is None


def test_with_a_bandwidth_it_says_how_long_bodies_take(check: Run) -> None:
    found = json.loads(check("--bandwidth", "1kbit", "--json").out)["forecast"]
    assert found["exchange_seconds"] == pytest.approx(2 * 120 * 8 / 1000)
    assert found["round_seconds"] == pytest.approx(found["train_seconds"] + found["evaluate_seconds"])
    assert check("--bandwidth", "fast").code == 2


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (("--insecure",), 0),
        (("--insecure", "--strict"), 1),
        (("--proxy", "none"), 1),
        (("--proxy", "none", "--json"), 1),
    ],
    ids=["a warning", "strict", "a failure", "a failure as JSON"],
)
def test_the_exit_code_is_for_scripts(check: Run, more: tuple[str, ...], code: int) -> None:
    ended = check(*more)
    assert ended.code == code
    if code and "--strict" not in more:
        assert "--json" in more or ended.out.splitlines()[-1].endswith("1 FAIL: mend what has failed, and check again")
        assert "--json" not in more or json.loads(ended.out)["ok"] is False


def test_a_service_begins_a_run_or_goes_on_with_it_by_one_command(dpeer: Run, check: Run) -> None:
    """`--resume-or-start` is a start in an empty folder, a resume in another, and checked as what it will be."""
    alone = ("--algorithm", "local", "--resume-or-start")
    rounds = []
    for planned in (4, 5):
        assert check(*alone, "--rounds", planned).code == 0
        assert dpeer("start", "--rank", 1, *QUICK, *alone, "--rounds", planned).code == 0
        rounds.append(json.loads(Path("dpeer-run/rank-1/summary.json").read_text())["rounds"])
    assert rounds == [4, 5]
    lines = Path("dpeer-run/rank-1/metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["round"] for line in lines] == [0, 1, 2, 3, 4]
    refused = dpeer("start", "--rank", 1, *QUICK, *alone, "--overwrite")
    assert refused.code == 2
    assert "exclude each other" in refused.err
