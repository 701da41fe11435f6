"""Progress over a run's rounds."""

import json

from dpeer.peer.run_results import Progress


def test_sums_are_of_all_rounds_whatever_lines_the_file_has_lost_and_survive_json() -> None:
    first = {"round": 0, "bytes_sent": 10, "bytes_received": 1, "heard": [1]}
    second = {"round": 1, "bytes_sent": 20, "bytes_received": None, "heard": []}
    progress = Progress().plus(first, best=True, now=5.0, seconds=1.0, lost={})
    progress = progress.plus(second, best=False, now=7.0, seconds=3.0, lost={1: "stopped"})
    assert progress == Progress(second, first, 30, 1, 1, 0, 5.0, 3.0, {"1": "stopped"})
    assert Progress(**json.loads(json.dumps(vars(progress)))) == progress
