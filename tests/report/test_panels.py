"""Panels of a report: gains, classes, faults, and the ticks of their axes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from dpeer.report.by_peer import gains, headlines
from dpeer.report.classes import class_mix
from dpeer.report.facets import Report
from dpeer.report.faults import SAT_OUT, strips
from dpeer.report.steps import shortened
from dpeer.report.style import log_ticks
from dpeer.results.effect import as_entry

Of = Callable[..., Report]


def entry(gain: float, verdict: str | None = "inconclusive", **values: Any) -> dict[str, Any]:
    return dict(as_entry(measure="accuracy", on="test", rows=40, gain=gain, low=gain - 0.1, high=gain + 0.1,
                         algorithm="local", verdict=verdict, **values))  # fmt: skip


def test_gains_are_shown_the_highest_first_with_a_headline(make_run: Any, report_of: Of) -> None:
    folder = make_run("run", more={"worth": [entry(-0.2, "worse"), entry(0.3, "improved"), entry(0.01)]})
    report = report_of(folder)
    panel = gains(report)
    assert panel is not None
    assert panel.alt.endswith("rank 1: +0.3000, improved. rank 2: +0.0100, inconclusive. rank 0: -0.2000, worse.")
    assert headlines(report.groups) == ["1 of 3 peers improved over local only; 1 worse; 1 inconclusive"]


def test_the_headline_of_one_run_has_the_gain_of_all_its_peers_together(make_run: Any, report_of: Of) -> None:
    folder = make_run("run", more={"worth": [entry(0.15, "inconclusive", differ=6)] * 3})
    (line,) = headlines(report_of(folder).groups)
    assert line.startswith("0 of 3 peers improved over local only; 3 inconclusive; 3 peers together: improved, mean")
    shared = make_run("shared", more={"worth": [entry(0.15, "inconclusive", differ=6)] * 3}, test_split="shared")
    (line,) = headlines(report_of(shared).groups)
    assert "together" not in line, "peers may have the same rows"
    alone = make_run("alone", only=2, own=lambda rank: {"worth": entry(0.5, "improved")})
    assert headlines(report_of(alone).groups) == ["1 of 1 peer improved over local only"]


def test_of_several_groups_each_has_its_headline(make_run: Any, report_of: Of) -> None:
    one = make_run("one", more={"worth": [entry(0.1), entry(-0.1), None]})
    other = make_run("other", algorithm="dfedavgm", more={"worth": [entry(0.3, "improved"), None, entry(0.0)]})
    report = report_of(one, other)
    assert headlines(report.groups) == [
        "dfedmdc: 0 of 2 peers improved over local only; 2 inconclusive",
        "dfedavgm: 1 of 2 peers improved over local only; 1 inconclusive",
    ]
    panel = gains(report)
    assert panel is not None
    assert "dfedavgm, rank 0: +0.3000" in panel.alt


def test_shortened_rounds_are_shown_by_peer_the_slowest_first(make_run: Any, report_of: Of) -> None:
    def slow(rank: int, line: dict[str, Any]) -> dict[str, Any]:
        done = [[3, 1], [4, 2]][line["round"]] if rank == 1 else [8, 2]
        return {"steps": done, "steps_asked": [8, 2]}

    folder = make_run("slow", lines=slow)
    panel = shortened(report_of(folder))
    assert panel is not None
    assert panel.alt == (
        "Bars of the share of steps. rank 1: 10 of 20 steps in 2 rounds. rank 0: 20 of 20 steps in 2 rounds. "
        "rank 2: 20 of 20 steps in 2 rounds."
    )
    (axes,) = panel.figure.axes
    assert [bar.get_width() for bar in axes.patches] == [50.0, 100.0, 100.0]
    assert [line.get_xdata().tolist() for line in axes.lines] == [[40.0, 60.0], [100.0, 100.0], [100.0, 100.0]]


@pytest.mark.parametrize("steps", [[8, 2], [], None, "damaged"])
def test_where_no_round_was_shortened_no_steps_are_shown(make_run: Any, report_of: Of, steps: Any) -> None:
    folder = make_run("whole", lines=lambda rank, line: {"steps": steps, "steps_asked": [8, 2]})
    assert shortened(report_of(folder)) is None


@pytest.mark.parametrize("worth", [[None] * 3, [entry(0.1, None), {"why": "no time"}, 7], "damaged"])
def test_without_a_comparison_no_gain_is_shown(make_run: Any, report_of: Of, worth: Any) -> None:
    report = report_of(make_run("run", more={"worth": worth}))
    assert (headlines(report.groups), gains(report)) == ([], None)


def test_no_round_is_sat_out_before_the_rank_is_back_even_if_that_takes_no_time(make_run: Any, report_of: Of) -> None:
    crash = {"what": "crash", "rank": 0, "round": 1, "own_round": 1, "time": 1.5, "until_round": 4, "until_time": 4.5}
    # A round that is sat out may be over at the moment, to a thousandth, at which the rank begins again.
    rank = {"rank": 0, "status": "done", "completed_at": [1.0, 4.5, 4.55], "sat_out": [1, 2]}
    panel = strips(report_of(make_run("run", more={"faults": {"time": 4.55, "happened": [crash], "ranks": [rank]}})))
    assert panel is not None
    assert panel.figure is not None
    (axes,) = panel.figure.axes
    began = [
        path.get_extents().x0
        for one in axes.collections
        if to_hex(one.get_facecolor()[0]) == SAT_OUT.lower()
        for path in one.get_paths()
    ]
    assert min(began) == 4.5


def test_classes_have_their_names_whatever_their_order_on_a_peer(make_run: Any, report_of: Of) -> None:
    panel = class_mix(
        report_of(make_run("a", classes=[5, 2], names=(("ill", "well"), ("well", "ill"), ("well", "dead"))))
    )
    assert panel.alt.endswith("of the classes ill, well, dead.")
    assert "numbered" not in panel.caption
    assert panel.figure is not None
    widths = [
        {round(box.get_extents().y0 + 0.41): round(box.get_extents().width) for box in one.get_paths()}
        for one in panel.figure.axes[0].collections
    ]
    assert widths == [{0: 5, 1: 2}, {0: 2, 1: 5, 2: 5}, {2: 2}], "ill, well and dead, by rank"
    damaged = make_run("b", classes=[5, 2], names=(("ill", "well"), ("well",), ("well", "ill")))
    assert class_mix(report_of(damaged)).alt.endswith("3 peers with 7 to 7 samples of 2 classes.")


@pytest.mark.parametrize("classes", [1, 17, 62])
def test_any_number_of_classes_is_shown(make_run: Any, report_of: Of, in_tmp_path: Path, classes: int) -> None:
    panel = class_mix(report_of(make_run("a", classes=[4] * classes)))
    assert f"3 peers with {4 * classes} to {4 * classes} samples" in panel.alt
    assert panel.figure is not None
    panel.figure.savefig(in_tmp_path / "mix.png", dpi=20)


@pytest.mark.parametrize(("low", "high"), [(0.03, 1.5), (1e-3, 1.5), (1e-5, 2.0), (2.5e-16, 1.5), (1e-8, 300.0)])
def test_a_logarithmic_axis_has_ticks_over_any_number_of_decades(low: float, high: float) -> None:
    axes = Figure().subplots()
    axes.plot([1, 2], [low, high])
    axes.set_yscale("log")
    log_ticks(axes.yaxis)
    least, most = axes.get_ylim()
    assert 3 <= sum(least <= tick <= most for tick in axes.yaxis.get_majorticklocs()) <= 12
