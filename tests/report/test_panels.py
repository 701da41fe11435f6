"""Panels of a report: results of peers, costs of a round, and the ticks of their axes."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest
from matplotlib.figure import Figure

from dpeer.report.by_peer import headlines, results_of_peers
from dpeer.report.by_round import parts_of, time_and_bytes
from dpeer.report.style import Report, log_ticks
from dpeer.results.effect import Effect
from dpeer.results.groups import LOSS

Of = Callable[..., Report]


def entry(gain: float, verdict: str | None = "inconclusive", **values: Any) -> dict[str, Any]:
    found = {"measure": "accuracy", "on": "test", "rows": 40, "gain": gain, "low": gain - 0.1, "high": gain + 0.1}
    return asdict(Effect(**found, verdict=verdict, **values))


def test_every_peer_is_shown_federated_beside_local_only_with_a_headline(make_run: Any, report_of: Of) -> None:
    worth = [entry(-0.2, "worse", joined=0.5, alone=0.7), entry(0.3, "improved", joined=0.8, alone=0.5), None]
    report = report_of(make_run("run", more={"worth": worth}))
    panel = results_of_peers(report)
    assert panel.alt == (
        "Dots of every peer's result. rank 2: 0.9000. rank 1: 0.8000, alone 0.5000, improved. "
        "rank 0: 0.5000, alone 0.7000, worse."
    )
    (axes,) = panel.figure.axes
    bars = [line.get_xdata().tolist() for line in axes.lines if len(line.get_xdata()) == 2]
    assert bars == [pytest.approx([0.7, 0.9]), pytest.approx([0.4, 0.6])], "the gain's interval, from local only on"
    assert headlines(report.groups) == [
        "1 of 2 peers improved over local only; 1 worse; no verdict of all together: 2 of 3 peers are compared"
    ]


def test_of_a_loss_the_interval_of_a_gain_lies_below_the_baseline(make_run: Any, report_of: Of) -> None:
    worth = {**entry(0.3, "improved", joined=0.4, alone=0.7), "measure": "test_loss"}
    report = report_of(make_run("run", (None, None), more={"worth": [worth, None]}))
    panel = results_of_peers(Report(report.grouped, LOSS))
    (axes,) = panel.figure.axes
    assert [line.get_xdata().tolist() for line in axes.lines if len(line.get_xdata()) == 2] == [
        pytest.approx([0.5, 0.3])
    ]


def test_the_headline_of_one_run_has_the_gain_of_all_its_peers_together(make_run: Any, report_of: Of) -> None:
    folder = make_run("run", more={"worth": [entry(0.15, "inconclusive", differ=6)] * 3})
    (line,) = headlines(report_of(folder).groups)
    assert line.startswith("0 of 3 peers improved over local only; 3 inconclusive; 3 peers together: improved over")
    shared = make_run("shared", more={"worth": [entry(0.15, "inconclusive", differ=6)] * 3}, test_split="shared")
    (line,) = headlines(report_of(shared).groups)
    assert "together" not in line, "peers may have the same rows"
    alone = make_run("alone", only=2, own=lambda rank: {"worth": entry(0.5, "improved")})
    assert headlines(report_of(alone).groups) == ["1 of 1 peer improved over local only"]


def seconds(exchange: float) -> dict[str, float]:
    return {"train_seconds": 5.0, "exchange_seconds": exchange, "mix_seconds": 0.5}


def test_a_round_s_costs_are_means_over_peers_and_rounds(make_run: Any, report_of: Of) -> None:
    plain = make_run("plain", lines=lambda rank, line: seconds(2.0 + rank))
    late = make_run("late", lines=lambda rank, line: seconds(0.5), compress="int8")
    report = report_of(plain, late)
    assert parts_of(report.groups[0]) == pytest.approx((5.0, 3.0, 0.5)), "of ranks that wait 2, 3 and 4 s"
    assert parts_of(report.groups[1]) == pytest.approx((5.0, 0.5, 0.5))
    panel = time_and_bytes(report)
    times, megabytes = panel.figure.axes
    lengths = [sum(patch.get_width() for patch in times.patches if patch.get_y() == y) for y in (-0.25, 0.75)]
    assert lengths == pytest.approx([8.5, 6.0]), "a row is as long as its round"
    assert [patch.get_width() for patch in megabytes.patches] == [2.0, 2.0]
    assert [line.get_xdata()[0] for line in megabytes.lines] == [3.0, 3.0]
    assert panel.alt.startswith(
        "Bars of a round's seconds and megabytes. compress -: 8.5 s (training 5.0 s, waiting 3.0 s, mixing "
        "500 ms); 2.0 MB sent, 3.0 MB by the busiest peer."
    )


def test_of_rounds_without_seconds_only_bytes_are_shown(make_run: Any, report_of: Of) -> None:
    sat_out = make_run("sat-out", lines=lambda rank, line: {**seconds(2.0), "active": False, "bytes_sent": 0})
    panel = time_and_bytes(report_of(sat_out))
    assert panel.alt.endswith("dfedmdc: 0 B sent, 0 B by the busiest peer.")
    begun = make_run("begun", rounds=0)
    assert time_and_bytes(report_of(begun)) is None


@pytest.mark.parametrize(("low", "high"), [(0.03, 1.5), (1e-3, 1.5), (1e-5, 2.0), (2.5e-16, 1.5), (1e-8, 300.0)])
def test_a_logarithmic_axis_has_ticks_over_any_number_of_decades(low: float, high: float) -> None:
    axes = Figure().subplots()
    axes.plot([1, 2], [low, high])
    axes.set_yscale("log")
    log_ticks(axes.yaxis)
    least, most = axes.get_ylim()
    assert 3 <= sum(least <= tick <= most for tick in axes.yaxis.get_majorticklocs()) <= 12
