"""What becomes of cells that are done, lost, stopped or failed, wherever they run; and a cell on another host."""

import os
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from dpeer import __version__
from dpeer.exceptions import CellFailed, ConfigurationError, DpeerError
from dpeer.experiments.cells import Cell, Condition, make_cell
from dpeer.experiments.launchers.host import Order, order, run_order, seen
from dpeer.experiments.launchers.launcher import Ended
from dpeer.experiments.running import run_cells
from dpeer.experiments.variants import parse_variant
from dpeer.federation.rank_lock import held
from dpeer.results.files import write_json

LOST = Ended("lost", "its worker is lost", 1)
HERE = (__version__, torch.__version__)


@pytest.fixture
def cells(tmp_path: Path) -> list[Cell]:
    condition = Condition({"topology": "ring", "partition": None})
    return [make_cell({}, parse_variant("local"), condition, seed, tmp_path) for seed in range(3)]


def finish(cell: Cell) -> None:
    write_json(cell.folder / "summary.json", {"status": "done", "algorithm": "local", "size": 8, "rounds": 20})


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
            raise ConfigurationError("sbatch refuses a job")

    launcher = Scripted(3, {})
    launcher.at_start = refuse
    with pytest.raises(DpeerError, match="sbatch refuses a job"):
        launcher.run(cells)
    assert (launcher.started, launcher.stops, launcher.told) == ([0], 1, [])


def test_ctrl_c_stops_what_runs_once_and_starts_nothing_more(cells: list[Cell]) -> None:
    launcher = Scripted(2, {})
    launcher.at_start = lambda seed: os.kill(os.getpid(), signal.SIGINT) if seed == 1 else None
    before = signal.getsignal(signal.SIGINT)
    assert not launcher.run(cells)
    assert (launcher.started, launcher.stops, launcher.lines) == ([0, 1], 1, [])
    assert signal.getsignal(signal.SIGINT) == before


def ordered(cell: Cell, home: Path, versions: tuple[str, str] = HERE) -> Order:
    return Order(cell.settings, str(home), versions)


def test_a_host_that_lacks_something_names_it_and_runs_nothing(cells: list[Cell], tmp_path: Path) -> None:
    cell = cells[0]
    ended = run_order(ordered(cell, tmp_path), seen_within=0)
    assert ended.status == "failed"
    assert f": no '{cell.folder}': --out must be on a file system that all hosts share" in str(ended.error)
    cell.claim()
    ended = run_order(ordered(cell, tmp_path / "gone"), seen_within=0)
    assert "gone', the working folder that relative paths start from: begin where all hosts see it" in str(ended.error)
    ended = run_order(ordered(cell, tmp_path, ("0.0.1", "2.0")), seen_within=0)
    assert f"dpeer {HERE[0]} with torch {HERE[1]}, and the comparison has dpeer 0.0.1 with torch 2.0: " in str(
        ended.error
    )
    assert {path.name for path in cell.folder.iterdir()} == {"cell.json"}


def test_a_cell_that_another_process_still_runs_is_waited_for_and_not_run_twice(
    cells: list[Cell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = cells[0]
    cell.claim()
    other = held(cell.folder / "rank-0")
    other.__enter__()

    def wait(seconds: float) -> None:
        finish(cell)
        other.__exit__(None, None, None)

    monkeypatch.setattr(time, "sleep", wait)
    mask, home = signal.pthread_sigmask(signal.SIG_BLOCK, []), Path.cwd()
    assert run_order(ordered(cell, tmp_path)) == Ended("done")
    assert (signal.pthread_sigmask(signal.SIG_BLOCK, []), Path.cwd()) == (mask, home)
    assert not (cell.folder / "rank-0" / "metrics.jsonl").exists()


def test_a_signal_ends_the_wait_for_another_process(cells: list[Cell], small_task: Path) -> None:
    folder = Path("cell")
    base = {"task": "mine.py:task", "size": 2, "rounds": 1}
    cell = make_cell(base, parse_variant("local"), cells[0].condition, 0, folder)
    cell.claim()
    handled: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: handled.append(number))
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)  # as it comes while the order is taken
    try:
        with held(cell.folder / "rank-0"):
            assert run_order(order(cell, 1)) == Ended("stopped")
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        assert handled == [], "it has had its effect"
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        signal.signal(signal.SIGTERM, before)


def test_an_order_has_an_absolute_folder_and_as_many_threads_as_it_may_use(small_task: Path) -> None:
    cell = make_cell({}, parse_variant("local"), Condition({"topology": "ring", "partition": None}), 0, Path("out"))
    sent = order(cell, 3)
    assert (sent.settings.out, sent.settings.workers) == (Path.cwd() / cell.folder, 3)
    assert (sent.home, sent.versions) == (str(Path.cwd()), HERE)


def test_a_cell_is_done_once_its_files_show_it_here(cells: list[Cell]) -> None:
    cell = cells[0]
    ended = seen(cell, Ended("done"), 0)
    assert ended.error == f"done on its host, and '{cell.folder}/summary.json' does not show it here"
    assert seen(cell, LOST, 0) == LOST
    cell.claim()
    finish(cell)
    assert seen(cell, Ended("done"), 0) == Ended("done")
