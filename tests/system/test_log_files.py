"""Log files of real processes that are moved away, and that are limited."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow


def events(path: Path) -> list[str]:
    return [json.loads(line)["event"] for line in path.read_text().splitlines()]


def test_a_peer_goes_on_in_a_new_file_when_its_log_was_moved(
    task: str, dpeer: Callable[..., Any], slow_after: Callable[[int], tuple[str, ...]], hurry: Callable[[], None],
    free_ports: Callable[[int], int], until: Callable[..., Any], schedule: tuple[str, ...], tmp_path: Path,
) -> None:  # fmt: skip
    common = (
        "start",
        "--size",
        2,
        "--task",
        task,
        *schedule,
        "--rounds",
        4,
        "--base-port",
        free_ports(2),
        "--out",
        "run",
    )
    peers = [dpeer(*common, *slow_after(1), "--rank", rank, "--out", "run") for rank in range(2)]
    log = tmp_path / "run" / "rank-0" / "log.jsonl"
    until(lambda: log.is_file() and "round" in events(log))
    log.rename(log.with_name("log.jsonl.moved"))
    hurry()
    for peer in peers:
        peer.succeed()
    moved = events(log.with_name("log.jsonl.moved"))
    assert moved.count("round") + events(log).count("round") == 4
    assert "round" in moved
    assert "connected" not in events(log)


def test_a_peer_keeps_one_older_log_of_the_largest_size(
    task: str, dpeer: Callable[..., Any], schedule: tuple[str, ...], tmp_path: Path
) -> None:
    common = ("cluster", "--size", 2, "--task", task, *schedule, "--out", "run")
    dpeer(*common, "--rounds", 20, "--log-level", "debug", "--log-max", "1kB").succeed()
    folder = tmp_path / "run" / "rank-0"
    older, newer = folder / "log.jsonl.1", folder / "log.jsonl"
    assert older.stat().st_size <= 1000
    assert newer.stat().st_size <= 1000
    assert (events(older) + events(newer)).count("round") < 20
    refused = dpeer(*common, "--overwrite", "--log-max", "50 many")
    assert refused.wait() == 2
    assert "--log-max = '50 many': expected a size, for example 50MB" in refused.output
