"""The panel of a round's time: its parts add up to the round, and what overlap hides is apart."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeer.report.facets import Report
from dpeer.report.round_time import parts_of, round_times

Of = Callable[..., Report]


def seconds(received: float, hidden: float, exchange: float = 3.0, train: float = 5.0) -> dict[str, float]:
    return {
        "train_seconds": train, "exchange_seconds": exchange, "mix_seconds": 0.5, "receive_seconds": received,
        "hidden_seconds": hidden,
    }  # fmt: skip


def test_parts_are_means_over_peers_and_rounds(make_run: Any, report_of: Of) -> None:
    plain = make_run("plain", lines=lambda rank, line: seconds(2.0 + rank, 0.0) if line["round"] else seconds(0.0, 0.0))
    late = make_run("late", lines=lambda rank, line: seconds(4.0, 3.5, exchange=0.5), overlap=1)
    report = report_of(plain, late)
    waits = (2.0 + 3.0 + 3.0) / 6  # of rank 2 no more than it waited at all
    assert parts_of(report.groups[0]) == pytest.approx((5.0, waits, 3.0 - waits, 0.5, 0.0))
    assert parts_of(report.groups[1]) == pytest.approx((5.0, 0.5, 0.0, 0.5, 3.5))
    panel = round_times(report)
    assert panel is not None
    assert panel.figure is not None
    (axes,) = panel.figure.axes
    lengths = sorted(sum(patch.get_width() for patch in axes.patches if patch.get_y() == y) for y in {-0.25, 0.75})
    assert lengths == pytest.approx([6.0, 8.5]), "a row is as long as its round"
    assert "8.5 s, 16% of it waiting for the line; 0 ms hidden." in panel.alt
    assert "6.0 s, 8% of it waiting for the line; 3.5 s hidden." in panel.alt


def test_without_bodies_in_chunks_or_of_earlier_versions_nothing_is_drawn(make_run: Any, report_of: Of) -> None:
    assert round_times(report_of(make_run("small", lines=lambda rank, line: seconds(0.0, 0.0)))) is None
    assert round_times(report_of(make_run("older"))) is None
    sat_out = make_run("sat-out", lines=lambda rank, line: {**seconds(2.0, 0.0), "active": False})
    assert round_times(report_of(sat_out)) is None


def test_the_page_has_the_picture(make_run: Any, tmp_path: Path) -> None:
    from dpeer.report.page import write_report
    from dpeer.results.reading import find_runs

    runs = find_runs([make_run("plain", lines=lambda rank, line: seconds(2.0, 0.0))])
    paths = write_report(runs, tmp_path / "report", [], None)
    assert tmp_path / "report" / "round-time.png" in paths
    assert "Time of a round" in paths[0].read_text()
