"""The strips of a simulation with faults."""

from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from dpeer.report import faults as strips
from dpeer.results.faults import Faults


def test_nothing_is_sat_out_before_the_rank_is_back_even_if_that_takes_no_time() -> None:
    crash = {"what": "crash", "rank": 0, "round": 1, "own_round": 1, "time": 1.5, "until_round": 4, "until_time": 4.5}
    # A round that is sat out may be over at the moment, to a thousandth, at which the rank begins again.
    rank = {"rank": 0, "status": "done", "completed_at": [1.0, 4.5, 4.55], "sat_out": [1, 2]}
    axes = Figure().subplots()
    strips._draw(axes, Faults.of({"time": 4.55, "happened": [crash], "ranks": [rank]}))
    began = [
        path.get_extents().x0
        for one in axes.collections
        if to_hex(one.get_facecolor()[0]) == strips._SAT_OUT.lower()
        for path in one.get_paths()
    ]
    assert min(began) == 4.5
