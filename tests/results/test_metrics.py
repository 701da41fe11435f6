"""metrics.jsonl, kept in step with the checkpoint."""

import json
from pathlib import Path

from dpeer.results.metrics import MetricsFile


def entry(number: int) -> dict[str, int]:
    return {"round": number, "bytes_sent": 10 * (number + 1), "bytes_received": 1}


def test_lines_of_rounds_that_are_run_again_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    first = MetricsFile(path, 0)
    for number in range(3):
        first.append(entry(number))
    with path.open("a") as file:
        file.write('{"round": 3, "byt')
    again = MetricsFile(path, 2)
    assert (again.last, again.bytes_sent, again.bytes_received) == (entry(1), 30, 2)
    assert again.entry(2) == entry(2), "nothing is removed before the run begins"
    again.rewrite()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [entry(0), entry(1)]
    assert again.entry(2) is None
    again.append(entry(2))
    assert again.entry(2) == entry(2)
    assert again.bytes_sent == 60


def test_without_a_file_the_last_line_is_known_all_the_same() -> None:
    metrics = MetricsFile(None, 0)
    metrics.append(entry(0))
    assert (metrics.last, metrics.bytes_sent, metrics.entry(0)) == (entry(0), 10, None)
