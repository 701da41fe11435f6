"""The effect of federating, on the page."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeer.report.by_peer import gains, headlines
from dpeer.report.facets import Report
from dpeer.results.curves import ACCURACY
from dpeer.results.effect import as_entry
from dpeer.results.groups import group_runs
from dpeer.results.reading import find_runs

pytestmark = pytest.mark.usefixtures("undrawn")


def entry(gain: float, verdict: str | None = "inconclusive", **values: Any) -> dict[str, Any]:
    return dict(as_entry(measure="accuracy", on="test", rows=40, gain=gain, low=gain - 0.1, high=gain + 0.1,
                         algorithm="local", verdict=verdict, **values))  # fmt: skip


def say(folder: Path, worth: Any) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    (folder / "summary.json").write_text(json.dumps(summary | {"worth": worth}))


def test_the_headline_and_the_gains_the_highest_first(make_run: Callable[..., Path]) -> None:
    folder = make_run("run")
    say(folder, [entry(-0.2, "worse"), entry(0.3, "improved"), entry(0.01)])
    grouped = group_runs(find_runs([folder]))
    assert headlines(grouped.groups) == ["1 of 3 peers improved over local only; 1 worse; 1 inconclusive"]
    panel = gains(Report.of(grouped, ACCURACY))
    assert panel is not None
    assert panel.title == "Effect of federating"
    assert panel.alt.endswith("rank 1: +0.3000, improved. rank 2: +0.0100, inconclusive. rank 0: -0.2000, worse.")


def test_one_run_also_says_what_all_its_peers_tell_together(make_run: Callable[..., Path]) -> None:
    folder = make_run("run")
    say(folder, [entry(0.15, "inconclusive", differ=6)] * 3)
    (line,) = headlines(group_runs(find_runs([folder])).groups)
    assert line.startswith("0 of 3 peers improved over local only; 3 inconclusive; 3 peers together: improved, mean")


def test_a_peer_that_was_started_by_hand_tells_its_own(make_run: Callable[..., Path]) -> None:
    folder = make_run("run", summary=False)
    path = folder / "rank-2" / "summary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"worth": entry(0.5, "improved")}))
    grouped = group_runs(find_runs([folder]))
    assert headlines(grouped.groups) == ["1 of 1 peer improved over local only"]


def test_of_several_runs_each_has_its_own_headline(make_run: Callable[..., Path]) -> None:
    one, other = make_run("one"), make_run("other", algorithm="dfedavgm")
    say(one, [entry(0.1), None, entry(0.2)])
    say(other, [entry(0.3, "improved"), entry(0.1), None])
    grouped = group_runs(find_runs([one, other]))
    assert headlines(grouped.groups) == [
        "dfedmdc: 0 of 2 peers improved over local only; 2 inconclusive",
        "dfedavgm: 1 of 2 peers improved over local only; 1 inconclusive",
    ]
    panel = gains(Report.of(grouped, ACCURACY))
    assert panel is not None
    assert "dfedavgm, rank 0: +0.3000" in panel.alt


def test_without_a_comparison_there_is_neither(make_run: Callable[..., Path]) -> None:
    folder = make_run("run")
    for worth in ([None, None, None], [entry(0.1, None), {"why": "no time"}, 7], "damaged"):
        say(folder, worth)
        grouped = group_runs(find_runs([folder]))
        assert headlines(grouped.groups) == []
        assert gains(Report.of(grouped, ACCURACY)) is None


def test_the_page_says_it_at_the_top(
    make_run: Callable[..., Path], dpeer: Callable[..., Any], read_page: Callable[..., Any]
) -> None:
    folder = make_run("run")
    say(folder, [entry(0.3, "improved")] * 3)
    assert dpeer("report", folder).code == 0
    page = read_page()
    assert "3 of 3 peers improved over local only." in page.text
    assert page.text.index("3 of 3 peers improved") < page.text.index("Results at the end")
    assert "gain" in page.pictures
