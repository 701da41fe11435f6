"""Running cells by a launcher: what becomes of those that are done, lost, stopped or failed."""

import os
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from dpeer.exceptions import CellFailed, ConfigurationError, DpeerError
from dpeer.experiments.cells import Cell
from dpeer.experiments.launchers import Ended, run_cells
from tests.experiments.conftest import finish

LOST = Ended("lost", "its worker is lost", 1)


class Scripted:
    """A launcher whose cells end as a test says, by seed and one after the other; those without a word are done.

    Args:
        endings: The ends.
    """

    def __init__(self, room: int, endings: Mapping[int, Sequence[Ended]]) -> None:
        self.room = room
        self._endings: dict[int, list[Ended]] = defaultdict(list)
        self._endings |= {seed: list(ends) for seed, ends in endings.items()}
        self._running: list[Cell] = []
        self.started: list[int] = []
        self.stops = 0
        self.at_start: Callable[[int], None] = lambda seed: None
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
        return [(cell, self._endings[cell.seed].pop(0))]

    def stop(self) -> None:
        self.stops += 1

    def kill(self) -> None:
        raise AssertionError("one signal only")

    def run(self, cells: Sequence[Cell]) -> bool:
        @contextmanager
        def opened(missing: Sequence[Cell]) -> Iterator[Scripted]:
            yield self

        return run_cells(cells, opened, self.told.append)


def names(*seeds: int) -> list[str]:
    return [f"local-default-seed{seed}" for seed in seeds]


def test_cells_run_in_their_order_and_those_that_are_done_are_not_started(cells: list[Cell]) -> None:
    launcher = Scripted(1, {})
    assert launcher.run(cells)
    assert launcher.started == [0, 1, 2]
    assert launcher.told == names(0, 1, 2)
    assert Scripted(1, {0: [LOST]}).run(cells), "all are done: none is started"


def test_a_lost_cell_ends_the_comparison_and_one_that_was_stopped_stops_it(cells: list[Cell]) -> None:
    launcher = Scripted(1, {0: [LOST]})
    with pytest.raises(CellFailed, match="seed0: its worker is lost"):
        launcher.run(cells)
    assert launcher.started == [0]
    launcher = Scripted(1, {0: [Ended("stopped")]})
    assert not launcher.run(cells)
    assert launcher.started == [0]


def test_a_failed_cell_ends_the_comparison_with_its_code_after_the_others_were_stopped(cells: list[Cell]) -> None:
    launcher = Scripted(2, {0: [Ended("failed", "no such file", 2, "Traceback")]})
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
    assert (launcher.started, launcher.stops) == ([0, 1], 1)
    assert signal.getsignal(signal.SIGINT) == before
