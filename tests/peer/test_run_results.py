"""Totals over a run's rounds."""

import json

from dpeer.peer.run_results import Totals


def test_totals_add_up_whatever_lines_the_file_has_lost_and_survive_json() -> None:
    first = {"round": 0, "bytes_sent": 10, "bytes_received": 1, "heard": [1]}
    second = {"round": 1, "bytes_sent": 20, "bytes_received": None, "heard": []}
    totals = Totals().plus(first, best=True).plus(second)
    assert totals == Totals(last=second, best=first, bytes_sent=30, bytes_received=1, mixed=1)
    assert Totals(**json.loads(json.dumps(totals.as_dict()))) == totals


def test_plain_totals_do_not_change_with_the_last_line() -> None:
    line = {"round": 0, "accuracy_finished": None}
    plain = Totals().plus(line).as_dict()
    line["accuracy_finished"] = 0.5
    assert plain["last"]["accuracy_finished"] is None
