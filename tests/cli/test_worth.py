"""`dpeer worth` as it is typed: what is printed, given away and refused."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeer.federation.baseline import training
from dpeer.training.local_baseline import LocalBaseline

SMALL = ("--size", 2, "--rounds", 1, "--task", "mine.py:task", "--topology", "ring")


@pytest.fixture
def run(dpeer: Callable[..., Any], small_task: Path) -> Callable[..., None]:
    def simulate(*options: object) -> None:
        assert dpeer("simulate", *SMALL, "--alone", "never", *options).code == 0

    return simulate


def test_a_rank_is_compared_and_may_give_away_what_was_found(
    dpeer: Callable[..., Any], run: Callable[..., None], in_tmp_path: Path
) -> None:
    run()
    ended = dpeer("worth", "dpeer-run/rank-0", "--give-away", "worth-0.json")
    assert (ended.code, ended.complaints) == (0, [])
    first, second, last = ended.out.splitlines()
    assert first.startswith("dpeer: accuracy ")
    assert second.startswith("dpeer: gain ")
    assert last == "dpeer: worth-0.json may be given away: it holds nothing of a single row"
    content = json.loads((in_tmp_path / "worth-0.json").read_text())
    worth = json.loads((in_tmp_path / "dpeer-run/rank-0/summary.json").read_text())["worth"]
    assert {name: content[name] for name in ("gain", "low", "high", "rows", "verdict")} == {
        name: worth[name] for name in ("gain", "low", "high", "rows", "verdict")
    }
    whole = dpeer("worth", "dpeer-run")
    assert (whole.code, whole.complaints) == (0, [])
    assert [line.split(":")[1] for line in whole.out.splitlines()[:4]] == [" rank-0", " rank-0", " rank-1", " rank-1"]
    dpeer("worth", "dpeer-run/rank-1", "--give-away", "worth-1.json")
    other = json.loads((in_tmp_path / "worth-1.json").read_text())
    assert (other["federation"], other["rank"], other["size"]) == (content["federation"], 1, 2)
    both = dpeer("worth", "--combine", "worth-1.json", "worth-0.json")
    assert (both.code, both.complaints) == (0, [])
    assert [line.split()[0] for line in both.out.splitlines()[2:4]] == ["0", "1"]
    assert [line for line in both.out.splitlines()[4:] if "together" in line] == [
        line.removeprefix("dpeer: ") for line in whole.out.splitlines() if "together" in line
    ], "what a run of all peers says"


def test_sites_without_a_file_and_other_versions_are_named(dpeer: Callable[..., Any], in_tmp_path: Path) -> None:
    content = {
        "kind": "what joining was worth to a site", "format": 1, "version": "0.1.0", "federation": "ab" * 16, "size": 4,
        "member_list": 0, "members": [0, 1, 2, 3], "rank": 2, "rounds": 5, "measure": "test_loss",
        "on": "test", "rows": 30, "differ": 30, "gain": 0.5, "low": 0.25, "high": 1.0,
        "verdict": "improved",
    }  # fmt: skip
    (in_tmp_path / "one").write_text(json.dumps(content))
    (in_tmp_path / "two").write_text(json.dumps(content | {"rank": 0, "version": "0.2.0\x1b[2J"}))
    ended = dpeer("worth", "--combine", "one", "two")
    assert "gain of loss" in ended.out.splitlines()[0]
    assert ended.out.splitlines()[-4:] == [
        "2 of 2 peers improved over local only",
        "2 peers together: improved over local only; mean gain +0.5000 of loss (95 % interval +0.2348 to +0.7652)",
        "no file of rank 1, 3",
        "the files are of different versions of dpeer: 0.1.0, 0.2.0?[2J",
    ]
    assert "together" not in dpeer("worth", "--combine", "one").out
    (in_tmp_path / "two").write_text(json.dumps(content | {"rank": 0, "member_list": 3, "members": [0, 1]}))
    ended = dpeer("worth", "--combine", "one", "two")
    assert ended.out.splitlines()[-2:] == ["not counted, because no member any more: rank 2", "no file of rank 1"]


def test_a_gain_from_private_records_or_shared_rows_is_not_given_away(
    dpeer: Callable[..., Any], run: Callable[..., None], in_tmp_path: Path
) -> None:
    run()
    path = in_tmp_path / "dpeer-run/rank-0/summary.json"
    summary = json.loads(path.read_text())
    for setting, words in (
        ({"privacy": "sample"}, "--privacy sample, and the gain is computed from records without noise"),
        ({"test_split": "shared"}, "--test-split shared: gains of the same rows have no mean"),
    ):
        path.write_text(json.dumps(summary | {"settings": summary["settings"] | setting}))
        ended = dpeer("worth", "dpeer-run/rank-0", "--give-away", "w.json")
        (line,) = ended.complaints
        assert (ended.code, ended.out) == (2, "")
        assert f"is of a run with {words}" in line
        assert not (in_tmp_path / "w.json").exists()


COLUMNS = ("federated", "local only", "gain", "95 % interval", "verdict")


def test_all_peers_are_compared_unless_it_is_not_asked_for(
    dpeer: Callable[..., Any], small_task: Path, in_tmp_path: Path
) -> None:
    compared = dpeer("simulate", *SMALL, "--out", "compared")
    assert (compared.code, compared.complaints) == (0, [])
    assert all(column in compared.out.splitlines()[2] for column in COLUMNS)
    worth = json.loads((in_tmp_path / "compared/summary.json").read_text())["worth"]
    assert [one["verdict"] for one in worth] == ["inconclusive"] * 2
    without = dpeer("simulate", *SMALL, "--alone", "never", "--out", "without")
    assert not any(column in without.out for column in COLUMNS)
    assert "dpeer worth" not in without.out


def test_ctrl_c_stops_a_comparison_and_the_same_command_goes_on(
    dpeer: Callable[..., Any], run: Callable[..., None], monkeypatch: pytest.MonkeyPatch, in_tmp_path: Path
) -> None:
    run("--rounds", 3)
    train_round, signals = LocalBaseline.train_round, iter([signal.SIGINT])

    def interrupted(baseline: LocalBaseline, enough: Callable[[], bool]) -> bool:
        if baseline.completed:
            for number in signals:
                os.kill(os.getpid(), number)
        return train_round(baseline, enough)

    monkeypatch.setattr(LocalBaseline, "train_round", interrupted)
    monkeypatch.setattr(training, "_SAVE_EVERY", 0.0)
    first = dpeer("worth", "dpeer-run/rank-1")
    assert first.code == 0
    message = (first.out + first.err).splitlines()[-1]
    assert message.endswith("of 3 rounds of local-only training; the same command goes on")
    assert (in_tmp_path / "dpeer-run/rank-1/alone").exists()
    assert dpeer("worth", "dpeer-run/rank-1").out.splitlines()[-1].startswith("dpeer: gain ")
