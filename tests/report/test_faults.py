"""The strips of a simulation with faults."""

import json
from collections.abc import Callable
from pathlib import Path

from matplotlib.colors import to_hex

from dpeer.report.facets import Report
from dpeer.report.faults import SAT_OUT, strips
from dpeer.results.groups import ACCURACY, group_runs
from dpeer.results.reading import find_runs


def test_nothing_is_sat_out_before_the_rank_is_back_even_if_that_takes_no_time(make_run: Callable[..., Path]) -> None:
    crash = {"what": "crash", "rank": 0, "round": 1, "own_round": 1, "time": 1.5, "until_round": 4, "until_time": 4.5}
    # A round that is sat out may be over at the moment, to a thousandth, at which the rank begins again.
    rank = {"rank": 0, "status": "done", "completed_at": [1.0, 4.5, 4.55], "sat_out": [1, 2]}
    path = make_run("run") / "summary.json"
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {"faults": {"time": 4.55, "happened": [crash], "ranks": [rank]}})
    )
    panel = strips(Report.of(group_runs(find_runs([path.parent])), ACCURACY))
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
