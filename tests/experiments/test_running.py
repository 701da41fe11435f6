"""Running cells by a launcher: what becomes of those that are done, lost, stopped or failed."""

import os
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from dpeer.exceptions import CellFailed, ConfigurationError, DpeerError
from dpeer.experiments.cells import Cell
from dpeer.experiments.launchers.launcher import Ended
from dpeer.experiments.running import run_cells
from tests.experiments.conftest import finish

LOST = Ended("lost", "its worker is lost", 1)


class Scripted:
    """A launcher whose cells end as a test says, by seed and one after the other; those without a word are done.

    Args:
        endings: A round to complete first, and an end.
    """

    def __init__(self, room: int, endings: Mapping[int, Sequence[tuple[int, Ended]]], *, restarts: bool = True) -> None:
        self.room, self.restarts = room, restarts
        self._endings: dict[int, list[tuple[int, Ended]]] = defaultdict(list)
        self._endings |= {seed: list(ends) for seed, ends in endings.items()}
        self._running: list[Cell] = []
        self.started: list[int] = []
        self.stops = 0
        self.at_start: Callable[[int], None] = lambda seed: None
        self.lines: list[str] = []
        self.told: list[str] = []

    def start(self, cell: Cell) -> None:
        self.at_start(cell.seed)
        self.started.append(cell.seed)
        self._running.append(cell)

    def ended(self, seconds: float) -> list[tuple[Cell, Ended]]:
        if self.stops:
            return [(self._running.pop(0), Ended("stopped"))]
        cell = self._running.pop(0)
        if not self._endings[cell.seed]:
            finish(cell)
            return [(cell, Ended("done"))]
        completed, ended = self._endings[cell.seed].pop(0)
        if completed:
            (cell.folder / f"rank-0/checkpoint/round-{completed - 1:08}").mkdir(parents=True, exist_ok=True)
        return [(cell, ended)]

    def stop(self) -> None:
        self.stops += 1

    def kill(self) -> None:
        raise AssertionError("one signal only")

    def run(self, cells: Sequence[Cell]) -> bool:
        @contextmanager
        def opened(missing: Sequence[Cell], show: Callable[[str], None]) -> Iterator[Scripted]:
            yield self

        return run_cells(cells, opened, self.told.append, self.lines.append)


def names(*seeds: int) -> list[str]:
    return [f"local-default-seed{seed}" for seed in seeds]


def test_a_cell_that_is_lost_is_started_again_before_the_others_and_with_its_rounds(cells: list[Cell]) -> None:
    launcher = Scripted(1, {1: [(2, LOST)]})
    assert launcher.run(cells)
    assert launcher.started == [0, 1, 1, 2]
    assert launcher.told == names(0, 1, 2)
    assert launcher.lines == [
        "local-default-seed1: its worker is lost; it goes on elsewhere after 2 of 20 rounds"
    ]  # fmt: skip
    assert Scripted(1, {0: [(0, LOST)]}).run(cells), "all are done: none is started"


def test_a_cell_that_its_host_stops_unasked_is_started_again(cells: list[Cell]) -> None:
    launcher = Scripted(3, {0: [(1, Ended("stopped"))]})
    assert launcher.run(cells)
    assert launcher.lines[0].startswith("local-default-seed0: stopped by its host; it goes on")


def test_a_cell_that_completes_rounds_may_be_lost_often_and_one_that_does_not_three_times(cells: list[Cell]) -> None:
    assert Scripted(1, {0: [(number // 2, LOST) for number in range(12)]}).run(cells[:1])
    launcher = Scripted(2, {1: [(0, LOST), (1, LOST), (1, LOST), (1, LOST)]})
    with pytest.raises(CellFailed, match="seed1: its worker is lost, 3 times in a row without a completed round"):
        launcher.run(cells[1:])
    assert (launcher.started.count(1), launcher.stops) == (4, 1)
    assert launcher.lines[0] == "local-default-seed1: its worker is lost; it begins anew"


def test_here_a_lost_cell_ends_the_comparison_and_one_that_was_stopped_stops_it(cells: list[Cell]) -> None:
    launcher = Scripted(1, {0: [(0, LOST)]}, restarts=False)
    with pytest.raises(CellFailed, match="seed0: its worker is lost"):
        launcher.run(cells)
    assert launcher.started == [0]
    launcher = Scripted(1, {0: [(0, Ended("stopped"))]}, restarts=False)
    assert not launcher.run(cells)
    assert (launcher.started, launcher.lines) == ([0], [])


def test_a_failed_cell_ends_the_comparison_with_its_code_after_the_others_were_stopped(cells: list[Cell]) -> None:
    launcher = Scripted(2, {0: [(0, Ended("failed", "no such file", 2, "Traceback"))]})
    with pytest.raises(CellFailed, match="local-default-seed0: no such file") as raised:
        launcher.run(cells)
    assert raised.value.exit_code == 2
    assert raised.value.__notes__ == ["Traceback"]
    assert (launcher.started, launcher.stops) == ([0, 1], 1)


def test_a_cell_that_cannot_be_started_ends_the_comparison_after_the_others_were_stopped(cells: list[Cell]) -> None:
    def refuse(seed: int) -> None:
        if seed == 1:
            raise ConfigurationError("no space left")

    launcher = Scripted(3, {})
    launcher.at_start = refuse
    with pytest.raises(DpeerError, match="no space left"):
        launcher.run(cells)
    assert (launcher.started, launcher.stops, launcher.told) == ([0], 1, [])


def test_ctrl_c_stops_what_runs_once_and_starts_nothing_more(cells: list[Cell]) -> None:
    launcher = Scripted(2, {})
    launcher.at_start = lambda seed: os.kill(os.getpid(), signal.SIGINT) if seed == 1 else None
    before = signal.getsignal(signal.SIGINT)
    assert not launcher.run(cells)
    assert (launcher.started, launcher.stops, launcher.lines) == ([0, 1], 1, [])
    assert signal.getsignal(signal.SIGINT) == before
